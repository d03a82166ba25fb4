package server_test

import (
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// C46, C47: while A1 is not acked, A2 comes to nobody of the group, by whatever queue number it is asked for; B1, in the same
// and only queue, comes.
func TestC46C47AnUnackedMessageHoldsItsGroupOnly(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	one, two := e.dial(t, "one"), e.dial(t, "two")
	one.send(t, "one-queue", "A", "A1", "A2")
	one.send(t, "one-queue", "B", "B1")
	p := poll{group: "g", topic: "one-queue", max: 32, lease: time.Minute, wait: 5 * time.Second}
	p.max = 1
	a1 := one.take(t, p)
	if body(a1) != "A1" {
		t.Fatalf("got %q, want A1", body(a1))
	}
	p.max = 32
	if b1 := two.take(t, p); body(b1) != "B1" || two.ack(t, "g", b1) != v2.Code_OK {
		t.Fatalf("got %q, want B1", body(b1))
	}
	p.wait = 200 * time.Millisecond
	for queue := range int32(3) {
		p.queue = queue
		one.none(t, p)
		two.none(t, p)
	}
	if code := one.ack(t, "g", a1); code != v2.Code_OK {
		t.Fatal(code)
	}
	p.wait = 5 * time.Second
	if a2 := two.take(t, p); body(a2) != "A2" || attempt(a2) != 1 {
		t.Errorf("got %q attempt %d, want A2 and 1", body(a2), attempt(a2))
	}
}

// C48, C49: when A1's lease ends, A1 comes again as attempt 2 and before A2; B1, acked out of the same answer, does not.
func TestC48C49AnEndedLeaseRepeatsItsOwnMessageOnly(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "one-queue", "A", "A1", "A2")
	c.send(t, "one-queue", "B", "B1")
	p := poll{group: "g", topic: "one-queue", max: 2, lease: time.Second, own: true, wait: 5 * time.Second}
	_, batch := c.receive(t, p)
	if len(batch) != 2 {
		t.Fatalf("got %d messages, want A1 and B1 in one answer", len(batch))
	}
	for _, m := range batch {
		if body(m) == "B1" {
			c.ack(t, "g", m)
		}
	}
	p.lease, p.max = time.Minute, 32
	again := c.take(t, p)
	if body(again) != "A1" || attempt(again) != 2 {
		t.Fatalf("got %q attempt %d, want A1 and 2", body(again), attempt(again))
	}
	c.ack(t, "g", again)
	if next := c.take(t, p); body(next) != "A2" {
		t.Errorf("got %q, want A2", body(next))
	}
	p.wait = 200 * time.Millisecond
	c.none(t, p)
}

// C50: a lengthened lease holds A2 back; a shortened one lets it come again early.
func TestC50ChangedLeasesHoldTheGroup(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "A1", "A2")
	short := simple(1)
	short.lease, short.own = time.Second, true
	a1 := c.take(t, short)
	c.change(t, "g", a1, 30*time.Second)
	p := soon()
	p.wait = 1500 * time.Millisecond // past the first lease
	c.none(t, p)
	c.change(t, "g", a1, 0)
	if again := c.take(t, simple(32)); body(again) != "A1" || attempt(again) != 2 {
		t.Errorf("got %q attempt %d, want A1 and 2", body(again), attempt(again))
	}
}

// Tokens of one group's deliveries grow, whatever the message.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "1", "2", "3")
	last := ""
	for range 3 {
		m := c.take(t, simple(1))
		token := m.GetUserProperties()[keystrand.PropertyToken]
		if len(token) < len(last) || len(token) == len(last) && token <= last {
			t.Errorf("token %s after %s", token, last)
		}
		last = token
		c.ack(t, "g", m)
	}
}

// push is a push consumer's poll.
func push() poll {
	return poll{group: "g", topic: "orders", max: 32, push: true, wait: 5 * time.Second}
}

