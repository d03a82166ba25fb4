package server_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// within is a context that ends a wait which would otherwise hang the test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func (r *raw) heartbeat(t testing.TB, kind v2.ClientType, group string) {
	t.Helper()
	answer, err := r.Heartbeat(r.ctx(t, callTime), &v2.HeartbeatRequest{ClientType: kind, Group: resource(group)})
	if err != nil || answer.GetStatus().GetCode() != v2.Code_OK {
		t.Fatalf("heartbeat: %v, %v", answer, err)
	}
}

// The core hears that a client is gone when its last connection closes, not before, with 3 s of patience.
func TestAClientIsGoneWithItsLastConnection(t *testing.T) {
	t.Parallel()
	d := newDouble()
	e := serve(t, d, nil)
	one, two, other := e.dial(t, "c"), e.dialTLS(t, "c"), e.dial(t, "other")
	for _, r := range []*raw{one, two, other} {
		r.heartbeat(t, v2.ClientType_PUSH_CONSUMER, "g")
	}
	if err := one.conn.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if d.wait(ctx, func() bool { return len(d.gone) > 0 }) {
		t.Fatalf("gone with a connection left: %v", d.gone)
	}
	if err := two.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if !d.wait(within(t, callTime), func() bool { return len(d.gone) > 0 }) || d.gone[0] != (gone{"c", 3 * time.Second}) {
		t.Errorf("got %v, want c gone after 3 s", d.gone)
	}
	if got := e.server.Stats(); got.Clients != 1 || got.Connections != 1 {
		t.Errorf("got %+v, want one client and connection left", got)
	}
}

func TestGoodByeIsTold(t *testing.T) {
	t.Parallel()
	d := newDouble()
	c := serve(t, d, nil).dial(t, "c")
	if _, err := c.NotifyClientTermination(c.ctx(t, callTime), &v2.NotifyClientTerminationRequest{}); err != nil {
		t.Fatal(err)
	}
	if !d.wait(within(t, callTime), func() bool { return slices.Contains(d.gone, gone{"c", 0}) }) {
		t.Errorf("got %v, want c gone at once", d.gone)
	}
}

// Signs of life are told at the first call, at most once a second after it, at once for another group, and at once by the first
// call after a return.
func TestSignsOfLifeAreToldSparingly(t *testing.T) {
	t.Parallel()
	d := newDouble()
	e := serve(t, d, nil)
	c := e.dial(t, "c")
	start := time.Now()
	for range 50 {
		c.heartbeat(t, v2.ClientType_SIMPLE_CONSUMER, "g")
	}
	most := 5 + int(time.Since(start).Seconds()) // fifty calls are quick only on a machine that has nothing else to do
	count := func() int { d.mu.Lock(); defer d.mu.Unlock(); return len(d.seen) }
	if n := count(); n < 1 || n > most {
		t.Errorf("50 calls in %v: told %d times, want %d at most", time.Since(start), n, most)
	}
	before := count()
	c.heartbeat(t, v2.ClientType_SIMPLE_CONSUMER, "other")
	if d.seen[len(d.seen)-1] != (seen{"c", "other"}) || count() == before {
		t.Errorf("another group: got %v", d.seen)
	}
	if err := c.conn.Close(); err != nil {
		t.Fatal(err)
	}
	d.wait(within(t, callTime), func() bool { return len(d.gone) == 1 })
	before = count()
	e.dial(t, "c").heartbeat(t, v2.ClientType_SIMPLE_CONSUMER, "other")
	if count() == before {
		t.Error("the return was not told")
	}
}

// What kind a client is comes from its calls, so that a restart of the broker changes nothing: a push client's change of
// the invisible duration is a failure with that delay, a simple client's is a longer lease.
func TestChangeInvisibleMeansWhatTheClientIs(t *testing.T) {
	t.Parallel()
	type call struct {
		what  string
		delay time.Duration
	}
	for name, x := range map[string]struct {
		before func(t *testing.T, c *raw)
		want   call
	}{
		"unknown":             {func(*testing.T, *raw) {}, call{"change", 7 * time.Second}},
		"push by heartbeat":   {func(t *testing.T, c *raw) { c.heartbeat(t, v2.ClientType_PUSH_CONSUMER, "g") }, call{"fail", 7 * time.Second}},
		"simple by heartbeat": {func(t *testing.T, c *raw) { c.heartbeat(t, v2.ClientType_SIMPLE_CONSUMER, "g") }, call{"change", 7 * time.Second}},
		"push by receive": {func(t *testing.T, c *raw) {
			c.receive(t, poll{group: "g", topic: "orders", push: true, wait: time.Millisecond})
		}, call{"fail", 7 * time.Second}},
		"push by settings": {func(t *testing.T, c *raw) {
			settle(t, c.session(t), consumerSettings(v2.ClientType_PUSH_CONSUMER, "g", "orders"))
		}, call{"fail", 7 * time.Second}},
		"simple receive afterward": {func(t *testing.T, c *raw) {
			c.heartbeat(t, v2.ClientType_PUSH_CONSUMER, "g")
			c.receive(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: time.Millisecond})
		}, call{"change", 7 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDouble()
			var got call
			d.fail = func(_ string, delay time.Duration) error { got = call{"fail", delay}; return nil }
			d.change = func(handle string, delay time.Duration) (string, error) {
				got = call{"change", delay}
				return handle, nil
			}
			c := serve(t, d, nil).dial(t, "c")
			x.before(t, c)
			m := newMessage("orders", "A", "x")
			m.SystemProperties.ReceiptHandle = new("handle")
			if code, handle := c.change(t, "g", m, x.want.delay); code != v2.Code_OK || handle != "handle" || got != x.want {
				t.Errorf("got %+v with %v and handle %q, want %+v", got, code, handle, x.want)
			}
		})
	}
}

