package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// GapPolicy says what becomes of an event that comes before its predecessors.
type GapPolicy string

// The gap policies.
const (
	GapPark   GapPolicy = "park"   // it waits in the gap buffer; the default
	GapReject GapPolicy = "reject" // it is refused with a *GapError; the engine brings it again
)

// Options of an inbox. Name is required.
type Options struct {
	// Name scopes versions, event ids and the gap buffer: one inbox for each topic and consumer group that share a state.
	// It is stored with every row; at most 128 bytes.
	Name string
	// Gap is GapPark or GapReject.
	Gap GapPolicy
	// MaxPendingPerAggregate and MaxPending bound the gap buffer, default 1024 and 100,000. At a bound the event is refused
	// with a *GapError, so the engine keeps it: back-pressure, not loss.
	MaxPendingPerAggregate, MaxPending int
	// Transitions is the state machine; nil: none, every next version is allowed.
	Transitions Transitions
	// Retries is how often a transaction that the database rolled back (busy, serialization failure) is run again; default 8.
	Retries int
	// Events are called after the commit; they must not block.
	Events Events
	// Now stamps rows; default time.Now.
	Now func() time.Time
}

// Events tell what happened; each may be nil.
type Events struct {
	// Outcome is called for each event that Apply was given and for each that left the gap buffer.
	Outcome func(e keystrand.Event, o Outcome)
	// SetAside: a person should look. The event stands in the table with its reason.
	SetAside func(e keystrand.Event, reason string)
}

// Validate reports all faults at once.
func (o Options) Validate() error {
	switch {
	case o.Name == "" || len(o.Name) > 128:
		return fmt.Errorf("inbox: Options.Name must have 1 to 128 bytes: %w", keystrand.ErrRejected)
	case o.Gap != "" && o.Gap != GapPark && o.Gap != GapReject:
		return fmt.Errorf("inbox %q: Options.Gap is %q, not %q or %q: %w", o.Name, o.Gap, GapPark, GapReject, keystrand.ErrRejected)
	}
	return o.Transitions.Validate()
}

// Inbox applies events.
type Inbox struct {
	db      *sql.DB
	dialect dialect.Dialect
	options Options
	rules   rules
}

