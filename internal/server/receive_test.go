package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// simple is a simple consumer's poll on the FIFO topic, long enough for what is there.
func simple(max int32) poll {
	return poll{group: "g", topic: "orders", max: max, lease: time.Minute, wait: 5 * time.Second}
}

// soon is a poll that expects nothing.
func soon() poll {
	return poll{group: "g", topic: "orders", max: 32, lease: time.Minute, wait: 300 * time.Millisecond}
}

// C25: an empty receive of a client that names no poll time is held until 1.5 s before its deadline, at least 5 s, then is 40401.
func TestC25EmptyReceiveIsHeld(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	began := time.Now()
	c.none(t, poll{group: "g", topic: "orders", max: 1, lease: time.Minute, deadline: 6500 * time.Millisecond})
	if held := time.Since(began); held < 5*time.Second {
		t.Errorf("held for %v, want 5 s at least", held)
	}
}

// C26: a message sent during a poll is delivered at once.
func TestC26AMessageWakesThePoll(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	c, p := e.dial(t, "c"), e.dial(t, "p")
	p.send(t, "notes", "", "warm")
	arrived := make(chan time.Time, 1)
	go func() {
		_, messages, _ := c.tryReceive(c.pollContext(t, simple(1)), poll{group: "g", topic: "orders", max: 1, lease: time.Minute, wait: 10 * time.Second})
		if len(messages) == 1 {
			arrived <- time.Now()
		}
		close(arrived)
	}()
	timer := time.NewTimer(300 * time.Millisecond) // the poll is surely held by then, or the test is merely easier
	<-timer.C
	sent := time.Now()
	p.send(t, "orders", "A", "1")
	// A poll that is not woken ends after 10 s. How fast it wakes is the benchmarks' business.
	if at, ok := <-arrived; !ok || at.Sub(sent) > 5*time.Second {
		t.Errorf("delivered %v after the send, want it while the poll is held (received: %v)", at.Sub(sent), ok)
	}
}

// C27: invisible durations of simple consumers are 10 s to 12 h; Keystrand's own clients may ask for 1 s.
func TestC27InvisibleDurations(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	for _, x := range []struct {
		lease time.Duration
		own   bool
		want  v2.Code
	}{
		{0, false, 40011},
		{9 * time.Second, false, 40011},
		{10 * time.Second, false, 40401},
		{12 * time.Hour, false, 40401},
		{12*time.Hour + time.Second, false, 40011},
		{-time.Second, false, 40011},
		{time.Second, true, 40401},
		{999 * time.Millisecond, true, 40011},
	} {
		got, _ := c.receive(t, poll{group: "g", topic: "orders", lease: x.lease, own: x.own, wait: 10 * time.Millisecond})
		if got.GetCode() != x.want {
			t.Errorf("%v, own %v: got %v, want %d", x.lease, x.own, got, x.want)
		}
	}
}

// C28, C31: what is not acked comes again as attempt 2; what is acked does not; a late ack changes nothing of the second delivery.
func TestC28C31UnackedComesAgain(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "a")
	c.send(t, "orders", "B", "b")
	short := poll{group: "g", topic: "orders", max: 2, lease: time.Second, own: true, wait: 5 * time.Second}
	var first []*v2.Message
	for len(first) < 2 {
		_, got := c.receive(t, short)
		first = append(first, got...)
	}
	keep := slices.IndexFunc(first, func(m *v2.Message) bool { return body(m) == "a" })
	if code := c.ack(t, "g", first[1-keep]); code != v2.Code_OK {
		t.Fatalf("ack: %v", code)
	}
	again := c.take(t, simple(2))
	if body(again) != "a" || attempt(again) != 2 {
		t.Fatalf("got %q attempt %d, want a and 2", body(again), attempt(again))
	}
	if code := c.ack(t, "g", first[keep]); code != v2.Code_INVALID_RECEIPT_HANDLE {
		t.Errorf("late ack: got %v, want 40013", code)
	}
	if code := c.ack(t, "g", again); code != v2.Code_OK {
		t.Errorf("ack of the second delivery: got %v; the late ack has removed it", code)
	}
}

// C29: a shortened lease ends at its new time; the answer holds a handle that may be acked.
func TestC29ChangedInvisibleDuration(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "a", "a2")
	m := c.take(t, simple(1))
	code, handle := c.change(t, "g", m, 30*time.Second)
	if code != v2.Code_OK || handle == "" {
		t.Fatalf("extension: %v with handle %q", code, handle)
	}
	m.SystemProperties.ReceiptHandle = &handle
	began := time.Now()
	if code, handle = c.change(t, "g", m, time.Second); code != v2.Code_OK || handle == "" {
		t.Fatalf("shortening: %v with handle %q", code, handle)
	}
	again := c.take(t, simple(1))
	if took := time.Since(began); body(again) != "a" || attempt(again) != 2 || took < 900*time.Millisecond || took > 3*time.Second {
		t.Errorf("got %q attempt %d after %v, want a, 2, about 1 s", body(again), attempt(again), took)
	}
	code, handle = c.change(t, "g", again, time.Minute)
	if got := c.ackHandle(t, "g", "orders", handle); code != v2.Code_OK || got != v2.Code_OK {
		t.Errorf("change %v, ack of its handle %v", code, got)
	}
	// A handle comes back on errors, too.
	for name, d := range map[string]time.Duration{"negative": -time.Second, "too long": 13 * time.Hour} {
		if code, handle := c.change(t, "g", again, d); code != v2.Code_ILLEGAL_INVISIBLE_TIME || handle == "" {
			t.Errorf("%s: got %v with handle %q, want 40011 with a handle", name, code, handle)
		}
	}
}

