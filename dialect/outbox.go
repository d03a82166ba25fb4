package dialect

import (
	"context"
	"database/sql"

	"github.com/keystrand/keystrand"
)

// OutboxEvent is one row of the outbox: an event, where it goes, and which hash slot its message group belongs to.
type OutboxEvent struct {
	keystrand.Event
	Topic string
	// Slot is 0 to Slots-1, a hash of the message group; relays divide the work by it.
	Slot int
}

// Slots is how many hash slots message groups fall into. It is stored in rows and must never change.
const Slots = 64

// Appended says what became of an append.
type Appended struct {
	// Version is the event's version, when Refused is "".
	Version int64
	// Refused says why nothing was written, and Next what the version would have had to be.
	Refused Refusal
	Next    int64
	// Topic is where the aggregate's events go, when Refused is RefusedTopic.
	Topic string
}

// Refusal says why an append wrote nothing. The transaction is as it was and may go on.
type Refusal string

// The refusals.
const (
	RefusedVersion Refusal = "version"  // the given version is not the next one
	RefusedEventID Refusal = "event id" // an event of that id exists
	RefusedTopic   Refusal = "topic"    // the aggregate's earlier events went to another topic
)

// Outbox is the sender's half: rows written in the caller's transaction.
type Outbox interface {
	// AppendEvent gives the event the aggregate's next version (1, 2, 3, ...) under a lock on the aggregate that lasts until
	// the transaction ends, and inserts its row; so versions have no hole and their order is the order of commits. A Version
	// other than 0 must be the next one. A refused append leaves no trace, also when the caller commits.
	AppendEvent(ctx context.Context, tx Tx, e OutboxEvent) (Appended, error)
}

// Relay is a relay process as the others see it: they watch its beat on their own clocks, so no wall clock decides.
type Relay struct {
	Owner string
	Beat  int64
}

// Slot is a hash slot and its owner; "" is none. Token grows each time the slot gets an owner.
type Slot struct {
	ID    int
	Owner string
	Token int64
}

// Unsent asks for the next rows of one slot.
type Unsent struct {
	Slot int
	// After is the message group to start behind; "" is the first. It pages through one sweep and is never kept beyond it.
	After string
	// Groups is how many message groups at most, PerGroup how many rows of each, from its first unsent one.
	Groups, PerGroup int
}

// Sent says that a row was confirmed by the engine, by the owner of its slot under Token.
type Sent struct {
	Slot      int
	Token     int64
	Aggregate string
	Version   int64
}

// Relays is the relay's half. Each method is one transaction of its own.
type Relays interface {
	// Beat makes owner's row or raises its beat.
	Beat(ctx context.Context, db *sql.DB, owner string) error
	// Survey reads all relays and all slots at one moment.
	Survey(ctx context.Context, db *sql.DB) ([]Relay, []Slot, error)
	// TakeSlots gives owner each of the slots that still stands as seen, and returns those with their new tokens. The dead
	// relays are removed first, each only if its beat is still the one seen; slots of a relay that beat again are not taken.
	TakeSlots(ctx context.Context, db *sql.DB, owner string, seen []Slot, dead []Relay) ([]Slot, error)
	// ReleaseSlots gives up those of the slots that owner still holds under their tokens; with leave, its relay row too.
	ReleaseSlots(ctx context.Context, db *sql.DB, owner string, slots []Slot, leave bool) error
	// BusySlots lists those of owner's slots that have unsent rows.
	BusySlots(ctx context.Context, db *sql.DB, owner string) ([]Slot, error)
	// UnsentEvents reads rows in the order of message group and version. It sees exactly what is committed: a row whose
	// transaction commits late is found by the next sweep.
	UnsentEvents(ctx context.Context, db *sql.DB, q Unsent) ([]OutboxEvent, error)
	// MarkSent stamps rows as sent, in order, where the slot's token is still the given one. It returns how many it stamped;
	// less than all means that a slot has another owner.
	MarkSent(ctx context.Context, db *sql.DB, sent []Sent, atNs int64) (int, error)
	// CountUnsent counts the rows not yet sent.
	CountUnsent(ctx context.Context, db *sql.DB) (int64, error)
	// EventsOf reads an aggregate's rows from a version on, sent or not: the authoritative log for repair.
	EventsOf(ctx context.Context, db *sql.DB, aggregate string, from int64, limit int) ([]OutboxEvent, error)
}
