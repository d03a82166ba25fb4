package dialect

import (
	"context"
	"database/sql"

	"github.com/keystrand/keystrand"
)

// InboxKey names an aggregate within an inbox; each inbox has its own versions, event ids and gap buffer.
type InboxKey struct {
	Inbox, Aggregate string
}

// InboxRow is what an inbox holds of one aggregate.
//
// Invariant: Version is the last applied version, every pending row has a version above it, and Pending is their number.
type InboxRow struct {
	Version int64
	State   string
	// Token is the largest seen, of the broker that last delivered.
	Token   keystrand.Token
	Pending int
}

// InboxEvent is an event that an inbox has applied.
type InboxEvent struct {
	EventID   string
	Aggregate string
	Version   int64
	// Sum is the check sum of the content that was applied.
	Sum []byte
}

// Aside is an event set aside for a person, with its reason.
type Aside struct {
	Reason string
	Event  keystrand.Event
	Sum    []byte
	AtNs   int64
}

// Inbox is the receiver's half. All but the last three run in the transaction that applies the event.
type Inbox interface {
	// ReadInbox reads the row of k (the zero row and false when there is none) and the applied event of that id, or nil.
	ReadInbox(ctx context.Context, tx Tx, k InboxKey, eventID string) (InboxRow, bool, *InboxEvent, error)
	// AppliedAt reads the event that was applied as that version, or nil when it is not kept.
	AppliedAt(ctx context.Context, tx Tx, k InboxKey, version int64) (*InboxEvent, error)
	// SetInbox is the one compare-and-set: it writes next if the row still has old's version and no token of the same broker
	// above next's. It reports whether exactly one row changed. A row that did not exist is made when exists is false.
	SetInbox(ctx context.Context, tx Tx, k InboxKey, old, next InboxRow, exists bool) (bool, error)
	// PutApplied records an applied event. An event id that is there already is an error of ClassRefused.
	PutApplied(ctx context.Context, tx Tx, k InboxKey, e InboxEvent, atNs int64) error
	// PutPending parks an early event; false when one of that version waits already.
	PutPending(ctx context.Context, tx Tx, k InboxKey, e keystrand.Event, sum []byte, atNs int64) (bool, error)
	// PendingAt reads the parked event of a version with its check sum, or nil.
	PendingAt(ctx context.Context, tx Tx, k InboxKey, version int64) (*keystrand.Event, []byte, error)
	// TakePending reads and removes the parked event of a version, or nil.
	TakePending(ctx context.Context, tx Tx, k InboxKey, version int64) (*keystrand.Event, []byte, error)
	// CountPending counts parked events of the whole inbox, up to limit.
	CountPending(ctx context.Context, tx Tx, inbox string, limit int) (int, error)
	// PutAside sets an event aside; false when the same event with the same content stands there already.
	PutAside(ctx context.Context, tx Tx, k InboxKey, a Aside) (bool, error)

	// Gaps lists aggregates with parked events, oldest first: what waits, from which version on.
	Gaps(ctx context.Context, db *sql.DB, inbox string, limit int) ([]Gap, error)
	// Asides lists what was set aside, oldest first.
	Asides(ctx context.Context, db *sql.DB, inbox string, limit int) ([]Aside, error)
	// InboxOf reads the row of k outside of any transaction.
	InboxOf(ctx context.Context, db *sql.DB, k InboxKey) (InboxRow, bool, error)
}

// Gap is an open gap: versions in (Applied, First) are missing.
type Gap struct {
	Aggregate      string
	Applied, First int64
	Pending        int
	SinceNs        int64
}
