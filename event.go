package keystrand

import "time"

// Event is a state change of one aggregate, in the envelope that outbox and inbox share.
//
// Invariant: versions of one aggregate are 1, 2, 3, ... in the order of their commits.
type Event struct {
	// EventID is globally unique and the key of deduplication. At most 128 bytes.
	EventID string
	// Aggregate is the thing the event belongs to, type and id in one text, e.g. "order-1001"; it is also the message group.
	Aggregate string
	// Version counts the aggregate's events; the first is 1.
	Version int64
	// Type says what happened, e.g. "PaymentSucceeded"; it is also the message's tag.
	Type string
	// OccurredAt is the business time; ProducedAt the time of the outbox row.
	OccurredAt, ProducedAt time.Time
	// TraceID and Schema are optional.
	TraceID, Schema string
	// Payload is the message body.
	Payload []byte
}

// Names of the message properties that carry an Event's envelope. PropertyAggregateVersion is read as a fallback for
// PropertyVersion, since producers outside Keystrand send that name.
const (
	PropertyEventID          = "event_id"
	PropertyAggregate        = "aggregate"
	PropertyVersion          = "version"
	PropertyAggregateVersion = "aggregate_version"
	PropertyEventType        = "event_type"
	PropertyOccurredAt       = "occurred_at"
	PropertyProducedAt       = "produced_at"
	PropertyTraceID          = "trace_id"
	PropertySchema           = "schema"
)
