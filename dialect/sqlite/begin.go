package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// Begin starts a transaction that is SQLite's writer from its first moment (BEGIN IMMEDIATE). It waits for the writer's
// place in the order of the callers, at most the busy timeout; then the error is ErrRetryLater and nothing was done.
// One goroutine must not begin a second one on the same database before the first has ended: it would wait for itself.
func Begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	if db == nil {
		return nil, fmt.Errorf("begin on SQLite: the database is nil: %w", ErrForeignDatabase)
	}
	pool, ok := db.Driver().(*poolDriver)
	if !ok {
		return nil, fmt.Errorf("begin on SQLite: %w", ErrForeignDatabase)
	}
	t, err := pool.take(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(context.WithValue(ctx, ticketKey{}, t), nil)
	if err != nil {
		t.giveBack()
		return nil, fmt.Errorf("begin on SQLite: %w", wrap(err))
	}
	return tx, nil
}

// checkWriter refuses transactions that are not writers.
func checkWriter(ctx context.Context, tx dialect.Tx) error {
	if isNil(tx) {
		return ErrNilTransaction
	}
	var m mode
	err := tx.QueryRowContext(ctx, modeQuery).Scan((*string)(&m))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrForeignDatabase
	case err != nil:
		return wrap(err)
	case m == modeImmediate:
		return nil
	case m == modeDeferred:
		return ErrDeferred
	}
	return ErrNoTransaction
}

// isNil also finds the nil of a type: a tx whose Begin failed with an error that nobody looked at.
func isNil(tx dialect.Tx) bool {
	switch tx := tx.(type) {
	case nil:
		return true
	case *sql.Tx:
		return tx == nil
	case *sql.DB:
		return tx == nil
	case *sql.Conn:
		return tx == nil
	}
	return false
}

// ticket is the right to be this pool's writer.
type ticket struct {
	pool     *poolDriver
	returned atomic.Bool
}

type ticketKey struct{}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	if t == nil || t.returned.Load() {
		return nil
	}
	return t
}

func (p *poolDriver) take(ctx context.Context) (*ticket, error) {
	select {
	case p.writer <- struct{}{}:
		return &ticket{pool: p}, nil
	default:
	}
	patience := time.NewTimer(p.patience)
	defer patience.Stop()
	select {
	case p.writer <- struct{}{}:
		return &ticket{pool: p}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, fmt.Errorf("begin on SQLite: another transaction of this process has been the writer for more than %v; end it, or raise BusyTimeout: %w", p.patience, keystrand.ErrRetryLater)
	}
}

func (t *ticket) giveBack() {
	if t.returned.CompareAndSwap(false, true) {
		<-t.pool.writer
	}
}
