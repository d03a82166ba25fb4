package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/server"
)

// SEC-01: without access control only loopback is listened on.
func TestSEC01OnlyLoopbackIsServed(t *testing.T) {
	t.Parallel()
	for _, addr := range []net.Addr{
		&net.TCPAddr{IP: net.IPv4zero, Port: 1}, &net.TCPAddr{IP: net.IPv6unspecified, Port: 1}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1},
		&net.TCPAddr{Port: 1}, &net.UnixAddr{Name: "x"},
	} {
		l := &listenerAt{addr: addr}
		err := server.New(server.Options{Sequencer: newDouble()}).Serve(within(t, callTime), l)
		if !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(err.Error(), "loopback") || !l.closed {
			t.Errorf("%v: got %v (closed: %v), want a refusal", addr, err, l.closed)
		}
	}
}

type listenerAt struct {
	net.Listener
	addr   net.Addr
	closed bool
}

func (l *listenerAt) Addr() net.Addr { return l.addr }
func (l *listenerAt) Close() error   { l.closed = true; return nil }

// TLS and plaintext on one port; TLS below 1.2 is refused (SEC-60).
func TestOnePortTakesTLSAndPlaintext(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	e.dial(t, "plain").heartbeat(t, v2.ClientType_PRODUCER, "")
	e.dialTLS(t, "tls").heartbeat(t, v2.ClientType_PRODUCER, "")
	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", e.addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version, NextProtos: []string{"h2"}}) //nolint:gosec // the test's point
		if (err == nil) != works {
			t.Errorf("TLS version %x: got %v, want works %v", version, err, works)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

// SEC-46: a silent connection, one that stops inside its handshake, and one that trickles end at the handshake's limit;
// others are served meanwhile.
func TestSEC46HandshakesHaveADeadline(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), func(o *server.Options) { o.HandshakeTimeout = 500 * time.Millisecond })
	for name, first := range map[string]string{"silent": "", "half a TLS record": "\x16\x03\x01\x02", "half a preface": "PRI * HT"} {
		conn := e.dialTCP(t)
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
		e.dial(t, "other").heartbeat(t, v2.ClientType_PRODUCER, "")
		began := time.Now()
		if n, _ := io.Copy(io.Discard, conn); n > 100 || time.Since(began) > 3*time.Second {
			t.Errorf("%s: %d bytes, ended after %v", name, n, time.Since(began))
		}
	}
}

func (e *edge) dialTCP(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(callTime)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// SEC-52: another protocol gets nothing and is closed at once.
func TestSEC52OtherProtocolsGetNothing(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00\x00\x01\x2c{\"code\":105}", "SSH-2.0-x\r\n", "\x80\x2e\x01\x00\x02"} {
		conn := e.dialTCP(t)
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		answer, _ := io.ReadAll(conn) // a reset is as good as an end
		if len(answer) > 0 || time.Since(began) > 3*time.Second {
			t.Errorf("%q: answered %q after %v", first, answer, time.Since(began))
		}
	}
	// HTTP/1.1 with a method that begins like the preface.
	conn := e.dialTCP(t)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if answer, _ := io.ReadAll(conn); bytes.Contains(answer, []byte("200")) {
		t.Errorf("answered %q", answer)
	}
	if got := e.server.Stats(); got.HandshakeFailures < 4 {
		t.Errorf("got %+v, want 4 counted", got)
	}
}

// SEC-47: connections are bounded: one over the bound is closed at once, and when one ends there is room again.
func TestSEC47ConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), func(o *server.Options) { o.MaxConnections = 2 })
	one, two := e.dial(t, "one"), e.dial(t, "two")
	one.heartbeat(t, v2.ClientType_PRODUCER, "")
	two.heartbeat(t, v2.ClientType_PRODUCER, "")
	if n, err := io.Copy(io.Discard, e.dialTCP(t)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("third: %d bytes, %v", n, err)
	}
	if got := e.server.Stats(); got.Refused != 1 || got.Connections != 2 {
		t.Errorf("got %+v, want one refused", got)
	}
	if err := one.conn.Close(); err != nil {
		t.Fatal(err)
	}
	three := e.dial(t, "three")
	_, err := three.Heartbeat(three.ctx(t, callTime), &v2.HeartbeatRequest{ClientType: v2.ClientType_PRODUCER})
	for status.Code(err) == codes.Unavailable { // the close may be on its way yet
		_, err = three.Heartbeat(three.ctx(t, callTime), &v2.HeartbeatRequest{ClientType: v2.ClientType_PRODUCER})
	}
	if err != nil {
		t.Error(err)
	}
}

