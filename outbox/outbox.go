package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// Options of an outbox. Topic is required.
type Options struct {
	// Topic is where the events go. An aggregate's events all go to one topic.
	Topic string
	// Now stamps ProducedAt; default time.Now.
	Now func() time.Time
}

// Outbox writes events of one topic. It has no state; one per topic is enough for a process.
type Outbox struct {
	dialect dialect.Dialect
	options Options
}

// New makes an outbox for one topic on a database of that dialect, whose tables Migrate has made.
func New(d dialect.Dialect, o Options) (*Outbox, error) {
	if d == nil || o.Topic == "" {
		return nil, fmt.Errorf("outbox: a dialect and Options.Topic are needed: %w", keystrand.ErrRejected)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Outbox{d, o}, nil
}

// Append writes the event in tx and returns it with what was filled in: the version (0 asks for the next one; a given one
// must be the next one), the event id when it was empty, ProducedAt and OccurredAt. The aggregate stays locked until tx ends.
//
// Errors: *VersionError, *EventIDError, *TopicError and other rejections leave the transaction as it was. After any other
// error roll back; errors of class ErrRetryLater are worth running the whole transaction again.
func (b *Outbox) Append(ctx context.Context, tx dialect.Tx, e keystrand.Event) (keystrand.Event, error) {
	if err := b.dialect.CheckWriter(ctx, tx); err != nil {
		return e, fmt.Errorf("outbox append for %q: %w", e.Aggregate, err)
	}
	return b.append(ctx, tx, e)
}

// AppendAll appends several events as Append does and returns them in the order given. It takes the aggregates' locks in
// sorted order, so that transactions over the same aggregates do not deadlock; events of one aggregate keep their order.
func (b *Outbox) AppendAll(ctx context.Context, tx dialect.Tx, events ...keystrand.Event) ([]keystrand.Event, error) {
	if err := b.dialect.CheckWriter(ctx, tx); err != nil {
		return nil, fmt.Errorf("outbox append of %d events: %w", len(events), err)
	}
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(events[i].Aggregate, events[j].Aggregate) })
	filled := slices.Clone(events)
	for _, i := range order {
		var err error
		if filled[i], err = b.append(ctx, tx, events[i]); err != nil {
			return nil, err
		}
	}
	return filled, nil
}

func (b *Outbox) append(ctx context.Context, tx dialect.Tx, e keystrand.Event) (keystrand.Event, error) {
	e = b.fillIn(e)
	if err := validate(e); err != nil {
		return e, err
	}
	a, err := b.dialect.AppendEvent(ctx, tx, dialect.OutboxEvent{Event: e, Topic: b.options.Topic, Slot: SlotOf(e.Aggregate)})
	if err != nil {
		return e, fmt.Errorf("outbox append of %q for %q: %w", e.EventID, e.Aggregate, err)
	}
	switch a.Refused {
	case dialect.RefusedVersion:
		return e, &VersionError{Aggregate: e.Aggregate, Next: a.Next, Got: e.Version}
	case dialect.RefusedEventID:
		return e, &EventIDError{EventID: e.EventID, Aggregate: e.Aggregate}
	case dialect.RefusedTopic:
		return e, &TopicError{Aggregate: e.Aggregate, Topic: a.Topic, Got: b.options.Topic}
	}
	e.Version = a.Version
	return e, nil
}

func (b *Outbox) fillIn(e keystrand.Event) keystrand.Event {
	if e.EventID == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails: it ends the process instead
		e.EventID = hex.EncodeToString(id[:])
	}
	if e.ProducedAt.IsZero() {
		e.ProducedAt = b.options.Now()
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = e.ProducedAt
	}
	return e
}

// maxPayloadBytes is the engines' limit of a body.
const maxPayloadBytes = 4 << 20

// validate refuses at the door what no engine would take: such a row would hold its message group for ever.
func validate(e keystrand.Event) error {
	if err := e.ValidateNew(); err != nil {
		return fmt.Errorf("outbox append: %w", err)
	}
	if len(e.Payload) == 0 || len(e.Payload) > maxPayloadBytes {
		return fmt.Errorf("outbox append: event %q of %q: payload has %d bytes, it needs 1 to %d: %w", e.EventID, e.Aggregate, len(e.Payload), maxPayloadBytes, keystrand.ErrTooLarge)
	}
	return nil
}

// SlotOf is the hash slot of a message group. Rows store it: the function must never change.
func SlotOf(messageGroup string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(messageGroup)) // a hash does not fail
	return int(h.Sum32() % dialect.Slots)
}
