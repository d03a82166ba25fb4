package server

import (
	"context"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// Sequencer is what the edge needs of the broker's core. All methods are safe from any goroutine and end with ctx.
type Sequencer interface {
	storing
	delivering
	describing
}

type storing interface {
	// Send stores messages of one topic, all or nothing, in order, and answers when they are durable.
	Send(ctx context.Context, topic string, messages []keystrand.Message, bornHost string) ([]keystrand.Receipt, error)
}

type delivering interface {
	// Receive holds up to r.Wait; no message in time: empty and no error. The edge owns what it gets.
	Receive(ctx context.Context, r sequencer.Receive) ([]keystrand.Delivery, error)
	// Undelivered says that the answer was not written: the leases end at once, the attempts do not count.
	Undelivered(deliveries []keystrand.Delivery)
	Ack(ctx context.Context, group, topic string, handles ...string) []error
	Fail(ctx context.Context, group, topic, handle, reason string) error
	FailAfter(ctx context.Context, group, topic, handle, reason string, delay time.Duration) error
	ChangeInvisible(ctx context.Context, group, topic, handle string, d time.Duration) (string, error)
	ClientSeen(clientID, group string)
	ClientGone(clientID string, after time.Duration)
}

type describing interface {
	Topic(name string) (sequencer.TopicInfo, bool)
	Group(name string) (sequencer.GroupInfo, bool)
	EnsureGroup(ctx context.Context, group, topic string) (sequencer.GroupInfo, error)
}

var _ Sequencer = (*sequencer.Sequencer)(nil)
