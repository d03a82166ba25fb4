package admin

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
)

// serving runs a server with the backend and returns a client of it.
func serving(t *testing.T, f *fakeBackend) (*Client, *Server) {
	t.Helper()
	s, err := Open(Options{Backend: f, Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	group := task.NewGroup(t.Context())
	group.Go("server", s.Run)
	t.Cleanup(func() {
		if err := errors.Join(group.Stop(), s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	client, err := NewClient("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, s
}

func TestTopicsGoToTheBrokerAndBack(t *testing.T) {
	t.Parallel()
	f := newFake()
	client, _ := serving(t, f)
	want := Topic{Name: "orders", Type: "fifo", Queues: 2, Messages: 3, Offsets: []int64{0, 0}}
	got, err := client.CreateTopic(t.Context(), NewTopic{Name: "orders", Type: "fifo", Queues: 2})
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("create: %v\n%s", err, cmp.Diff(got, want))
	}
	if got, err := client.Topic(t.Context(), "orders"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("describe: %v\n%s", err, cmp.Diff(got, want))
	}
	if got, err := client.Topics(t.Context()); err != nil || !cmp.Equal(got, []Topic{want}) {
		t.Errorf("list: %v\n%s", err, cmp.Diff(got, []Topic{want}))
	}
	if _, err := client.CreateTopic(t.Context(), NewTopic{Name: "orders", Type: "fifo", Queues: 4}); !errors.Is(err, keystrand.ErrExists) || !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("other settings: got %v", err)
	}
	if _, err := client.Topic(t.Context(), "none"); !errors.Is(err, keystrand.ErrTopicNotFound) {
		t.Errorf("missing topic: got %v", err)
	}
	if _, err := client.Topic(t.Context(), "%DLQ%billing"); !errors.Is(err, keystrand.ErrTopicNotFound) {
		t.Errorf("missing dead-letter topic: got %v", err)
	}
}

func TestGroupSettingsSurviveTheWay(t *testing.T) {
	t.Parallel()
	f := newFake()
	client, _ := serving(t, f)
	spec := keystrand.GroupSpec{
		Name: "billing", Ordered: true, MaxAttempts: -1, AtLimit: keystrand.AtLimitBlock, From: "latest", OrderLevel: "queue", PushBatch: "many",
		PushWindow: 7, MaxProcessing: 20 * time.Second, BackOffMin: time.Second, BackOffMax: time.Minute,
	}
	got, err := client.CreateGroup(t.Context(), GroupSpecOf(spec))
	if err != nil || !cmp.Equal(got.Spec(), spec) || !cmp.Equal(f.groups["billing"], spec) {
		t.Fatalf("got %+v, %v; want %+v", got, err, spec)
	}
	if lag, err := client.Lag(t.Context(), "billing"); err != nil || len(lag) != 1 || lag[0].Unfinished != 2 || lag[0].ConsumerGroup != "billing" {
		t.Errorf("lag: %+v, %v", lag, err)
	}
	if _, err := client.Lag(t.Context(), "none"); !errors.Is(err, keystrand.ErrGroupNotFound) {
		t.Errorf("lag of a missing group: got %v", err)
	}
	if groups, err := client.Groups(t.Context()); err != nil || len(groups) != 1 || groups[0].Name != "billing" {
		t.Errorf("list: %+v, %v", groups, err)
	}
}

func TestBodiesOfAnyBytesSurviveTheWay(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{"text": []byte(`{"a":"ä<&>"}`), "bytes": {0xff, 0x00, 0x80}, "control": []byte("a\x01\n"), "lone replacement": []byte("\ufffd")} {
		f := newFake()
		client, _ := serving(t, f)
		f.groups["billing"] = keystrand.GroupSpec{Name: "billing"}
		receipt, err := client.Send(t.Context(), NewMessage{Topic: "orders", MessageID: "m-1", MessageGroup: "order-1", Tag: "Paid", Keys: []string{"k"}, Properties: map[string]string{"a": "b"}, Body: BodyOf(body)})
		if err != nil || receipt != (Receipt{Topic: "orders", MessageID: "m-1", Queue: 2}) {
			t.Fatalf("%s: send: %+v, %v", name, receipt, err)
		}
		sent := f.sent[0]
		f.deliveries = []keystrand.Delivery{{Message: sent, Queue: 2, Attempt: 1, Token: keystrand.Token{Broker: "aa", Value: 9}, ReceiptHandle: "h", Lease: time.Second}}
		got, err := client.Receive(t.Context(), Receive{ConsumerGroup: "billing", Topic: "orders", Max: 5, WaitMs: 10, InvisibleMs: 2000})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: receive: %+v, %v", name, got, err)
		}
		if !cmp.Equal(got[0].Content(), body) || got[0].MessageGroup != "order-1" || got[0].Token != "aa:9" || got[0].ReceiptHandle != "h" {
			t.Errorf("%s: got %+v", name, got[0])
		}
		if f.receive.Lease != 2*time.Second || f.receive.Wait != 10*time.Millisecond || f.receive.Max != 5 {
			t.Errorf("%s: asked %+v", name, f.receive)
		}
	}
}

func TestAnAckTellsEachHandleThatIsLate(t *testing.T) {
	t.Parallel()
	client, _ := serving(t, newFake())
	if err := client.Ack(t.Context(), Ack{ConsumerGroup: "g", Topic: "t", ReceiptHandles: []string{"a", "b"}}); err != nil {
		t.Errorf("good handles: %v", err)
	}
	err := client.Ack(t.Context(), Ack{ConsumerGroup: "g", Topic: "t", ReceiptHandles: []string{"a", "expired"}})
	if !errors.Is(err, keystrand.ErrLeaseExpired) || !errors.Is(err, keystrand.ErrSuperseded) {
		t.Errorf("late handle: got %v", err)
	}
}

func TestParkAndResumeTellHowTheStrandStands(t *testing.T) {
	t.Parallel()
	client, _ := serving(t, newFake())
	strand := Strand{ConsumerGroup: "billing", Topic: "orders", MessageGroup: "order 1/ä?&"}
	for i, step := range []struct {
		call func(context.Context, Strand) (Explanation, error)
		want string
	}{{client.Explain, "ready"}, {client.Park, "parked"}, {client.Explain, "parked"}, {client.Resume, "ready"}} {
		got, err := step.call(t.Context(), strand)
		if err != nil || got.Status != step.want || got.MessageGroup != strand.MessageGroup || got.Token != 1<<40|7 {
			t.Errorf("step %d: got %+v, %v; want %s", i, got, err, step.want)
		}
	}
}

func TestADeliveryThatNobodyReadsIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.groups["billing"] = keystrand.GroupSpec{Name: "billing"}
	f.deliveries = []keystrand.Delivery{{Message: keystrand.Message{ID: "m-1", Body: []byte("x")}}}
	w := ask(t, f, "POST", "/v1/receive", `{"consumer_group":"billing","topic":"orders"}`, func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		*r = *r.WithContext(ctx)
	})
	if len(f.returned) != 1 || w.Body.Len() != 0 {
		t.Errorf("returned %d deliveries, wrote %q", len(f.returned), w.Body)
	}
}

func TestAReceiveThatWaitsEndsWithTheServer(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.groups["billing"] = keystrand.GroupSpec{Name: "billing"}
	f.hold = make(chan struct{})
	s, err := Open(Options{Backend: f, Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	group := task.NewGroup(t.Context())
	group.Go("server", s.Run)
	client, err := NewClient("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	waiting := task.NewGroup(t.Context())
	waiting.Go("receive", func(ctx context.Context) error {
		_, err := client.Receive(ctx, Receive{ConsumerGroup: "billing", Topic: "orders", WaitMs: 30_000})
		if err == nil {
			return errors.New("a receive that was cut off answered as if it had waited")
		}
		return nil
	})
	<-f.hold
	start := time.Now()
	if err := errors.Join(group.Stop(), waiting.Wait(), s.Close()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > drainTimeout {
		t.Errorf("the stop took %v", took)
	}
}

func TestReceivesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	s := &service{backend: newFake(), held: make(chan struct{}, 1)}
	s.held <- struct{}{}
	s.logger = Options{}.complete().Logger
	r, err := http.NewRequestWithContext(t.Context(), "POST", "/v1/receive", strings.NewReader(`{"consumer_group":"billing","topic":"orders"}`))
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder()
	s.receive(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d", w.Code)
	}
}

func TestNoBrokerIsRetryLaterAndABrokenConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cut := task.NewGroup(t.Context())
	cut.Go("cut", func(context.Context) error {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return err
		}
		return conn.Close()
	})
	_, err = client.Send(t.Context(), NewMessage{Topic: "orders"})
	if !errors.Is(err, keystrand.ErrUnknown) || errors.Is(err, keystrand.ErrRetryLater) {
		t.Errorf("broken connection: got %v", err)
	}
	if err := errors.Join(cut.Wait(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err = client.Send(t.Context(), NewMessage{Topic: "orders"}); !errors.Is(err, keystrand.ErrRetryLater) || errors.Is(err, keystrand.ErrUnknown) {
		t.Errorf("nobody listens: got %v", err)
	}
	for _, server := range []string{"", "127.0.0.1:8088", "ftp://x", "http://"} {
		if _, err := NewClient(server); err == nil {
			t.Errorf("server %q is taken", server)
		}
	}
}

func TestEveryProblemFindsItsErrorAgain(t *testing.T) {
	t.Parallel()
	for _, row := range problemTable {
		p := problemOf(row.err)
		if p.Class != row.class || p.Code != row.code || p.Status < 400 || p.DoThis == "" {
			t.Errorf("%v became %+v", row.err, p)
		}
		if !errors.Is(p, row.err) {
			t.Errorf("%v is lost on the way: %+v", row.err, p)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBounded(inner, 1)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first, second := dial(), dial()
	defer first.Close()
	defer second.Close()
	served, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	group := task.NewGroup(t.Context())
	group.Go("accept", func(context.Context) error {
		conn, err := b.Accept()
		accepted <- conn
		return err
	})
	select {
	case <-accepted:
		t.Fatal("a second connection was accepted over the bound")
	case <-time.After(50 * time.Millisecond):
	}
	if err := errors.Join(served.Close(), ignoreClosed(served.Close())); err != nil { // the second Close frees nothing twice
		t.Fatal(err)
	}
	conn := <-accepted
	if err := errors.Join(group.Wait(), conn.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if len(b.slots) != 0 {
		t.Errorf("%d slots are still taken", len(b.slots))
	}
	if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
}

// A new error of the root package needs a row, or its peers are told its class only.
func TestEveryErrorOfTheRootPackageHasItsProblem(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "errors.go"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t(Err\w+)\s+= `).FindAllSubmatch(text, -1)
	if len(names) < 10 {
		t.Fatalf("only %d errors found", len(names))
	}
	for _, name := range names {
		if !bytes.Contains(rows, append([]byte("{keystrand."), append(name[1], ',')...)) {
			t.Errorf("keystrand.%s has no row in problemTable", name[1])
		}
	}
}

// Only the RocketMQ port is near enough to be named by mistake; it answers with frames of HTTP/2, or with a certificate of its own.
func TestAServerThatIsNoHTTPIsTheCallersMistake(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := task.NewGroup(t.Context())
	answer.Go("answer", func(context.Context) error {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			return err
		}
		_, err = conn.Write([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"))
		return errors.Join(err, conn.Close())
	})
	tools, _ := serving(t, newFake())
	for name, server := range map[string]string{"frames": "http://" + listener.Addr().String(), "https": strings.Replace(tools.base, "http:", "https:", 1)} {
		client, err := NewClient(server)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Topics(t.Context())
		if !errors.Is(err, keystrand.ErrRejected) || errors.Is(err, keystrand.ErrUnknown) || !strings.Contains(err.Error(), "http-addr") {
			t.Errorf("%s: got %v", name, err)
		}
		client.Close()
	}
	if err := errors.Join(answer.Wait(), listener.Close()); err != nil {
		t.Error(err)
	}
}
