package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
)

// maxTogether bounds the events of one transaction.
const maxTogether = 16

// together applies events of several handlers in one transaction: SQLite has one writer's place for all processes, and
// each turn at it costs a sync. Each event stands behind a savepoint, so one that fails takes only itself back. Nothing is
// waited for: while one transaction runs, the next one's events gather.
//
// Invariant: at most one transaction of this process runs; leading is true while it does.
type together struct {
	db    *sql.DB
	inbox *inbox.Inbox

	mu      sync.Mutex // guards below
	queue   []*toApply
	leading bool
}

// toApply is one handler's event.
type toApply struct {
	event   keystrand.Event
	token   keystrand.Token
	handler inbox.Handler
	turn    chan struct{} // told when it is done, or when it must lead
	done    bool
	result  inbox.Result
	err     error
}

// apply is Inbox.Apply, together with what others want applied.
func (t *together) apply(ctx context.Context, d keystrand.Delivery, h inbox.Handler) (inbox.Result, error) {
	e, err := keystrand.EventOf(d.Message)
	if err != nil {
		return inbox.Result{}, err
	}
	p := &toApply{event: e, token: d.Token, handler: h, turn: make(chan struct{}, 1)}
	t.mu.Lock()
	t.queue = append(t.queue, p)
	lead := !t.leading
	t.leading = true
	t.mu.Unlock()
	if !lead {
		<-p.turn // comes with the end of the transaction that runs, whoever leads it
	}
	if !p.done {
		// A handler whose context ends must not take the others' events back.
		t.lead(context.WithoutCancel(ctx))
	}
	return p.result, p.err
}

// lead applies the front of the queue, which holds the caller's event, and hands the lead on.
func (t *together) lead(ctx context.Context) {
	t.mu.Lock()
	n := min(len(t.queue), maxTogether)
	batch := append([]*toApply(nil), t.queue[:n]...)
	t.queue = append(t.queue[:0], t.queue[n:]...)
	t.mu.Unlock()
	if n == 1 || t.inOne(ctx, batch) != nil {
		for _, p := range batch {
			p.result, p.err = t.inbox.ApplyEvent(ctx, p.event, p.token, p.handler)
		}
	}
	for _, p := range batch {
		p.done = true
		p.turn <- struct{}{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.leading = false
		return
	}
	t.queue[0].turn <- struct{}{}
}

// inOne applies the batch in one transaction. After an error nothing of it was applied.
func (t *together) inOne(ctx context.Context, batch []*toApply) error {
	return transactOnce(ctx, t.db, func(tx *sql.Tx) error {
		for _, p := range batch {
			if err := t.one(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// one applies an event behind a savepoint. An error is the transaction's; the event's own goes to its handler.
func (t *together) one(ctx context.Context, tx *sql.Tx, p *toApply) error {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT event`); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	p.result, p.err = t.inbox.ApplyIn(ctx, tx, p.event, p.token, p.handler)
	if p.err != nil {
		if sqlite.Dialect.Classify(p.err) != dialect.ClassOther {
			return p.err
		}
		if _, err := tx.ExecContext(ctx, `ROLLBACK TO event`); err != nil {
			return errors.Join(p.err, fmt.Errorf("back to the savepoint: %w", err))
		}
	}
	if _, err := tx.ExecContext(ctx, `RELEASE event`); err != nil {
		return errors.Join(p.err, fmt.Errorf("release the savepoint: %w", err))
	}
	return nil
}