// makeGroup creates the group g with few attempts and a quick back-off.
func (e *edge) makeGroup(t *testing.T, spec keystrand.GroupSpec) {
	t.Helper()
	spec.Name = "g"
	spec.BackOffMin, spec.BackOffMax = time.Second, time.Second
	if err := e.core.CreateGroup(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

// C45, C39, C51 on the bare stubs: a FIFO push client reports a failure by forwarding; the same message comes again after the
// back-off, the next one waits; at the limit it is in the dead-letter topic and the next one follows.
func TestC39C45C51ForwardMeansThisAttemptFailed(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	e.makeGroup(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 2, AtLimit: keystrand.AtLimitDeadLetter})
	c := e.dial(t, "c")
	sent := c.send(t, "orders", "A", "A1", "A2")
	for n := int32(1); n <= 2; n++ {
		m := c.take(t, push())
		if body(m) != "A1" || attempt(m) != n {
			t.Fatalf("got %q attempt %d, want A1 and %d", body(m), attempt(m), n)
		}
		for range 2 { // the repeat is of a delivery that has ended: OK, and it counts nothing
			if code := c.forward(t, "g", "orders", m.GetSystemProperties().GetReceiptHandle()); code != v2.Code_OK {
				t.Fatalf("forward: %v", code)
			}
		}
	}
	if m := c.take(t, push()); body(m) != "A2" || attempt(m) != 1 {
		t.Fatalf("got %q attempt %d, want A2 and 1", body(m), attempt(m))
	}
	dead := c.take(t, poll{group: "readers", topic: "%DLQ%g", max: 1, lease: time.Minute, wait: 5 * time.Second})
	if body(dead) != "A1" || dead.GetSystemProperties().GetMessageGroup() != "A" {
		t.Errorf("dead letter: got %v, want A1 (%s)", dead, sent[0])
	}
}

// C38 on the bare stubs: the push client of an unordered group reports a failure by changing the invisible duration. It counts as
// a failure, with its delay.
func TestC38NackOfAnUnorderedPushClient(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	e.makeGroup(t, keystrand.GroupSpec{MaxAttempts: 2, AtLimit: keystrand.AtLimitPark})
	c := e.dial(t, "c")
	c.send(t, "notes", "", "n")
	p := push()
	p.topic = "notes"
	m := c.take(t, p)
	began := time.Now()
	if code, handle := c.change(t, "g", m, 1500*time.Millisecond); code != v2.Code_OK || handle == "" {
		t.Fatalf("nack: %v with handle %q", code, handle)
	}
	again := c.take(t, p)
	if took := time.Since(began); attempt(again) != 2 || took < 1400*time.Millisecond || took > 4*time.Second {
		t.Fatalf("attempt %d after %v, want 2 after 1.5 s", attempt(again), took)
	}
	c.change(t, "g", again, time.Second) // the last attempt: the group's policy parks the message
	lag, err := e.core.Lag(t.Context(), "g")
	if err != nil || len(lag) != 1 || lag[0].Parked != 1 {
		t.Errorf("got %+v, %v; want one parked", lag, err)
	}
}

// C40: the lease of a push client lasts as long as the client lives, however long its listener takes: here, past the 30 s
// after which silence would end it.
func TestC40LeasesOfLivingPushClientsLast(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 40 s")
	}
	t.Parallel()
	e := start(t, nil)
	c := e.dial(t, "c")
	c.send(t, "orders", "A", "A1")
	m := c.take(t, push())
	for range 4 {
		p := push()
		p.wait = 10 * time.Second // also the sign of life
		c.none(t, p)
	}
	if code := c.ack(t, "g", m); code != v2.Code_OK {
		t.Errorf("ack after 40 s: %v", code)
	}
}

// C41, ours: a push client whose connection breaks has its message redelivered to another within seconds.
func TestC41ABrokenConnectionFreesItsLeases(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	one, two := e.dial(t, "one"), e.dial(t, "two")
	one.send(t, "orders", "A", "A1")
	one.take(t, push())
	began := time.Now()
	if err := one.conn.Close(); err != nil {
		t.Fatal(err)
	}
	p := push()
	p.wait = 10 * time.Second
	m := two.take(t, p)
	if took := time.Since(began); body(m) != "A1" || took < 2500*time.Millisecond || took > 6*time.Second {
		t.Errorf("got %q after %v, want A1 after 3 s", body(m), took)
	}
}

// A client that comes back within the grace keeps its leases.
func TestAReconnectKeepsLeases(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	one := e.dial(t, "one")
	one.send(t, "orders", "A", "A1")
	m := one.take(t, push())
	if err := one.conn.Close(); err != nil {
		t.Fatal(err)
	}
	back, two := e.dial(t, "one"), e.dial(t, "two")
	p := push()
	p.wait = 10 * time.Millisecond
	back.none(t, p)
	p.wait = 4 * time.Second
	two.none(t, p)
	if code := back.ack(t, "g", m); code != v2.Code_OK {
		t.Errorf("ack after the reconnect: %v", code)
	}
}

// C42: a client that says good-bye has its messages redelivered at once.
func TestC42TerminationFreesLeasesAtOnce(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	one, two := e.dial(t, "one"), e.dial(t, "two")
	one.send(t, "orders", "A", "A1")
	one.take(t, push())
	began := time.Now()
	if _, err := one.NotifyClientTermination(one.ctx(t, callTime), &v2.NotifyClientTerminationRequest{Group: resource("g")}); err != nil {
		t.Fatal(err)
	}
	if m := two.take(t, push()); body(m) != "A1" || time.Since(began) > 2*time.Second {
		t.Errorf("got %q after %v, want A1 at once", body(m), time.Since(began))
	}
}

// C54: a receive repeated with its attempt id gets the same message again, still as attempt 1.
func TestC54AttemptIDsRepeatALostAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	c.send(t, "orders", "A", "A1", "A2")
	p := push()
	p.attempt = "attempt-1"
	first, again := c.take(t, p), c.take(t, p)
	if body(again) != "A1" || attempt(again) != 1 || attempt(first) != 1 {
		t.Errorf("got %q attempt %d, want A1 and 1", body(again), attempt(again))
	}
	if code := c.ack(t, "g", again); code != v2.Code_OK {
		t.Errorf("ack: %v", code)
	}
}

// Push clients of an ordered group get one message an answer, so that no batch can hold up or overtake.
func TestFIFOPushGetsOneMessageAnAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	for _, group := range strings.Fields("A B C") {
		c.send(t, "orders", group, group)
	}
	for range 3 {
		if _, got := c.receive(t, push()); len(got) != 1 {
			t.Errorf("got %d messages in one answer, want 1", len(got))
		}
	}
}
