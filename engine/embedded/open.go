package embedded

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
	"github.com/keystrand/keystrand/internal/task"
)

// Options are the broker's. Only DataDir is required.
type Options = broker.Options

// Engine is a broker in this process.
type Engine struct {
	broker *broker.Broker
	tasks  *task.Group
	once   sync.Once
	err    error
}

var _ keystrand.Engine = (*Engine)(nil)

// Open opens the data directory, recovers it and runs the broker until Close. ctx bounds the opening only.
func Open(ctx context.Context, o Options) (*Engine, error) {
	b, err := broker.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open the embedded engine: %w", err)
	}
	e := &Engine{broker: b, tasks: task.NewGroup(context.WithoutCancel(ctx))} // Close ends it, not the caller's context
	ready := make(chan struct{})
	e.tasks.Go("embedded.broker", func(ctx context.Context) error { return b.Run(ctx, func() { close(ready) }) })
	select {
	case <-ready:
		return e, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), e.Close())
	case <-e.tasks.Context().Done():
		return nil, fmt.Errorf("open the embedded engine: %w", errors.Join(context.Cause(e.tasks.Context()), e.Close()))
	}
}

// Broker gives the broker, for what only it can: explain, park, resume, lag.
func (e *Engine) Broker() *broker.Broker { return e.broker }

// Close drains and ends the broker. Safe twice.
func (e *Engine) Close() error {
	e.once.Do(func() { e.err = errors.Join(e.tasks.Stop(), e.broker.Close()) })
	return e.err
}

// Producer opens a sender.
func (e *Engine) Producer(ctx context.Context) (keystrand.Producer, error) {
	return &producer{broker: e.broker, open: newOpening(ctx)}, nil
}

// Consumer opens a receiver. A topic that does not exist is refused (keystrand.ErrTopicNotFound), and without
// Options.AutoCreate a consumer group that does not exist, too (ErrGroupNotFound).
func (e *Engine) Consumer(ctx context.Context, o keystrand.ConsumerOptions) (keystrand.Consumer, error) {
	o, err := completeConsumer(o, minLease)
	if err != nil {
		return nil, err
	}
	if err := e.known(ctx, o); err != nil {
		return nil, fmt.Errorf("consumer of topic %q in group %q: %w", o.Topic, o.Group, err)
	}
	return &consumer{broker: e.broker, options: o, open: newOpening(ctx)}, nil
}

// known refuses names that a receive would refuse: most consumers are opened long before someone looks at what they receive.
func (e *Engine) known(ctx context.Context, o keystrand.ConsumerOptions) error {
	if !slices.ContainsFunc(e.broker.Topics(), func(t broker.TopicInfo) bool { return t.Name == o.Topic }) {
		return fmt.Errorf("%w; make it with Admin().CreateTopic or Options.Topics", keystrand.ErrTopicNotFound)
	}
	_, err := e.broker.EnsureGroup(ctx, o.Group, o.Topic)
	return err
}

// Admin manages topics and groups.
func (e *Engine) Admin() keystrand.Admin { return e.broker }

// Guarantees states what the engine keeps.
func (e *Engine) Guarantees() keystrand.Guarantees {
	g := guarantees
	g.Engine = "keystrand, in this process"
	return g
}

var guarantees = keystrand.Guarantees{OrderScope: "message group", BlockScope: "message group", Fencing: true, CountsAttempts: true, Durable: true}

func randomID(prefix string) string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the process instead
	return prefix + hex.EncodeToString(id[:])
}
