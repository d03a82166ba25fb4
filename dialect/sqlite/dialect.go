package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keystrand/keystrand/dialect"
)

// Dialect is SQLite as outbox and inbox see it. It has no state.
var Dialect dialect.Dialect = sqliteDialect{}

type sqliteDialect struct{}

func (sqliteDialect) Name() string { return "sqlite" }

func (sqliteDialect) Begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) { return Begin(ctx, db) }

func (sqliteDialect) CheckWriter(ctx context.Context, tx dialect.Tx) error {
	return checkWriter(ctx, tx)
}

func (sqliteDialect) Classify(err error) dialect.Class { return classify(err) }

// inTx runs f as one writing transaction.
func inTx(ctx context.Context, db *sql.DB, what string, f func(tx *sql.Tx) error) error {
	tx, err := Begin(ctx, db)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if err := f(tx); err != nil {
		return fmt.Errorf("%s: %w", what, wrap(err))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: commit: %w", what, wrap(err))
	}
	return nil
}

// nanos is a time as stored: nanoseconds since 1970, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
