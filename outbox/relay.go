package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/task"
)

// RelayOptions of a relay. The zero value works.
type RelayOptions struct {
	// Name shows whose slots they are; default a random one. A restarted process needs another name, so it is completed
	// with a random part.
	Name string
	// Poll is how often the database is asked when nothing called Notify; default 50 ms, one cheap query each.
	Poll time.Duration
	// Lease is how long the others wait for a beat before they take the slots; default 10 s, at least 1 s. Shorter: less
	// silence after a crash; longer: fewer duplicates from a relay that slept.
	Lease time.Duration
	// Batch is how many message groups share a send; default 64. Senders is how many sends are out; default 4.
	Batch, Senders int
	// PerGroup bounds the rows of one message group in memory, default 16; Rows all of them, default 4096.
	PerGroup, Rows int
	// SendTimeout bounds one send; its outcome is then unknown and it is repeated. Default 10 s.
	SendTimeout time.Duration
	// Events are called from the relay's goroutine, one at a time; they must not block.
	Events RelayEvents
	// Clock is the seam to time; default the real one.
	Clock Clock
}

// Clock tells both times; it must be safe from any goroutine. Wall stamps what people read. Mono never runs backwards: how
// long ago some fixed moment was.
type Clock interface {
	Wall() time.Time
	Mono() time.Duration
}

// RelayEvents tell what happens; each may be nil.
type RelayEvents struct {
	Sent  func(e keystrand.Event, r keystrand.Receipt) // confirmed by the engine
	Held  func(e keystrand.Event, err error)           // not confirmed; its message group waits
	Slots func(owned int)                              // the number of slots changed
	Fault func(err error)                              // the database did not answer; it is asked again
}

func (o RelayOptions) complete() RelayOptions {
	def := func(p *time.Duration, d, least time.Duration) {
		if *p == 0 {
			*p = d
		}
		*p = max(*p, least)
	}
	def(&o.Poll, 50*time.Millisecond, time.Millisecond)
	def(&o.Lease, 10*time.Second, time.Second)
	def(&o.SendTimeout, 10*time.Second, 10*time.Millisecond)
	count := func(p *int, d int) {
		if *p <= 0 {
			*p = d
		}
	}
	count(&o.Batch, 64)
	count(&o.Senders, 4)
	count(&o.PerGroup, 16)
	count(&o.Rows, 4096)
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	o.Name += "relay-" + hex.EncodeToString(id[:])
	return o
}

// Relay sends the rows of the outbox through a producer. Several relays, in one process or many, share the work by hash
// slots; each message group has one relay at a time.
type Relay struct {
	db       *sql.DB
	dialect  dialect.Dialect
	producer keystrand.Producer
	options  RelayOptions
	wake     chan struct{}
}

// NewRelay makes a relay; Run starts it. The producer stays the caller's.
func NewRelay(db *sql.DB, d dialect.Dialect, p keystrand.Producer, o RelayOptions) (*Relay, error) {
	if db == nil || d == nil || p == nil {
		return nil, fmt.Errorf("outbox relay: a database, a dialect and a producer are needed: %w", keystrand.ErrRejected)
	}
	return &Relay{db: db, dialect: d, producer: p, options: o.complete(), wake: make(chan struct{}, 1)}, nil
}

// Notify wakes the relay: call it after a commit that appended events. It never blocks and may be left out.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Pending counts the rows that are not sent yet, of all relays.
func (r *Relay) Pending(ctx context.Context) (int64, error) { return r.dialect.CountUnsent(ctx, r.db) }

// Run relays until ctx ends; then it waits for the sends that are out (at most SendTimeout), stamps what was confirmed,
// gives its slots back and returns nil. It may run once.
func (r *Relay) Run(ctx context.Context) error {
	run := &relayRun{
		Relay: r, lines: newLines(limits{batch: r.options.Batch, perGroup: r.options.PerGroup, rows: r.options.Rows, unmarked: 16 * r.options.Batch}),
		watch: watch{}, work: make(chan []dialect.OutboxEvent), results: make(chan sendResult), jobs: make(chan job), done: make(chan jobResult), free: r.options.Senders,
	}
	g := task.NewGroup(context.WithoutCancel(ctx)) // they end by their channels: what is out must come back
	for i := range r.options.Senders {
		g.Go(fmt.Sprintf("outbox.send.%d", i), run.send)
	}
	g.Go("outbox.database", run.database)
	run.loop(ctx)
	close(run.work)
	close(run.jobs)
	return g.Wait()
}

type sendResult struct {
	batch    []dialect.OutboxEvent
	receipts []keystrand.Receipt
	err      error
}

// send sends batches until there are no more.
func (r *relayRun) send(ctx context.Context) error {
	for batch := range r.work {
		messages := make([]keystrand.Message, len(batch))
		for i, row := range batch {
			messages[i] = row.Event.Message(row.Topic)
		}
		limited, cancel := context.WithTimeout(ctx, r.options.SendTimeout)
		receipts, err := r.producer.Send(limited, messages...)
		cancel()
		r.results <- sendResult{batch, receipts, err}
	}
	return nil
}