// SEC-47: one connection speaks for a bounded number of clients; the refusal is retryable.
func TestSEC47ClientIDsPerConnectionAreBounded(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	c := e.dial(t, "c-0")
	for i := range 300 {
		c.id = "c-" + strings.Repeat("x", i%200) + string(rune('a'+i/200))
		answer, err := c.Heartbeat(c.ctx(t, callTime), &v2.HeartbeatRequest{ClientType: v2.ClientType_PRODUCER})
		want := v2.Code_OK
		if i >= 256 {
			want = v2.Code_TOO_MANY_REQUESTS
		}
		if err != nil || answer.GetStatus().GetCode() != want {
			t.Fatalf("id %d: got %v, %v; want %v", i, answer, err, want)
		}
	}
	if got := e.server.Stats().Clients; got != 256 {
		t.Errorf("%d clients, want 256", got)
	}
}

// SEC-50: a panic in one call is answered INTERNAL, counted and logged; the connection and the others go on; the peer
// learns nothing.
func TestSEC50APanicEndsOneCall(t *testing.T) {
	t.Parallel()
	d := newDouble()
	d.send = func(context.Context, string, []keystrand.Message) ([]keystrand.Receipt, error) { panic("secret place") }
	var log lockedBuffer
	e := serve(t, d, func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	c := e.dial(t, "c")
	session := c.session(t)
	settle(t, session, producerSettings())
	for range 2 {
		_, err := c.SendMessage(c.ctx(t, callTime), &v2.SendMessageRequest{Messages: []*v2.Message{newMessage("orders", "A", "x")}})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want INTERNAL without a word of the place", err)
		}
	}
	settle(t, session, producerSettings())
	if got := e.server.Stats(); got.Panics != 2 || got.HeldBytes > 200 || got.Accepted != 1 {
		t.Errorf("got %+v, want 2 panics, nothing held but the session's settings, one connection", got)
	}
	if !strings.Contains(log.String(), "secret place") {
		t.Error("the panic is not in the log")
	}
}

type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// SEC-40: a length over the frame limit is refused before anything of the message is kept.
func TestSEC40OversizedMessagesAreRefusedByTheirLength(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	h := e.dialHTTP2(t)
	h.headers(1, "SendMessage", "c")
	var prefix [5]byte
	binary.BigEndian.PutUint32(prefix[1:], 1<<31)
	h.must(h.framer.WriteData(1, false, prefix[:]))
	if got := h.status(1); got != "8" { // RESOURCE_EXHAUSTED
		t.Errorf("2 GiB announced: grpc-status %s, want 8", got)
	}
	c := e.dial(t, "c")
	m := newMessage("orders", "A", "x")
	m.Body = make([]byte, 9<<20)
	if _, err := c.SendMessage(c.ctx(t, callTime), &v2.SendMessageRequest{Messages: []*v2.Message{m}}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("9 MiB: got %v, want ResourceExhausted", err)
	}
}

// SEC-40: unfinished requests are bounded together: who holds more than the average is cut, others go on, and the memory is free again.
func TestSEC40UnfinishedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), func(o *server.Options) { o.MaxHeldBytes = 4 << 20 })
	good := e.dial(t, "good")
	good.heartbeat(t, v2.ClientType_PRODUCER, "")
	h := e.dialHTTP2(t)
	cut := false
	for stream := uint32(1); stream < 200 && !cut; stream += 2 {
		h.headers(stream, "SendMessage", "bad")
		var prefix [5]byte
		binary.BigEndian.PutUint32(prefix[1:], 1<<20)
		cut = h.framer.WriteData(stream, false, append(prefix[:], make([]byte, 8000)...)) != nil
		for range 8 {
			cut = cut || h.framer.WriteData(stream, false, make([]byte, 16000)) != nil
		}
	}
	if !cut {
		h.drained()
	}
	good.heartbeat(t, v2.ClientType_PRODUCER, "")
	if got := e.server.Stats(); got.Cut != 1 || got.HeldBytes != 0 || got.Connections != 1 {
		t.Errorf("got %+v, want one cut, nothing held, one connection left", got)
	}
}

// SEC-45: a client that opens and resets calls without end is cut off; the others go on.
func TestSEC45RapidResetIsCutOff(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	good := e.dial(t, "good")
	good.heartbeat(t, v2.ClientType_PRODUCER, "")
	for name, flood := range map[string]func(h *http2Client, i uint32) error{
		"resets": func(h *http2Client, i uint32) error {
			h.headers(2*i+1, "Heartbeat", "bad")
			return h.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		},
		"settings": func(h *http2Client, _ uint32) error { return h.framer.WriteSettings() },
		"priority": func(h *http2Client, i uint32) error {
			return h.framer.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 0, Weight: 1})
		},
	} {
		h := e.dialHTTP2(t)
		for i := uint32(0); i < 20000; i++ {
			if flood(h, i) != nil {
				break
			}
			good.checkEvery(t, i)
		}
		h.drained()
		t.Logf("%s: %+v", name, e.server.Stats())
	}
	if got := e.server.Stats(); got.Connections != 1 || got.Cut == 0 {
		t.Errorf("got %+v, want only the good connection", got)
	}
}

