package admin

import (
	"context"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// Catalog tells and makes topics.
type Catalog interface {
	Topics() []sequencer.TopicInfo
	Topic(name string) (sequencer.TopicInfo, bool)
	CreateTopic(ctx context.Context, topic keystrand.TopicSpec) error
}

// Groups tells and makes consumer groups.
type Groups interface {
	Groups() []sequencer.GroupInfo
	Group(name string) (sequencer.GroupInfo, bool)
	CreateGroup(ctx context.Context, group keystrand.GroupSpec) error
	EnsureGroup(ctx context.Context, group, topic string) (sequencer.GroupInfo, error)
	Lag(ctx context.Context, group string) ([]sequencer.GroupTopic, error)
}

// Messages moves single messages, for tools and tests; clients in earnest use the gRPC port.
type Messages interface {
	Send(ctx context.Context, topic string, messages []keystrand.Message, bornHost string) ([]keystrand.Receipt, error)
	Receive(ctx context.Context, receive sequencer.Receive) ([]keystrand.Delivery, error)
	Undelivered(deliveries []keystrand.Delivery)
	Ack(ctx context.Context, group, topic string, handles ...string) []error
}

// Strands is what an operator asks of one strand.
type Strands interface {
	Explain(ctx context.Context, group, topic, key string) (sequencer.Explanation, error)
	Park(ctx context.Context, group, topic, key, reason string) error
	Resume(ctx context.Context, group, topic, key string) error
}

// Health tells whether the broker takes messages; nil is yes.
type Health interface {
	BrokerID() string
	Err() error
}

// Backend is all that the HTTP door needs of the broker; the sequencer has it. Its methods are safe from any goroutine.
type Backend interface {
	Catalog
	Groups
	Messages
	Strands
	Health
}
