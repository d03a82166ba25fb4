package server_test

import (
	"context"
	"sync"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/state"
)

// double stands in for the sequencer where a test wants to see or decide what reaches it. Each function may be nil.
type double struct {
	topics map[string]keystrand.TopicSpec
	groups map[string]keystrand.GroupSpec

	send    func(ctx context.Context, topic string, messages []keystrand.Message) ([]keystrand.Receipt, error)
	receive func(ctx context.Context, r sequencer.Receive) ([]keystrand.Delivery, error)
	ack     func(handles []string) []error
	fail    func(handle string, delay time.Duration) error // delay -1: the group's back-off
	change  func(handle string, d time.Duration) (string, error)

	mu          sync.Mutex // guards those below
	undelivered []keystrand.Delivery
	gone        []gone
	seen        []seen
	changed     chan struct{} // closed and renewed with every note below
}

type (
	gone struct {
		client string
		after  time.Duration
	}
	seen struct{ client, group string }
)

func newDouble() *double {
	return &double{
		topics: map[string]keystrand.TopicSpec{
			"orders": {Name: "orders", Type: keystrand.TopicFIFO, Queues: 4}, "notes": {Name: "notes", Type: keystrand.TopicNormal, Queues: 4},
		},
		groups:  map[string]keystrand.GroupSpec{},
		changed: make(chan struct{}),
	}
}

func (d *double) Send(ctx context.Context, topic string, messages []keystrand.Message, _ string) ([]keystrand.Receipt, error) {
	if d.send != nil {
		return d.send(ctx, topic, messages)
	}
	receipts := make([]keystrand.Receipt, len(messages))
	for i := range messages {
		receipts[i] = keystrand.Receipt{MessageID: messages[i].ID}
	}
	return receipts, nil
}

func (d *double) Receive(ctx context.Context, r sequencer.Receive) ([]keystrand.Delivery, error) {
	if d.receive != nil {
		return d.receive(ctx, r)
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, nil
	}
}

func (d *double) Ack(_ context.Context, _, _ string, handles ...string) []error {
	if d.ack != nil {
		return d.ack(handles)
	}
	return make([]error, len(handles))
}

func (d *double) Fail(ctx context.Context, group, topic, handle, reason string) error {
	return d.FailAfter(ctx, group, topic, handle, reason, -1)
}

func (d *double) FailAfter(_ context.Context, _, _, handle, _ string, delay time.Duration) error {
	if d.fail != nil {
		return d.fail(handle, delay)
	}
	return nil
}

func (d *double) ChangeInvisible(_ context.Context, _, _, handle string, duration time.Duration) (string, error) {
	if d.change != nil {
		return d.change(handle, duration)
	}
	return handle, nil
}

func (d *double) note(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// wait blocks until is holds, which is called with mu held, or ctx ends.
func (d *double) wait(ctx context.Context, is func() bool) bool {
	for {
		d.mu.Lock()
		ok, changed := is(), d.changed
		d.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (d *double) Undelivered(deliveries []keystrand.Delivery) {
	d.note(func() { d.undelivered = append(d.undelivered, deliveries...) })
}

func (d *double) ClientSeen(clientID, group string) {
	d.note(func() { d.seen = append(d.seen, seen{clientID, group}) })
}

func (d *double) ClientGone(clientID string, after time.Duration) {
	d.note(func() { d.gone = append(d.gone, gone{clientID, after}) })
}

func (d *double) Topic(name string) (sequencer.TopicInfo, bool) {
	t, ok := d.topics[name]
	return sequencer.TopicInfo{Topic: state.Topic{Name: t.Name, Type: t.Type, Queues: int32(t.Queues)}}, ok
}

func (d *double) Group(name string) (sequencer.GroupInfo, bool) {
	g, ok := d.groups[name]
	return sequencer.GroupInfo{Group: state.Group{Spec: g}}, ok
}

func (d *double) EnsureGroup(_ context.Context, group, _ string) (sequencer.GroupInfo, error) {
	if g, ok := d.Group(group); ok {
		return g, nil
	}
	return sequencer.GroupInfo{}, keystrand.ErrGroupNotFound
}
