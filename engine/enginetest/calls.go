package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

func mistakes(t *testing.T, w *world) {
	ctx := t.Context()
	normal := w.topic + "-normal"
	w.create(keystrand.TopicSpec{Name: normal, Type: keystrand.TopicNormal})
	body := []byte("x")
	for name, c := range map[string]struct {
		messages []keystrand.Message
		want     error
	}{
		"no messages":           {nil, keystrand.ErrRejected},
		"unknown topic":         {[]keystrand.Message{{Topic: "nowhere", MessageGroup: "a", Body: body}}, keystrand.ErrTopicNotFound},
		"two topics":            {[]keystrand.Message{{Topic: w.topic, MessageGroup: "a", Body: body}, {Topic: normal, Body: body}}, keystrand.ErrRejected},
		"no group on fifo":      {[]keystrand.Message{{Topic: w.topic, Body: body}}, keystrand.ErrMessageType},
		"group on normal":       {[]keystrand.Message{{Topic: normal, MessageGroup: "a", Body: body}}, keystrand.ErrMessageType},
		"no body":               {[]keystrand.Message{{Topic: w.topic, MessageGroup: "a"}}, keystrand.ErrRejected},
		"body over 4 MiB":       {[]keystrand.Message{{Topic: w.topic, MessageGroup: "a", Body: make([]byte, 4<<20+1)}}, keystrand.ErrTooLarge},
		"group of 64 bytes":     {[]keystrand.Message{{Topic: w.topic, MessageGroup: strings.Repeat("a", 64), Body: body}}, keystrand.ErrRejected},
		"token property":        {[]keystrand.Message{{Topic: w.topic, MessageGroup: "a", Body: body, Properties: map[string]string{keystrand.PropertyToken: "1"}}}, keystrand.ErrRejected},
		"one of a batch is bad": {[]keystrand.Message{{Topic: w.topic, MessageGroup: "a", Body: body}, {Topic: w.topic, MessageGroup: "a"}}, keystrand.ErrRejected},
	} {
		if _, err := w.producer.Send(ctx, c.messages...); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for name, o := range map[string]keystrand.ConsumerOptions{
		"unknown topic": {Group: w.group, Topic: "nowhere"}, "unknown group": {Group: "nobody", Topic: w.topic}, "no names": {}, "lease too long": {Group: w.group, Topic: w.topic, Lease: 13 * time.Hour},
		"bad filter": {Group: w.group, Topic: w.topic, Filter: "a ||"},
	} {
		c, err := w.engine.Consumer(ctx, o)
		if err == nil {
			_, err = c.Receive(ctx, 1)
			_ = c.Close()
		}
		if name == "unknown group" && err == nil {
			continue // an engine may make groups by itself
		}
		if !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("consumer, %s: got %v", name, err)
		}
	}
	w.nothing(w.options()) // nothing of a refused send was stored
}

func emptyReceive(t *testing.T, w *world) {
	o := w.options()
	o.Wait = 200 * time.Millisecond
	c := w.consumerOf(o)
	began := time.Now()
	got, err := c.Receive(t.Context(), 4)
	if took := time.Since(began); len(got) != 0 || err != nil || took < 150*time.Millisecond || took > limit/3 {
		t.Errorf("%d messages, %v, after %v", len(got), err, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := time.AfterFunc(50*time.Millisecond, cancel)
	defer stop.Stop()
	long := w.consumer(limit)
	if _, err := long.Receive(ctx, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled receive: %v", err)
	}
	w.send(1, "a")
	w.receive(w.consumer(limit), "a/1") // the cancelled receive has taken nothing with it
}

func admin(t *testing.T, w *world) {
	a := w.engine.Admin()
	w.must(a.CreateTopic(t.Context(), keystrand.TopicSpec{Name: w.topic, Type: keystrand.TopicFIFO, Queues: 4}))
	w.wants(a.CreateTopic(t.Context(), keystrand.TopicSpec{Name: w.topic, Type: keystrand.TopicNormal, Queues: 4}), keystrand.ErrExists)
	w.wants(a.CreateTopic(t.Context(), keystrand.TopicSpec{Name: "../etc", Type: keystrand.TopicFIFO}), keystrand.ErrRejected)
	spec := keystrand.GroupSpec{Name: w.group + "-again", Ordered: true, MaxAttempts: 3}
	w.must(a.CreateGroup(t.Context(), spec))
	w.must(a.CreateGroup(t.Context(), spec))
	spec.MaxAttempts = 4
	w.wants(a.CreateGroup(t.Context(), spec), keystrand.ErrExists)
}

func closed(t *testing.T, w *world) {
	c, p := w.consumer(limit), w.newProducer()
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Receive(context.WithoutCancel(t.Context()), 1)
		waiting <- err
	}()
	w.must(p.Close())
	w.must(p.Close())
	if _, err := p.Send(t.Context(), keystrand.Message{Topic: w.topic, MessageGroup: "a", Body: []byte("x")}); !errors.Is(err, keystrand.ErrClosed) {
		t.Errorf("send: %v", err)
	}
	stop := time.AfterFunc(100*time.Millisecond, func() { w.must(c.Close()) })
	defer stop.Stop()
	select {
	case err := <-waiting:
		w.wants(err, keystrand.ErrClosed)
	case <-time.After(limit):
		t.Error("a waiting receive did not end with its consumer")
	}
	w.must(c.Close())
	if _, err := c.Receive(t.Context(), 1); !errors.Is(err, keystrand.ErrClosed) {
		t.Errorf("receive: %v", err)
	}
	w.must(w.engine.Close())
	w.must(w.engine.Close())
}

// restart: a1 is finished, b1 failed once, c1 is out; after the restart none of them is lost, and a1 does not come again.
func restart(t *testing.T, w *world) {
	w.send(2, "a", "b", "c")
	c := w.consumer(limit)
	heads := map[string]keystrand.Delivery{}
	for len(heads) < 3 {
		batch, err := c.Receive(t.Context(), 3)
		w.must(err)
		for _, d := range batch {
			heads[d.MessageGroup] = d
		}
	}
	w.must(c.Ack(t.Context(), heads["a"]))
	w.must(c.Fail(t.Context(), heads["b"], errors.New("first attempt")))

	w.engine = w.subject.Restart(w, w.engine)
	c = w.consumer(limit)
	again := map[string]keystrand.Delivery{}
	for len(again) < 2 {
		batch, err := c.Receive(t.Context(), 3)
		if errors.Is(err, keystrand.ErrRetryLater) {
			continue
		}
		w.must(err)
		for _, d := range batch {
			again[d.MessageGroup] = d
		}
	}
	if string(again["a"].Body) != "a/2" || string(again["b"].Body) != "b/1" {
		t.Fatalf("after the restart: %q and %q", again["a"].Body, again["b"].Body)
	}
	w.later(heads["b"], again["b"], 2)
	if w.engine.Guarantees().Fencing && !again["a"].Token.Supersedes(heads["a"].Token) {
		t.Errorf("token %v does not supersede %v", again["a"].Token, heads["a"].Token)
	}
	w.nothing(w.options())                 // c/1 is out: its lease runs its whole length again
	w.must(c.Ack(t.Context(), heads["c"])) // and its handle may ack once
	w.must(c.Ack(t.Context(), w.receive(c, "c/2")))
}
