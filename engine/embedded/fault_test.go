package embedded_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/engine/embedded"
)

// lossy makes connections that lose the next answer when armed: what arrives is thrown away and the connection is cut.
type lossy struct{ armed, struck atomic.Bool }

func (l *lossy) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return &lossyConn{c, l}, err
}

type lossyConn struct {
	net.Conn
	l *lossy
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && n > minAnswerBytes && c.l.armed.CompareAndSwap(true, false) {
		c.l.struck.Store(true)
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// minAnswerBytes tells an answer from the transport's own small frames.
const minAnswerBytes = 60

func dialled(t *testing.T, o embedded.DialOptions) (*served, *embedded.Remote) {
	t.Helper()
	s := &served{dir: t.TempDir(), grpc: "127.0.0.1:0"}
	serve(t, s)
	err := errors.Join(s.broker.CreateTopic(t.Context(), keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO}), s.broker.CreateGroup(t.Context(), keystrand.GroupSpec{Name: "stock", Ordered: true}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := embedded.Dial(t.Context(), s.grpc, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return s, e
}

func TestSendWhoseAnswerIsLostHasAnUnknownOutcome(t *testing.T) { // N03, P01
	t.Parallel()
	l := &lossy{}
	s, e := dialled(t, embedded.DialOptions{Dialer: l.dial})
	p, err := e.Producer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := keystrand.Message{ID: "M1", Topic: "orders", MessageGroup: "a", Body: []byte("x")}
	l.armed.Store(true)
	if _, err := p.Send(t.Context(), m); !errors.Is(err, keystrand.ErrUnknown) || !l.struck.Load() {
		t.Fatalf("the lost answer: %v, struck %v", err, l.struck.Load())
	}
	if _, err := p.Send(t.Context(), m); err != nil { // the connection came back
		t.Fatal(err)
	}
	if n := s.broker.Topics()[0].Messages; n != 2 {
		t.Errorf("%d copies are stored, want the lost one and its repeat", n)
	}
}

// L18: the broker has handed a message out, the client never saw it. The repeat under the same attempt id brings it at once,
// not after the lease, and no attempt is counted.
func TestReceiveWhoseAnswerIsLostIsRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	l := &lossy{}
	s, e := dialled(t, embedded.DialOptions{Dialer: l.dial})
	c, err := e.Consumer(t.Context(), keystrand.ConsumerOptions{Group: "stock", Topic: "orders", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.broker.Send(t.Context(), "orders", []keystrand.Message{{MessageGroup: "a", Body: make([]byte, 1000)}}, ""); err != nil {
		t.Fatal(err)
	}
	l.armed.Store(true)
	if _, err := c.Receive(t.Context(), 1); !errors.Is(err, keystrand.ErrRetryLater) {
		t.Fatalf("the lost answer: %v", err)
	}
	began := time.Now()
	got, err := c.Receive(t.Context(), 1)
	if err != nil || len(got) != 1 || got[0].Attempt != 1 {
		t.Fatalf("the repeat: %v, %v", got, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("came after %v", took)
	}
	if err := c.Ack(t.Context(), got...); err != nil {
		t.Error(err)
	}
}

func TestAckWhoseAnswerIsLostIsRepeated(t *testing.T) { // L04
	t.Parallel()
	l := &lossy{}
	s, e := dialled(t, embedded.DialOptions{Dialer: l.dial})
	if _, err := s.broker.Send(t.Context(), "orders", []keystrand.Message{{MessageGroup: "a", Body: []byte("x")}}, ""); err != nil {
		t.Fatal(err)
	}
	c, err := e.Consumer(t.Context(), keystrand.ConsumerOptions{Group: "stock", Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Receive(t.Context(), 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	l.armed.Store(true)
	if err := c.Ack(t.Context(), got...); !errors.Is(err, keystrand.ErrUnknown) {
		t.Fatalf("the lost answer: %v", err)
	}
	if err := c.Ack(t.Context(), got...); err != nil {
		t.Errorf("the repeat: %v", err)
	}
}