// C30, C32: an ack twice is OK; a handle that is none is 40013, also among others.
func TestC30C32AcksTwiceAndOfGarbage(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "a")
	m := c.take(t, simple(1))
	for range 2 {
		if code := c.ack(t, "g", m); code != v2.Code_OK {
			t.Errorf("ack: got %v, want OK", code)
		}
	}
	for _, handle := range []string{"", "garbage", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw", string(make([]byte, 4000))} {
		if code := c.ackHandle(t, "g", "orders", handle); code != v2.Code_INVALID_RECEIPT_HANDLE {
			t.Errorf("handle of %d bytes: got %v, want 40013", len(handle), code)
		}
		if code := c.forward(t, "g", "orders", handle); code != v2.Code_OK {
			t.Errorf("forward of a handle of %d bytes: got %v, want OK", len(handle), code)
		}
	}
	handle := m.GetSystemProperties().GetReceiptHandle()
	if code := c.ackHandle(t, "g", "one-queue", handle); code != v2.Code_INVALID_RECEIPT_HANDLE {
		t.Errorf("handle of another topic: got %v, want 40013", code)
	}
	if code := c.ackHandle(t, "nobody", "orders", handle); code != v2.Code_INVALID_RECEIPT_HANDLE {
		t.Errorf("handle of another group: got %v, want 40013", code)
	}
	answer, err := c.AckMessage(c.ctx(t, callTime), &v2.AckMessageRequest{
		Group: resource("g"), Topic: resource("orders"), Entries: []*v2.AckMessageEntry{{ReceiptHandle: handle}, {ReceiptHandle: "x"}},
	})
	if err != nil || answer.GetStatus().GetCode() != v2.Code_MULTIPLE_RESULTS || len(answer.GetEntries()) != 2 ||
		answer.GetEntries()[0].GetStatus().GetCode() != v2.Code_OK || answer.GetEntries()[1].GetStatus().GetCode() != v2.Code_INVALID_RECEIPT_HANDLE {
		t.Errorf("mixed: got %v, %v", answer, err)
	}
	if answer, err = c.AckMessage(c.ctx(t, callTime), &v2.AckMessageRequest{Group: resource("g"), Topic: resource("orders")}); err != nil || answer.GetStatus().GetCode() != v2.Code_BAD_REQUEST {
		t.Errorf("no entries: got %v, %v; want 40000", answer, err)
	}
}

// C33: however many are asked for, 32 come at most; less than one means one.
func TestC33BatchesAreBounded(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	for i := range 40 {
		c.send(t, "orders", fmt.Sprint("g", i), "x")
	}
	if _, got := c.receive(t, simple(100)); len(got) == 0 || len(got) > 32 {
		t.Errorf("asked for 100: got %d", len(got))
	}
	if _, got := c.receive(t, simple(-1)); len(got) != 1 {
		t.Errorf("asked for -1: got %d, want 1", len(got))
	}
}

// C34: tags filter; what does not match is not delivered and holds up nothing.
func TestC34TagFilter(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	for i, tag := range []string{"a", "x", "b", "", "a"} {
		m := newMessage("orders", "A", fmt.Sprint(i, tag))
		if tag != "" {
			m.SystemProperties.Tag = &tag
		}
		if code := c.sendCode(t, m); code != v2.Code_OK {
			t.Fatal(code)
		}
	}
	p := simple(1)
	p.filter = "a||b"
	for _, want := range []string{"0a", "2b", "4a"} {
		got := c.take(t, p)
		if body(got) != want {
			t.Fatalf("got %q, want %q", body(got), want)
		}
		c.ack(t, "g", got)
	}
	p.wait = 300 * time.Millisecond
	c.none(t, p)
	p.filter = "a|b"
	if got, _ := c.receive(t, p); got.GetCode() != v2.Code_ILLEGAL_FILTER_EXPRESSION {
		t.Errorf("bad expression: got %v, want 40010", got)
	}
}

// C35: members of a group share its messages; each group gets all.
func TestC35GroupsAndMembers(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	one, two := e.dial(t, "one"), e.dial(t, "two")
	const n = 20
	for i := range n {
		one.send(t, "orders", fmt.Sprint("g", i), fmt.Sprint(i))
	}
	for _, group := range []string{"g1", "g2"} {
		got := map[string]int{}
		for len(got) < n {
			for _, c := range []*raw{one, two} {
				p := simple(3)
				p.group, p.wait = group, 200*time.Millisecond
				_, messages := c.receive(t, p)
				for _, m := range messages {
					if got[body(m)]++; got[body(m)] > 1 {
						t.Fatalf("%s: %q came twice", group, body(m))
					}
				}
			}
		}
	}
}

