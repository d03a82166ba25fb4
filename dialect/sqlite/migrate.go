package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
)

// migrations are the steps of the schema, in order. A published step is never changed; a new one is added at the end.
var migrations = []struct {
	name       string
	statements []string
}{
	{"outbox, relays and inbox", []string{
		`CREATE TABLE keystrand_outbox_head (
			aggregate TEXT PRIMARY KEY,
			topic     TEXT NOT NULL,
			version   INTEGER NOT NULL CHECK (version >= 1)
		) WITHOUT ROWID`,
		`CREATE TABLE keystrand_outbox (
			aggregate   TEXT NOT NULL,
			version     INTEGER NOT NULL,
			event_id    TEXT NOT NULL UNIQUE,
			topic       TEXT NOT NULL,
			slot        INTEGER NOT NULL,
			type        TEXT NOT NULL,
			occurred_ns INTEGER NOT NULL,
			produced_ns INTEGER NOT NULL,
			trace_id    TEXT NOT NULL,
			schema      TEXT NOT NULL,
			payload     BLOB NOT NULL,
			sent_ns     INTEGER,
			PRIMARY KEY (aggregate, version)
		)`,
		`CREATE INDEX keystrand_outbox_unsent ON keystrand_outbox (slot, aggregate, version) WHERE sent_ns IS NULL`,
		`CREATE TABLE keystrand_relay (
			owner TEXT PRIMARY KEY,
			beat  INTEGER NOT NULL
		) WITHOUT ROWID`,
		`CREATE TABLE keystrand_outbox_slot (
			slot  INTEGER PRIMARY KEY,
			owner TEXT NOT NULL DEFAULT '',
			token INTEGER NOT NULL DEFAULT 0
		)`,
		`WITH RECURSIVE n(slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM n WHERE slot < 63)
			INSERT INTO keystrand_outbox_slot (slot) SELECT slot FROM n`,
		`CREATE TABLE keystrand_inbox (
			inbox     TEXT NOT NULL,
			aggregate TEXT NOT NULL,
			version   INTEGER NOT NULL,
			state     TEXT NOT NULL,
			broker    TEXT NOT NULL,
			token     INTEGER NOT NULL,
			pending   INTEGER NOT NULL,
			PRIMARY KEY (inbox, aggregate)
		) WITHOUT ROWID`,
		`CREATE TABLE keystrand_inbox_event (
			inbox      TEXT NOT NULL,
			event_id   TEXT NOT NULL,
			aggregate  TEXT NOT NULL,
			version    INTEGER NOT NULL,
			sum        BLOB NOT NULL,
			applied_ns INTEGER NOT NULL,
			PRIMARY KEY (inbox, event_id)
		) WITHOUT ROWID`,
		`CREATE UNIQUE INDEX keystrand_inbox_event_version ON keystrand_inbox_event (inbox, aggregate, version)`,
		`CREATE TABLE keystrand_inbox_pending (
			inbox       TEXT NOT NULL,
			aggregate   TEXT NOT NULL,
			version     INTEGER NOT NULL,
			event_id    TEXT NOT NULL,
			type        TEXT NOT NULL,
			occurred_ns INTEGER NOT NULL,
			produced_ns INTEGER NOT NULL,
			trace_id    TEXT NOT NULL,
			schema      TEXT NOT NULL,
			payload     BLOB NOT NULL,
			sum         BLOB NOT NULL,
			parked_ns   INTEGER NOT NULL,
			PRIMARY KEY (inbox, aggregate, version)
		) WITHOUT ROWID`,
		`CREATE TABLE keystrand_inbox_aside (
			id          INTEGER PRIMARY KEY,
			inbox       TEXT NOT NULL,
			aggregate   TEXT NOT NULL,
			version     INTEGER NOT NULL,
			event_id    TEXT NOT NULL,
			type        TEXT NOT NULL,
			occurred_ns INTEGER NOT NULL,
			produced_ns INTEGER NOT NULL,
			trace_id    TEXT NOT NULL,
			schema      TEXT NOT NULL,
			payload     BLOB NOT NULL,
			sum         BLOB NOT NULL,
			reason      TEXT NOT NULL,
			aside_ns    INTEGER NOT NULL,
			UNIQUE (inbox, event_id, sum)
		)`,
	}},
}

// Migrate runs the steps that the file lacks, all in one transaction. A file of a newer build is refused untouched.
func (sqliteDialect) Migrate(ctx context.Context, db *sql.DB) error {
	return inTx(ctx, db, "migrate the keystrand tables", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS keystrand_migration (
			version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ns INTEGER NOT NULL)`); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM keystrand_migration`).Scan(&have); err != nil {
			return err
		}
		if have > len(migrations) {
			return fmt.Errorf("the tables are of version %d, this build knows %d: use a newer build: %w", have, len(migrations), keystrand.ErrRejected)
		}
		for n := have; n < len(migrations); n++ {
			for _, statement := range migrations[n].statements {
				if _, err := tx.ExecContext(ctx, statement); err != nil {
					return fmt.Errorf("step %d (%s): %w", n+1, migrations[n].name, err)
				}
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO keystrand_migration VALUES (?, ?, ?)`, n+1, migrations[n].name, time.Now().UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
}
