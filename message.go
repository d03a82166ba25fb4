package keystrand

import (
	"fmt"
	"strconv"
	"time"
)

// Offset is the index of a message in its queue. The first message of a queue has offset 0.
type Offset int64

// Message is what a producer sends. The zero value is not sendable: Topic and a non-empty Body are required.
type Message struct {
	// ID names the message for ever; a repeated send carries the same ID. Empty: the engine assigns one.
	ID string
	// Topic is the named stream the message goes to.
	Topic string
	// MessageGroup is the ordering key (at most 63 bytes of UTF-8, no control characters). Required on FIFO topics.
	MessageGroup string
	// Tag is the one-word label that subscriptions filter by. Optional.
	Tag string
	// Keys are look-up keys, without spaces. Optional.
	Keys []string
	// Properties are the user's own name-value pairs: at most 128, at most 16 KiB with tag and keys.
	Properties map[string]string
	// Body is opaque, 1 byte to 4 MiB.
	Body []byte
	// BornAt is the producer's wall-clock time; zero means the time of the send.
	BornAt time.Time
}

// Receipt tells where a message was stored, durably unless the broker was configured otherwise.
type Receipt struct {
	MessageID string
	// Queue is -1 when the engine's protocol does not tell.
	Queue  int32
	Offset Offset
}

// Token is a fencing token: within one broker id it grows with each grant of a strand, so whoever holds the larger one
// is the present owner. Tokens of different broker ids do not compare; there the version of the aggregate decides.
// The zero Token means that the engine has none (see [Guarantees]).
type Token struct {
	// Broker is the id of the broker's data directory, 16 hex digits.
	Broker string
	// Value is (boot epoch << 40) | grant counter; it fits a signed 64-bit column.
	Value uint64
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.Broker == "" && t.Value == 0 }

// Supersedes reports whether t is certainly later than old: same broker, larger value.
func (t Token) Supersedes(old Token) bool { return t.Broker == old.Broker && t.Value > old.Value }

// String prints the token as broker:value, or "none".
func (t Token) String() string {
	if t.IsZero() {
		return "none"
	}
	return t.Broker + ":" + strconv.FormatUint(t.Value, 10)
}

// Names of the user properties under which clients of the RocketMQ protocols read the fencing token. They are added at
// delivery and never stored; a producer may not set them.
const (
	PropertyToken  = "KS_TOKEN"
	PropertyBroker = "KS_BROKER"
)

// Delivery is one hand-out of a message to one consumer.
type Delivery struct {
	Message
	Queue    int32
	Offset   Offset
	StoredAt time.Time
	// Attempt counts deliveries of this message to this consumer group; the first is 1.
	Attempt int
	// Token guards the delivery's effects against a later owner of the strand.
	Token Token
	// ReceiptHandle proves that this delivery is yours. Opaque; never log it.
	ReceiptHandle string
	// Lease is how long the delivery was yours for when it was handed out.
	Lease time.Duration
}

// String names the delivery for people, without body and handle.
func (d Delivery) String() string {
	return fmt.Sprintf("topic %q queue %d offset %d group %q message %s attempt %d", d.Topic, d.Queue, d.Offset, d.MessageGroup, d.ID, d.Attempt)
}
