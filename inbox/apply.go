package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// maxReads bounds how often an event is decided anew because another transaction changed the row between the reading and
// the compare-and-set. Each time another event was applied, so more than a few mean that many work on one aggregate.
const maxReads = 8

// apply decides about one event and performs the decision in tx.
func (b *Inbox) apply(ctx context.Context, tx *sql.Tx, e keystrand.Event, token keystrand.Token, h Handler) (Result, error) {
	if err := e.Validate(); err != nil {
		return Result{}, err
	}
	sum := sumOf(e)
	for range maxReads {
		k, d, err := b.decideIn(ctx, tx, e, sum, token)
		if err != nil {
			return Result{Outcome: d.outcome}, err
		}
		ok, err := b.perform(ctx, tx, e, sum, k, d, h)
		if err != nil {
			return Result{}, err
		}
		if !ok {
			continue
		}
		if applyDuplicates && d.outcome == Duplicate && h != nil {
			if err := h(ctx, tx, e); err != nil {
				return Result{}, err
			}
		}
		r := Result{Outcome: d.outcome, Reason: d.reason}
		if d.do != doApply {
			return r, nil
		}
		r.Applied = []keystrand.Event{e}
		return r, b.drain(ctx, tx, b.key(e.Aggregate), d.next, h, &r)
	}
	return Result{}, fmt.Errorf("others changed the aggregate %d times while this was read: %w", maxReads, keystrand.ErrRetryLater)
}

// decideIn reads what decide asks for until it is content.
func (b *Inbox) decideIn(ctx context.Context, tx *sql.Tx, e keystrand.Event, sum []byte, token keystrand.Token) (known, decision, error) {
	key := b.key(e.Aggregate)
	var k known
	var err error
	if k.row, k.exists, k.seen, err = b.dialect.ReadInbox(ctx, tx, key, e.EventID); err != nil {
		return k, decision{}, err
	}
	for {
		d := decide(b.rules, e, sum, token, k)
		switch d.do {
		case readAt:
			k.atRead = true
			k.at, err = b.dialect.AppliedAt(ctx, tx, key, e.Version)
		case readWaiting:
			k.waitingRead = true
			_, k.waitingSum, err = b.dialect.PendingAt(ctx, tx, key, e.Version)
		case readAll:
			k.allRead = true
			k.all, err = b.dialect.CountPending(ctx, tx, key.Inbox, b.rules.maxAll)
		default:
			return k, d, d.err
		}
		if err != nil {
			return k, decision{}, err
		}
	}
}

// perform writes what was decided. False: the row is not as it was read; nothing was written.
func (b *Inbox) perform(ctx context.Context, tx *sql.Tx, e keystrand.Event, sum []byte, k known, d decision, h Handler) (bool, error) {
	key, at := b.key(e.Aggregate), b.options.Now().UnixNano()
	if d.do == doNothing {
		return true, nil
	}
	if d.do != doAside || k.exists {
		// Version and token first: from here on the row is locked, and whoever holds an older token finds ours.
		ok, err := b.dialect.SetInbox(ctx, tx, key, k.row, d.next, k.exists)
		if err != nil || !ok {
			return false, err
		}
	}
	switch d.do {
	case doPark:
		ok, err := b.dialect.PutPending(ctx, tx, key, e, sum, at)
		if err == nil && !ok {
			err = fmt.Errorf("version %d entered the gap buffer meanwhile: %w", e.Version, keystrand.ErrRetryLater)
		}
		return true, err
	case doAside:
		_, err := b.dialect.PutAside(ctx, tx, key, dialect.Aside{Reason: d.reason, Event: e, Sum: sum, AtNs: at})
		return true, err
	}
	if h != nil {
		if err := h(ctx, tx, e); err != nil {
			return true, err
		}
	}
	return true, b.dialect.PutApplied(ctx, tx, key, dialect.InboxEvent{EventID: e.EventID, Aggregate: e.Aggregate, Version: e.Version, Sum: sum}, at)
}

// drain applies what waits for the version that row has now. An event that cannot be applied and whose handler was not
// called is set aside: its delivery was acknowledged long ago, so this is the only place where it can wait for a person.
// When a handler fails, all of the transaction fails: half of its change may be in it.
func (b *Inbox) drain(ctx context.Context, tx *sql.Tx, key dialect.InboxKey, row dialect.InboxRow, h Handler, r *Result) error {
	for row.Pending > 0 {
		e, sum, err := b.dialect.TakePending(ctx, tx, key, row.Version+1)
		if err != nil || e == nil {
			return err
		}
		k, d, err := b.decideIn(ctx, tx, *e, sum, keystrand.Token{})
		var illegal *TransitionError
		if errors.As(err, &illegal) {
			d, err = aside(k.row, illegal.Error()), nil
		}
		if err != nil {
			return &PendingError{Aggregate: e.Aggregate, Version: e.Version, EventID: e.EventID, Err: err}
		}
		if d.do == doNothing { // its id was applied, as another version: the content contradicts
			d = aside(k.row, "its event id was applied before")
		}
		d.next.Pending--
		ok, err := b.perform(ctx, tx, *e, sum, k, d, h)
		if err == nil && !ok {
			err = fmt.Errorf("the row changed under its lock: %w", keystrand.ErrCorrupt)
		}
		if err != nil {
			return &PendingError{Aggregate: e.Aggregate, Version: e.Version, EventID: e.EventID, Err: err}
		}
		r.released = append(r.released, released{*e, d.outcome, d.reason})
		if d.do != doApply {
			return nil // the gap is open again, one version further
		}
		row = d.next
		r.Applied = append(r.Applied, *e)
	}
	return nil
}
