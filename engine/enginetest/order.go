package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keystrand/keystrand"
)

func roundTrip(t *testing.T, w *world) {
	sent := keystrand.Message{
		ID: "0123456789ABCDEF0123456789ABCDEF", Topic: w.topic, MessageGroup: "a", Tag: "Created", Keys: []string{"k1", "k2"},
		Properties: map[string]string{"version": "1", "name": "Ünïcode = |"}, Body: []byte{0, 1, 255}, BornAt: time.Date(2026, 6, 20, 1, 2, 3, 4_000_000, time.UTC),
	}
	receipts, err := w.producer.Send(t.Context(), sent)
	w.must(err)
	d := w.receive(w.consumer(limit), string(sent.Body))
	d.BornAt = d.BornAt.UTC()
	if diff := cmp.Diff(d.Message, sent); diff != "" {
		t.Errorf("message (-got +want):\n%s", diff)
	}
	g := w.engine.Guarantees()
	if d.Attempt != 1 || d.ReceiptHandle == "" || d.Lease != limit || d.Token.IsZero() == g.Fencing || d.Offset != receipts[0].Offset || receipts[0].MessageID != sent.ID {
		t.Errorf("delivery %+v, receipt %+v, fencing %v", d, receipts[0], g.Fencing)
	}
	if g.Engine == "" || g.OrderScope == "" || g.BlockScope == "" {
		t.Errorf("guarantees are not stated: %+v", g)
	}
}

// order: many groups through three consumers that ack in batches; each group's messages come in order, and never while
// another of the group is unfinished.
func order(t *testing.T, w *world) {
	const groups, each = 20, 15
	var names []string
	for g := range groups {
		names = append(names, fmt.Sprintf("g%d", g))
	}
	w.send(each, names...)
	var mu sync.Mutex
	next, open, left := map[string]int{}, map[string]bool{}, groups*each
	ctx, done := context.WithTimeout(t.Context(), 2*limit)
	defer done()
	var wait sync.WaitGroup
	for range 3 {
		c := w.consumer(limit)
		wait.Go(func() {
			for {
				batch, err := c.Receive(ctx, 8)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, d := range batch {
					next[d.MessageGroup]++
					if want := fmt.Sprintf("%s/%d", d.MessageGroup, next[d.MessageGroup]); string(d.Body) != want || open[d.MessageGroup] {
						t.Errorf("received %q, want %q; another of the group unfinished: %v", d.Body, want, open[d.MessageGroup])
					}
					open[d.MessageGroup] = true
				}
				mu.Unlock()
				<-time.After(time.Millisecond) // time for another consumer to get what it must not
				mu.Lock()
				for _, d := range batch {
					open[d.MessageGroup] = false
				}
				mu.Unlock()
				if err := c.Ack(t.Context(), batch...); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if left -= len(batch); left <= 0 {
					done()
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if left != 0 {
		t.Errorf("%d messages did not come", left)
	}
}

func oneAtATime(t *testing.T, w *world) {
	w.send(2, "a")
	c := w.consumer(limit)
	first := w.receive(c, "a/1")
	w.nothing(w.options())
	w.must(c.Ack(t.Context(), first))
	w.receive(c, "a/2")
}

func isolation(t *testing.T, w *world) {
	if w.engine.Guarantees().BlockScope != "message group" {
		t.Skip("this engine blocks a whole queue")
	}
	w.send(1, "a")
	c := w.consumer(limit)
	w.receive(c, "a/1")
	var others []string
	for g := range 12 {
		others = append(others, fmt.Sprintf("b%d", g))
	}
	w.send(3, append(others, "a")...)
	got := map[string]int{}
	for n := 0; n < 36; {
		batch, err := c.Receive(t.Context(), 32)
		w.must(err)
		for _, d := range batch {
			if got[d.MessageGroup]++; !strings.HasPrefix(d.MessageGroup, "b") {
				t.Fatalf("received %q while a/1 is open", d.Body)
			}
		}
		n += len(batch)
		w.must(c.Ack(t.Context(), batch...))
	}
}

func independence(t *testing.T, w *world) {
	w.send(3, "a")
	other := w.group + "-other"
	w.createGroup(keystrand.GroupSpec{Name: other, Ordered: true})
	first, second := w.consumer(limit), w.consumerOf(keystrand.ConsumerOptions{Group: other, Topic: w.topic, Lease: limit})
	w.receive(first, "a/1") // stays open: the other group does not care
	for n := 1; n <= 3; n++ {
		w.must(second.Ack(t.Context(), w.receive(second, fmt.Sprintf("a/%d", n))))
	}
}

func filter(t *testing.T, w *world) {
	for n, tag := range []string{"no", "yes", "no", "also"} {
		_, err := w.producer.Send(t.Context(), keystrand.Message{Topic: w.topic, MessageGroup: "a", Tag: tag, Body: []byte(fmt.Sprint(n))})
		w.must(err)
	}
	c := w.consumerOf(keystrand.ConsumerOptions{Group: w.group, Topic: w.topic, Filter: "yes || also", Lease: limit})
	w.must(c.Ack(t.Context(), w.receive(c, "1")))
	w.must(c.Ack(t.Context(), w.receive(c, "3")))
}