func (r *raw) checkEvery(t *testing.T, i uint32) {
	if i%500 == 0 {
		r.heartbeat(t, v2.ClientType_PRODUCER, "")
	}
}

// SEC-46: a request that trickles in ends, whatever deadline its client names.
func TestSEC46TricklingRequestsEnd(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), func(o *server.Options) { o.CallTimeout = 300 * time.Millisecond })
	for _, timeout := range []string{"", "99999999H"} {
		h := e.dialHTTP2(t)
		h.timeout = timeout
		h.headers(1, "SendMessage", "c")
		h.must(h.framer.WriteData(1, false, []byte{0, 0, 0, 1, 0, 'x'}))
		if got := h.status(1); got != "4" { // DEADLINE_EXCEEDED
			t.Errorf("timeout %q: grpc-status %s, want 4", timeout, got)
		}
	}
	// A telemetry stream has no end.
	c := e.dial(t, "c")
	session := c.session(t)
	settle(t, session, producerSettings())
	timer := time.NewTimer(500 * time.Millisecond)
	<-timer.C
	settle(t, session, producerSettings())
}

// SEC-40: headers are bounded.
func TestSEC40HeadersAreBounded(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	ctx := metadata.AppendToOutgoingContext(c.ctx(t, callTime), "x-large", strings.Repeat("x", 100<<10))
	if _, err := c.Heartbeat(ctx, &v2.HeartbeatRequest{ClientType: v2.ClientType_PRODUCER}); err == nil {
		t.Error("100 KiB of headers were taken")
	}
	c.heartbeat(t, v2.ClientType_PRODUCER, "")
}

// SEC-23: a path that is not exactly a call's is refused.
func TestSEC23PathsAreExact(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	for i, path := range []string{"apache.rocketmq.v2.MessagingService/Heartbeat", "//apache.rocketmq.v2.MessagingService/Heartbeat", "/apache.rocketmq.v2.MessagingService/heartbeat", "/apache.rocketmq.v2.MessagingService/Heart%62eat", "/apache.rocketmq.v2.MessagingService//Heartbeat"} {
		h := e.dialHTTP2(t)
		h.path(1, path, "c", true)
		if got := h.status(1); got != "12" { // UNIMPLEMENTED
			t.Errorf("path %d %q: grpc-status %s, want 12", i, path, got)
		}
	}
}

// http2Client speaks HTTP/2 frame by frame.
type http2Client struct {
	t       *testing.T
	conn    net.Conn
	framer  *http2.Framer
	encoded bytes.Buffer
	encoder *hpack.Encoder
	timeout string
}

func (e *edge) dialHTTP2(t *testing.T) *http2Client {
	t.Helper()
	h := &http2Client{t: t, conn: e.dialTCP(t)}
	h.encoder = hpack.NewEncoder(&h.encoded)
	if _, err := io.WriteString(h.conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	h.framer = http2.NewFramer(h.conn, h.conn)
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.must(h.framer.WriteSettings())
	return h
}

func (h *http2Client) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// headers opens a call; failures show at the next write.
func (h *http2Client) headers(stream uint32, call, client string) {
	h.path(stream, "/apache.rocketmq.v2.MessagingService/"+call, client, false)
}

func (h *http2Client) path(stream uint32, path, client string, end bool) {
	h.encoded.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path}, {Name: ":authority", Value: "x"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "x-mq-client-id", Value: client},
	}
	if h.timeout != "" {
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: h.timeout})
	}
	for _, f := range fields {
		h.must(h.encoder.WriteField(f))
	}
	_ = h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.encoded.Bytes(), EndHeaders: true, EndStream: end})
}

// status reads until the call ends and returns its grpc-status.
func (h *http2Client) status(stream uint32) string {
	h.t.Helper()
	for {
		frame, err := h.framer.ReadFrame()
		if err != nil {
			h.t.Fatalf("no status before the end: %v", err)
		}
		if f, ok := frame.(*http2.MetaHeadersFrame); ok && f.StreamID == stream {
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					return field.Value
				}
			}
		}
	}
}

// drained reads until the server has closed.
func (h *http2Client) drained() {
	h.t.Helper()
	_, err := io.Copy(io.Discard, h.conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		h.t.Error("the connection was not closed")
	}
}