// New makes an inbox on a database of that dialect, whose tables Migrate has made.
func New(db *sql.DB, d dialect.Dialect, o Options) (*Inbox, error) {
	if db == nil || d == nil {
		return nil, fmt.Errorf("inbox %q: a database and a dialect are needed: %w", o.Name, keystrand.ErrRejected)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	def := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	def(&o.MaxPendingPerAggregate, 1024)
	def(&o.MaxPending, 100_000)
	def(&o.Retries, 8)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Inbox{db, d, o, rules{o.Gap, o.MaxPendingPerAggregate, o.MaxPending, o.Transitions}}, nil
}

// Handler makes the change that an event causes, in tx and nowhere else. It may be called for several events in one
// transaction, in version order, and again for the same event when the transaction was rolled back.
type Handler func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error

// Outcome is what became of an event.
type Outcome string

// The outcomes. All but Superseded mean that the delivery can be acknowledged.
const (
	Applied    Outcome = "applied"    // it was next: its change is committed
	Duplicate  Outcome = "duplicate"  // its id was applied before
	Stale      Outcome = "stale"      // its version was applied before under another id, with the same content
	Parked     Outcome = "parked"     // it waits in the gap buffer
	SetAside   Outcome = "set aside"  // it contradicts what was applied or waits: a person decides
	Superseded Outcome = "superseded" // the lease was lost; comes with an error
)

// Result of an Apply.
type Result struct {
	Outcome Outcome
	// Applied are the events that the transaction applied, in order: the one given and those that waited for it.
	Applied []keystrand.Event
	// Reason says why an event was set aside.
	Reason string

	released []released
}

type released struct {
	event   keystrand.Event
	outcome Outcome
	reason  string
}

// Apply applies the event that a delivery carries, under the delivery's token.
//
// Errors: ErrSuperseded (do nothing more with the delivery), *GapError and others of class ErrRetryLater (let it come
// again), ErrUnknown (the commit's answer was lost; the next delivery decides), ErrRejected (the message is no event, or
// its transition is not allowed: each delivery will end so, see *TransitionError), and whatever the handler returned, wrapped.
func (b *Inbox) Apply(ctx context.Context, d keystrand.Delivery, h Handler) (Result, error) {
	e, err := keystrand.EventOf(d.Message)
	if err != nil {
		return Result{}, fmt.Errorf("inbox %q: %w", b.options.Name, err)
	}
	return b.ApplyEvent(ctx, e, d.Token, h)
}

// ApplyEvent is Apply for an event that came in another way; the zero token leaves the fencing to the version.
func (b *Inbox) ApplyEvent(ctx context.Context, e keystrand.Event, token keystrand.Token, h Handler) (Result, error) {
	for attempt := 0; ; attempt++ {
		r, err := b.once(ctx, e, token, h)
		if err == nil {
			b.tell(e, r)
			return r, nil
		}
		if r.Outcome == Superseded {
			b.tell(e, r)
		}
		err = fmt.Errorf("inbox %q: event %q version %d of %q: %w", b.options.Name, e.EventID, e.Version, e.Aggregate, err)
		if attempt >= b.options.Retries || b.dialect.Classify(err) != dialect.ClassRetry || ctx.Err() != nil {
			return r, err
		}
		if err := pause(ctx, attempt); err != nil {
			return r, err
		}
	}
}

// pause waits 2 ms, doubling to 128 ms, half of it random so that two that collided do not collide again.
func pause(ctx context.Context, attempt int) error {
	d := time.Millisecond << min(attempt, 6)
	timer := time.NewTimer(d + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Inbox) once(ctx context.Context, e keystrand.Event, token keystrand.Token, h Handler) (Result, error) {
	tx, err := b.dialect.Begin(ctx, b.db)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing; after a panic of the handler it undoes
	r, err := b.apply(ctx, tx, e, token, h)
	if err != nil {
		return r, err
	}
	if err := tx.Commit(); err != nil {
		return Result{}, commitError(b.dialect, err)
	}
	return r, nil
}

func commitError(d dialect.Dialect, err error) error {
	switch d.Classify(err) {
	case dialect.ClassRetry:
		return fmt.Errorf("commit: %w: %w", err, keystrand.ErrRetryLater)
	case dialect.ClassCorrupt:
		return fmt.Errorf("commit: %w: %w", err, keystrand.ErrCorrupt)
	case dialect.ClassRefused:
		return fmt.Errorf("commit: %w: %w", err, keystrand.ErrRejected)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("commit: %w: %w", err, keystrand.ErrUnknown) // it may be in: the next delivery decides
}

// ApplyIn is Apply in a transaction of the caller, who commits it, or rolls it back after an error, and repeats it when the
// database says so. No event callback is called.
func (b *Inbox) ApplyIn(ctx context.Context, tx *sql.Tx, e keystrand.Event, token keystrand.Token, h Handler) (Result, error) {
	if err := b.dialect.CheckWriter(ctx, tx); err != nil {
		return Result{}, fmt.Errorf("inbox %q: %w", b.options.Name, err)
	}
	r, err := b.apply(ctx, tx, e, token, h)
	if err != nil {
		return r, fmt.Errorf("inbox %q: event %q version %d of %q: %w", b.options.Name, e.EventID, e.Version, e.Aggregate, err)
	}
	return r, nil
}

func (b *Inbox) tell(e keystrand.Event, r Result) {
	for _, x := range append([]released{{e, r.Outcome, r.Reason}}, r.released...) {
		if f := b.options.Events.Outcome; f != nil {
			f(x.event, x.outcome)
		}
		if f := b.options.Events.SetAside; f != nil && x.outcome == SetAside {
			f(x.event, x.reason)
		}
	}
}

// Version is the version of an aggregate that was applied last, and its state; 0 and "" before the first.
func (b *Inbox) Version(ctx context.Context, aggregate string) (int64, string, error) {
	row, _, err := b.dialect.InboxOf(ctx, b.db, b.key(aggregate))
	return row.Version, row.State, err
}

// Gaps lists aggregates with events in the gap buffer, oldest first, at most limit.
func (b *Inbox) Gaps(ctx context.Context, limit int) ([]dialect.Gap, error) {
	return b.dialect.Gaps(ctx, b.db, b.options.Name, limit)
}

// Asides lists what was set aside, oldest first, at most limit.
func (b *Inbox) Asides(ctx context.Context, limit int) ([]dialect.Aside, error) {
	return b.dialect.Asides(ctx, b.db, b.options.Name, limit)
}

func (b *Inbox) key(aggregate string) dialect.InboxKey {
	return dialect.InboxKey{Inbox: b.options.Name, Aggregate: aggregate}
}
