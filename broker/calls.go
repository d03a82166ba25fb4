package broker

import (
	"context"
	"time"

	"github.com/keystrand/keystrand"
)

// Send stores messages of one topic in the given order, all or none, and returns when they are durable. bornHost is the
// producer's address, for tools; may be empty. Errors: keystrand.ErrRejected (with ErrTopicNotFound, ErrMessageType,
// ErrTooLarge), ErrRetryLater (surely not stored), ErrUnknown (send again with the same ids).
func (b *Broker) Send(ctx context.Context, topic string, messages []keystrand.Message, bornHost string) ([]keystrand.Receipt, error) {
	return b.core.Send(ctx, topic, messages, bornHost)
}

// Receive holds until messages of as many different strands are there, at most 32 and at most r.Max; empty and nil when
// r.Wait is over. A context that ends gives back what was leased meanwhile.
func (b *Broker) Receive(ctx context.Context, r Receive) ([]keystrand.Delivery, error) {
	return b.core.Receive(ctx, r)
}

// EnsureGroup looks a consumer group up for a consumer of topic. With Options.AutoCreate an unknown one is made, ordered on a
// FIFO topic; without, the error is keystrand.ErrGroupNotFound.
func (b *Broker) EnsureGroup(ctx context.Context, group, topic string) (GroupInfo, error) {
	return b.core.EnsureGroup(ctx, group, topic)
}

// Undelivered gives deliveries back that never reached their consumer; their attempts do not count.
func (b *Broker) Undelivered(deliveries []keystrand.Delivery) { b.core.Undelivered(deliveries) }

// Ack finishes deliveries durably: one error per handle, nil also for the repeat of an ack that took effect.
func (b *Broker) Ack(ctx context.Context, group, topic string, handles ...string) []error {
	return b.core.Ack(ctx, group, topic, handles...)
}

// Fail reports a failed attempt: it is counted, the strand backs off or the group's at-limit policy is applied.
func (b *Broker) Fail(ctx context.Context, group, topic, handle, reason string) error {
	return b.core.Fail(ctx, group, topic, handle, reason)
}

// ChangeInvisible makes the lease end d from now (0 to 12 h) and returns the handle to use from then on.
func (b *Broker) ChangeInvisible(ctx context.Context, group, topic, handle string, d time.Duration) (string, error) {
	return b.core.ChangeInvisible(ctx, group, topic, handle, d)
}

// CreateTopic makes a topic; one that exists with the same settings is no error.
func (b *Broker) CreateTopic(ctx context.Context, topic keystrand.TopicSpec) error {
	return b.core.CreateTopic(ctx, topic)
}

// CreateGroup makes a consumer group; one that exists with the same settings is no error.
func (b *Broker) CreateGroup(ctx context.Context, group keystrand.GroupSpec) error {
	return b.core.CreateGroup(ctx, group)
}

// Topics lists the topics by name.
func (b *Broker) Topics() []TopicInfo { return b.core.Topics() }

// Groups lists the consumer groups by name.
func (b *Broker) Groups() []GroupInfo { return b.core.Groups() }

// Lag tells how far a group is on each of its topics.
func (b *Broker) Lag(ctx context.Context, group string) ([]GroupTopic, error) {
	return b.core.Lag(ctx, group)
}

// Explain says why the strand of a message group does or does not move in a consumer group.
func (b *Broker) Explain(ctx context.Context, group, topic, key string) (Explanation, error) {
	return b.core.Explain(ctx, group, topic, key)
}

// Park sets a strand aside until Resume.
func (b *Broker) Park(ctx context.Context, group, topic, key, reason string) error {
	return b.core.Park(ctx, group, topic, key, reason)
}

// Resume lets a parked strand go on; its head's attempts start again at 1.
func (b *Broker) Resume(ctx context.Context, group, topic, key string) error {
	return b.core.Resume(ctx, group, topic, key)
}

// Stats tells counts since the start.
func (b *Broker) Stats(ctx context.Context) (Stats, error) { return b.core.Stats(ctx) }

// BrokerID names the data directory; fencing tokens compare only within one.
func (b *Broker) BrokerID() string { return b.core.BrokerID() }

// Err tells why the broker takes nothing (a failed write or sync), or nil.
func (b *Broker) Err() error { return b.core.Err() }
