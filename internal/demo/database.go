package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
)

// The business tables: orders is the sender's state, order_view and order_log are the receiver's. order_log has one row per
// applied event, in commit order, with the token it was committed under.
const schema = `
CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE order_view (id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE order_log (seq INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT NOT NULL, version INTEGER NOT NULL, event_id TEXT NOT NULL,
	event TEXT NOT NULL, amount INTEGER NOT NULL, broker TEXT NOT NULL, token INTEGER NOT NULL, process INTEGER NOT NULL);
CREATE INDEX order_log_order ON order_log (order_id, version);`

// appliedQuery counts what was applied; it is shown at the end for everyone to try.
const appliedQuery = `SELECT count(*) FROM order_log`

// openDatabase opens the shared file. The patience covers the moment a process is killed while it is the writer.
func openDatabase(path string) (*sql.DB, error) {
	return sqlite.OpenWith(path, sqlite.Options{BusyTimeout: 10 * time.Second})
}

func createTables(ctx context.Context, db *sql.DB) error {
	if err := sqlite.Dialect.Migrate(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create the business tables: %w", err)
	}
	return nil
}

// transact runs f in one transaction, again when the database was busy; f must be repeatable.
func transact(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	const tries = 20
	var err error
	for range tries {
		if err = transactOnce(ctx, db, f); err == nil || !errors.Is(err, keystrand.ErrRetryLater) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%d tries: %w", tries, err)
}

func transactOnce(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := sqlite.Begin(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func count(ctx context.Context, db *sql.DB, query string, args ...any) (int, error) {
	var n int
	if err := db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	return n, nil
}
