package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

// later checks that second is a later hand-out of the same message as first.
func (w *world) later(first, second keystrand.Delivery, attempt int) {
	w.Helper()
	if second.ID != first.ID || second.Offset != first.Offset {
		w.Errorf("another message came: %v after %v", second, first)
	}
	g := w.engine.Guarantees()
	if g.CountsAttempts && second.Attempt != attempt {
		w.Errorf("attempt %d, want %d", second.Attempt, attempt)
	}
	if g.Fencing && !second.Token.Supersedes(first.Token) {
		w.Errorf("token %v does not supersede %v", second.Token, first.Token)
	}
}

func failure(t *testing.T, w *world) {
	w.send(2, "a")
	c := w.consumer(limit)
	first := w.receive(c, "a/1")
	w.must(c.Fail(t.Context(), first, errors.New("no stock")))
	second := w.receive(c, "a/1")
	w.later(first, second, 2)
	if err := c.Fail(t.Context(), first, errors.New("late")); err != nil {
		w.wants(err, keystrand.ErrSuperseded) // an engine may also take it and change nothing
	}
	w.must(c.Ack(t.Context(), second))
	third := w.receive(c, "a/2")
	if third.Attempt != 1 || w.engine.Guarantees().Fencing && !third.Token.Supersedes(second.Token) {
		t.Errorf("the next message: %v token %v after %v", third, third.Token, second.Token)
	}
}

func leaseEnd(t *testing.T, w *world) {
	w.send(2, "a")
	lease := w.subject.ShortestLease
	c := w.consumer(lease)
	began := time.Now()
	first := w.receive(c, "a/1")
	second := w.receive(w.consumer(limit), "a/1")
	if held := time.Since(began); held < lease-50*time.Millisecond {
		t.Errorf("came again after %v of a lease of %v", held, lease)
	}
	w.later(first, second, 2)
	w.wants(c.Ack(t.Context(), first), keystrand.ErrSuperseded)
	if _, err := c.Extend(t.Context(), first, limit); err == nil {
		t.Error("the lost lease could be extended")
	}
	w.nothing(w.options())
	w.must(c.Ack(t.Context(), second))
	w.receive(w.consumer(limit), "a/2")
}

func extension(t *testing.T, w *world) {
	w.send(1, "a")
	lease := w.subject.ShortestLease
	c := w.consumer(lease)
	d := w.receive(c, "a/1")
	d, err := c.Extend(t.Context(), d, limit)
	w.must(err)
	o := w.options()
	o.Wait = lease + lease/2
	got, err := w.consumerOf(o).Receive(t.Context(), 1)
	if w.must(err); len(got) > 0 {
		t.Errorf("the extended delivery came again: %v", got[0])
	}
	w.must(c.Ack(t.Context(), d))
}

func release(t *testing.T, w *world) {
	w.send(1, "a")
	c := w.consumer(limit)
	first := w.receive(c, "a/1")
	_, err := c.Extend(t.Context(), first, 0)
	w.must(err)
	second := w.receive(c, "a/1")
	w.later(first, second, second.Attempt)
	w.must(c.Ack(t.Context(), second))
}

func ackTwice(t *testing.T, w *world) {
	w.send(1, "a", "b", "c")
	c := w.consumer(limit)
	var all []keystrand.Delivery
	for len(all) < 3 {
		batch, err := c.Receive(t.Context(), 3)
		w.must(err)
		all = append(all, batch...)
	}
	w.must(c.Ack(t.Context(), all[0]))
	w.must(c.Ack(t.Context(), all[0]))
	forged := all[1]
	forged.ReceiptHandle = "forged"
	err := c.Ack(t.Context(), all[0], forged, all[2])
	failed := keystrand.DeliveryErrors(err)
	if len(failed) != 1 || failed[0].Delivery.ID != all[1].ID {
		t.Errorf("got %v, want one error, for %s", err, all[1].ID)
	}
	w.must(c.Ack(t.Context(), all[2])) // it took effect in the batch
	w.must(c.Ack(t.Context(), all[1]))
	w.nothing(w.options())
}

func foreignHandle(t *testing.T, w *world) {
	w.send(1, "a")
	c := w.consumer(limit)
	d := w.receive(c, "a/1")
	other := w.group + "-other"
	w.createGroup(keystrand.GroupSpec{Name: other, Ordered: true})
	thief := w.consumerOf(keystrand.ConsumerOptions{Group: other, Topic: w.topic, Lease: limit})
	for _, handle := range []string{d.ReceiptHandle, "", "x", d.ReceiptHandle + "x", d.ReceiptHandle[:len(d.ReceiptHandle)/2]} {
		forged := d
		forged.ReceiptHandle = handle
		err := thief.Ack(t.Context(), forged)
		if !errors.Is(err, keystrand.ErrRejected) && !errors.Is(err, keystrand.ErrSuperseded) {
			t.Errorf("handle %q in another group: %v", handle, err)
		}
	}
	w.must(c.Ack(t.Context(), d))
}

// exhaust fails the head of group "a" until its attempts are used up.
func (w *world) exhaust(c keystrand.Consumer, attempts int) {
	w.Helper()
	for n := 1; n <= attempts; n++ {
		d := w.receive(c, "a/1")
		if d.Attempt != n {
			w.Errorf("attempt %d, want %d", d.Attempt, n)
		}
		w.must(c.Fail(w.Context(), d, fmt.Errorf("poison, attempt %d", n)))
	}
}

func (w *world) limited(at keystrand.AtLimit) keystrand.Consumer {
	w.Helper()
	w.group += "-limited"
	w.createGroup(keystrand.GroupSpec{Name: w.group, Ordered: true, MaxAttempts: 2, AtLimit: at, BackOffMin: 10 * time.Millisecond, BackOffMax: 10 * time.Millisecond})
	return w.consumer(limit)
}

func park(t *testing.T, w *world) {
	if !w.engine.Guarantees().CountsAttempts {
		t.Skip("this engine does not count attempts")
	}
	w.send(2, "a")
	c := w.limited(keystrand.AtLimitPark)
	w.exhaust(c, 2)
	w.nothing(w.options())
	w.send(1, "b")
	w.must(c.Ack(t.Context(), w.receive(c, "b/1")))
	w.nothing(w.options())
}

func deadLetter(t *testing.T, w *world) {
	if !w.engine.Guarantees().CountsAttempts {
		t.Skip("this engine does not count attempts")
	}
	w.send(2, "a")
	c := w.limited(keystrand.AtLimitDeadLetter)
	w.exhaust(c, 2)
	w.must(c.Ack(t.Context(), w.receive(c, "a/2")))
	reader := w.group + "-reader"
	w.createGroup(keystrand.GroupSpec{Name: reader, Ordered: true})
	dead := w.consumerOf(keystrand.ConsumerOptions{Group: reader, Topic: "%DLQ%" + w.group, Lease: limit})
	if d := w.receive(dead, "a/1"); d.MessageGroup != "a" {
		t.Errorf("the dead letter has message group %q", d.MessageGroup)
	}
}