// Forward is OK unless the failure was surely not noted; change gives a handle whatever happens.
func TestForwardAndChangeWhenTheCoreRefuses(t *testing.T) {
	t.Parallel()
	d := newDouble()
	var fault error
	d.fail = func(_ string, delay time.Duration) error {
		if delay != -1 {
			t.Errorf("delay %v, want the group's", delay)
		}
		return fault
	}
	d.change = func(string, time.Duration) (string, error) { return "", fault }
	c := serve(t, d, nil).dial(t, "c")
	m := newMessage("orders", "A", "x")
	m.SystemProperties.ReceiptHandle = new("handle")
	for err, want := range map[error][2]v2.Code{
		keystrand.ErrLeaseExpired: {20000, 40013}, keystrand.ErrBadHandle: {20000, 40013}, keystrand.ErrGroupNotFound: {20000, 40013},
		keystrand.ErrRetryLater: {42900, 42900}, keystrand.ErrReadOnly: {50002, 50002}, keystrand.ErrUnknown: {50401, 50401},
	} {
		fault = err
		if got := c.forward(t, "g", "orders", "handle"); got != want[0] {
			t.Errorf("%v: forward got %v, want %d", err, got, want[0])
		}
		if got, handle := c.change(t, "g", m, time.Second); got != want[1] || handle != "handle" {
			t.Errorf("%v: change got %v with handle %q, want %d", err, got, handle, want[1])
		}
	}
}

// What was granted to a client that left before the answer is given back, whenever it left.
func TestUnwrittenAnswersAreGivenBack(t *testing.T) {
	t.Parallel()
	d := newDouble()
	asked, grant := make(chan struct{}), make(chan struct{})
	large := keystrand.Delivery{Message: keystrand.Message{ID: "1", Topic: "orders", Body: make([]byte, 4<<20)}, Attempt: 1, ReceiptHandle: "h"}
	d.receive = func(context.Context, sequencer.Receive) ([]keystrand.Delivery, error) {
		asked <- struct{}{}
		<-grant
		return []keystrand.Delivery{large, large}, nil
	}
	e := serve(t, d, nil)
	for name, leave := range map[string]func(cancel context.CancelFunc, c *raw){
		"cancelled": func(cancel context.CancelFunc, _ *raw) { cancel() },
		"broken":    func(_ context.CancelFunc, c *raw) { _ = c.conn.Close() },
	} {
		c := e.dial(t, name)
		ctx, cancel := context.WithCancel(c.pollContext(t, poll{}))
		failed := make(chan error, 1)
		go func() {
			_, _, err := c.tryReceive(ctx, simple(2))
			failed <- err
		}()
		<-asked
		leave(cancel, c)
		if err := <-failed; err == nil {
			t.Errorf("%s: the client got an answer", name)
		}
		timer := time.NewTimer(100 * time.Millisecond) // the news of the leave travels to the server
		<-timer.C
		grant <- struct{}{}
		if !d.wait(within(t, callTime), func() bool { return len(d.undelivered) == 2 }) {
			t.Errorf("%s: %d given back, want 2", name, len(d.undelivered))
		}
		d.note(func() { d.undelivered = nil })
		cancel()
	}
}

// A client that takes half of the answer and leaves has not seen its end: all is given back.
func TestAHalfReadAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	d := newDouble()
	large := keystrand.Delivery{Message: keystrand.Message{ID: "1", Topic: "orders", Body: make([]byte, 4<<20)}, Attempt: 1, ReceiptHandle: "h"}
	d.receive = func(context.Context, sequencer.Receive) ([]keystrand.Delivery, error) {
		return slices.Repeat([]keystrand.Delivery{large}, 32), nil
	}
	c := serve(t, d, nil).dial(t, "c")
	ctx, cancel := context.WithCancel(c.pollContext(t, poll{}))
	stream, err := c.ReceiveMessage(ctx, simple(32).request())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if !d.wait(within(t, callTime), func() bool { return len(d.undelivered) == 32 }) {
		t.Errorf("%d given back, want 32", len(d.undelivered))
	}
}

// The poll in the core ends when its client leaves.
func TestALeavingClientEndsItsPoll(t *testing.T) {
	t.Parallel()
	d := newDouble()
	asked, ended := make(chan struct{}), make(chan error, 1)
	d.receive = func(ctx context.Context, _ sequencer.Receive) ([]keystrand.Delivery, error) {
		close(asked)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	c := serve(t, d, nil).dial(t, "c")
	ctx, cancel := context.WithCancel(c.pollContext(t, poll{}))
	go func() { _, _, _ = c.tryReceive(ctx, simple(1)) }()
	<-asked
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-within(t, callTime).Done():
		t.Error("the poll goes on")
	}
}