// C36 and our rule for named poll times.
func TestC36PollTimes(t *testing.T) {
	t.Parallel()
	d := newDouble()
	waits := make(chan time.Duration, 1)
	d.receive = func(_ context.Context, r sequencer.Receive) ([]keystrand.Delivery, error) {
		waits <- r.Wait
		return nil, nil
	}
	c := serve(t, d, nil).dial(t, "c")
	for name, x := range map[string]struct {
		wait, deadline time.Duration
		least, most    time.Duration // 0: refused with 40018
	}{
		"none named, short deadline":      {0, 4500 * time.Millisecond, 0, 0},
		"named but does not fit":          {5 * time.Second, 4 * time.Second, 0, 0},
		"none named, 8 s":                 {0, 8 * time.Second, 6 * time.Second, 6500 * time.Millisecond},
		"none named, 5.6 s":               {0, 5600 * time.Millisecond, 4500 * time.Millisecond, 5100 * time.Millisecond},
		"none named, a minute":            {0, time.Minute, 20 * time.Second, 20 * time.Second},
		"named, as push clients do":       {20 * time.Second, 23 * time.Second, 20 * time.Second, 20 * time.Second},
		"named, too long":                 {30 * time.Second, 33 * time.Second, 20 * time.Second, 20 * time.Second},
		"named, short, as our clients do": {time.Second, 2 * time.Second, time.Second, time.Second},
		"named, longer than what is left": {20 * time.Second, 10 * time.Second, 9 * time.Second, 9500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := c.receive(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: x.wait, deadline: x.deadline})
			if x.most == 0 {
				if got.GetCode() != v2.Code_ILLEGAL_POLLING_TIME {
					t.Errorf("got %v, want 40018", got)
				}
				return
			}
			if got.GetCode() != v2.Code_MESSAGE_NOT_FOUND {
				t.Fatalf("got %v, want 40401", got)
			}
			if wait := <-waits; wait < x.least || wait > x.most {
				t.Errorf("held for %v, want %v to %v", wait, x.least, x.most)
			}
		})
	}
}

// A refused push consumer is held for a second, since the Go client asks again after 20 ms; a simple one hears at once.
func TestRefusedPushConsumersAreSlowedDown(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	d := poll{group: "g", topic: "a.b", lease: time.Minute}
	began := time.Now()
	if got, _ := c.receive(t, d); got.GetCode() != v2.Code_ILLEGAL_TOPIC || time.Since(began) > 900*time.Millisecond {
		t.Errorf("simple: got %v after %v, want 40002 at once", got, time.Since(began))
	}
	d.push = true
	began = time.Now()
	if got, _ := c.receive(t, d); got.GetCode() != v2.Code_ILLEGAL_TOPIC || time.Since(began) < 900*time.Millisecond {
		t.Errorf("push: got %v after %v, want 40002 after a second", got, time.Since(began))
	}
}

// What the core is asked for is what the request says; the edge adds nothing but bounds.
func TestReceiveRequestReachesTheCore(t *testing.T) {
	t.Parallel()
	d := newDouble()
	asked := make(chan sequencer.Receive, 1)
	d.receive = func(_ context.Context, r sequencer.Receive) ([]keystrand.Delivery, error) {
		asked <- r
		return nil, nil
	}
	c := serve(t, d, nil).dial(t, "client-7")
	c.receive(t, poll{group: "g", topic: "orders", max: 32, push: true, wait: 2 * time.Second, queue: 5, attempt: "a-1", filter: "x || y"})
	want := sequencer.Receive{
		Group: "g", Topic: "orders", Expression: "x || y", Max: 32, AutoRenew: true, Push: true, Wait: 2 * time.Second, AttemptID: "a-1", ClientID: "client-7", Slot: 5,
	}
	if got := <-asked; got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// An unknown group on an existing topic is made, once, and the receive goes on; without auto-create it is 40403.
func TestUnknownGroupsAreMadeOrRefused(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	c := e.dial(t, "c")
	c.send(t, "orders", "A", "1")
	if got := c.take(t, simple(1)); body(got) != "1" {
		t.Errorf("got %q", body(got))
	}
	if g, ok := e.core.Group("g"); !ok || !g.Spec.Ordered {
		t.Errorf("got group %+v, %v; want it ordered", g, ok)
	}
	c = serve(t, noGroups(), nil).dial(t, "c")
	if got, _ := c.receive(t, simple(1)); got.GetCode() != v2.Code_CONSUMER_GROUP_NOT_FOUND {
		t.Errorf("without auto-create: got %v, want 40403", got)
	}
}

func noGroups() *double {
	d := newDouble()
	d.receive = func(context.Context, sequencer.Receive) ([]keystrand.Delivery, error) {
		return nil, keystrand.ErrGroupNotFound
	}
	return d
}
