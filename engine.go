package keystrand

import (
	"context"
	"time"
)

// Engine is an ordered-messaging system as the library sees it: the embedded broker, Apache RocketMQ, Apache Kafka.
// All methods may be called from any goroutine.
type Engine interface {
	// Producer opens a sender. The caller closes it.
	Producer(ctx context.Context) (Producer, error)
	// Consumer opens a receiver for one consumer group and topic. The caller closes it.
	Consumer(ctx context.Context, options ConsumerOptions) (Consumer, error)
	// Admin manages topics and consumer groups.
	Admin() Admin
	// Guarantees states what this engine keeps; the shared test suite checks just that.
	Guarantees() Guarantees
	// Close ends everything opened from the engine. Safe twice.
	Close() error
}

// Producer sends messages.
type Producer interface {
	// Send stores messages of one topic in the given order and returns when they are durable. On error nothing, or
	// (ErrUnknown) perhaps all, was stored: the caller repeats with the same IDs before it sends later messages of the same groups.
	Send(ctx context.Context, messages ...Message) ([]Receipt, error)
	Close() error
}

// ConsumerOptions names what a Consumer receives.
type ConsumerOptions struct {
	Group, Topic string
	// Filter is a tag expression: "", "*" or "a || b".
	Filter string
	// Lease is how long a delivery stays the consumer's; 0 means 30 s; bounds 10 s (1 s on the embedded engine) to 12 h.
	Lease time.Duration
	// Wait is the longest hold of an empty Receive; 0 means 20 s.
	Wait time.Duration
	// ClientID names this consumer to the engine; empty: made up.
	ClientID string
}

// Consumer receives messages, at most one unfinished message of a message group at a time.
type Consumer interface {
	// Receive waits for 1 to max deliveries of as many different strands. No message in time: empty and no error.
	Receive(ctx context.Context, max int) ([]Delivery, error)
	// Ack finishes deliveries, durably. What went wrong with single ones is joined as *DeliveryError: ErrLeaseExpired if it went
	// out again. The repeat of an ack that took effect is no error.
	Ack(ctx context.Context, deliveries ...Delivery) error
	// Fail reports a failed attempt: the engine counts it, backs off, and applies the group's at-limit policy.
	Fail(ctx context.Context, delivery Delivery, cause error) error
	// Extend makes the lease end d from now and returns the delivery with its new handle.
	Extend(ctx context.Context, delivery Delivery, d time.Duration) (Delivery, error)
	Close() error
}

// Admin manages topics and groups. Creating what exists with the same settings is no error.
type Admin interface {
	CreateTopic(ctx context.Context, topic TopicSpec) error
	CreateGroup(ctx context.Context, group GroupSpec) error
}

// TopicType says what a topic takes.
type TopicType string

// The topic types of this version.
const (
	TopicFIFO   TopicType = "fifo"   // every message has a message group
	TopicNormal TopicType = "normal" // no message has one
)

// TopicSpec describes a topic.
type TopicSpec struct {
	Name   string
	Type   TopicType
	Queues int // 1 to 1024; 0 means 8
}

// AtLimit says what happens to a message of an ordered group after its last allowed attempt.
type AtLimit string

// The at-limit policies.
const (
	AtLimitPark       AtLimit = "park"        // the strand waits, with its messages, for an operator
	AtLimitDeadLetter AtLimit = "dead-letter" // copied to %DLQ%group and finished in one record; the strand goes on
	AtLimitBlock      AtLimit = "block"       // goes on retrying, with an alarm
)

// GroupSpec describes a consumer group. The zero value of each field means its default.
type GroupSpec struct {
	Name    string
	Ordered bool
	// MaxAttempts counts deliveries, the first is 1. Default 16; -1 means unlimited.
	MaxAttempts int
	AtLimit     AtLimit // default park
	// From is where the group starts on a topic: "earliest" (default) or "latest".
	From string
	// OrderLevel is "group" (default) or "queue" (imitates brokers that block a whole queue).
	OrderLevel string
	// PushBatch is "one" (default) or "many": messages in one answer to a FIFO push client.
	PushBatch string
	// PushWindow bounds unacked messages per push client and assignment entry; default 64, bounds 1 to 512.
	PushWindow int
	// MaxProcessing is how long an auto-renewed lease may last; default 15 min, bounds 1 s to 12 h.
	MaxProcessing time.Duration
	// BackOffMin doubles with each reported failure up to BackOffMax; defaults 1 s and 60 s.
	BackOffMin, BackOffMax time.Duration
}

// Guarantees states as data what an engine keeps.
type Guarantees struct {
	Engine string
	// OrderScope and BlockScope: "message group" or "queue": what is kept in order; what waits behind a failing message.
	OrderScope, BlockScope string
	// Fencing: deliveries carry a Token.
	Fencing bool
	// CountsAttempts: the engine (not the library) counts attempts and keeps the count over restarts.
	CountsAttempts bool
	// Durable: Send returns after the message is on disk.
	Durable bool
	// Growth: queues can be added without breaking the order of a group.
	Growth bool
}
