package sqlite

import (
	"context"
	"database/sql"

	"github.com/keystrand/keystrand/dialect"
)

func (sqliteDialect) Beat(ctx context.Context, db *sql.DB, owner string) error {
	return inTx(ctx, db, "relay beat", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO keystrand_relay (owner, beat) VALUES (?, 1)
			ON CONFLICT (owner) DO UPDATE SET beat = beat + 1`, owner)
		return err
	})
}

func (sqliteDialect) Survey(ctx context.Context, db *sql.DB) ([]dialect.Relay, []dialect.Slot, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, wrap(err)
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	relays, err := collect(ctx, tx, func(r *dialect.Relay) []any { return []any{&r.Owner, &r.Beat} },
		`SELECT owner, beat FROM keystrand_relay ORDER BY owner`)
	if err != nil {
		return nil, nil, err
	}
	slots, err := collect(ctx, tx, slotFields, `SELECT slot, owner, token FROM keystrand_outbox_slot ORDER BY slot`)
	return relays, slots, err
}

func (sqliteDialect) TakeSlots(ctx context.Context, db *sql.DB, owner string, seen []dialect.Slot, dead []dialect.Relay) (took []dialect.Slot, err error) {
	err = inTx(ctx, db, "take relay slots", func(tx *sql.Tx) error {
		for _, r := range dead {
			if _, err := tx.ExecContext(ctx, `DELETE FROM keystrand_relay WHERE owner = ? AND beat = ?`, r.Owner, r.Beat); err != nil {
				return err
			}
		}
		for _, s := range seen {
			res, err := tx.ExecContext(ctx, `UPDATE keystrand_outbox_slot SET owner = ?, token = token + 1
				WHERE slot = ? AND owner = ? AND token = ? AND owner NOT IN (SELECT owner FROM keystrand_relay)`, owner, s.ID, s.Owner, s.Token)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n == 1 {
				took = append(took, dialect.Slot{ID: s.ID, Owner: owner, Token: s.Token + 1})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return took, nil
}

func (sqliteDialect) ReleaseSlots(ctx context.Context, db *sql.DB, owner string, slots []dialect.Slot, leave bool) error {
	return inTx(ctx, db, "release relay slots", func(tx *sql.Tx) error {
		for _, s := range slots {
			if _, err := tx.ExecContext(ctx, `UPDATE keystrand_outbox_slot SET owner = '' WHERE slot = ? AND owner = ? AND token = ?`, s.ID, owner, s.Token); err != nil {
				return err
			}
		}
		if !leave {
			return nil
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM keystrand_relay WHERE owner = ?`, owner)
		return err
	})
}

func (sqliteDialect) BusySlots(ctx context.Context, db *sql.DB, owner string) ([]dialect.Slot, error) {
	return collect(ctx, db, slotFields, `
		SELECT s.slot, s.owner, s.token FROM keystrand_outbox_slot s
		WHERE s.owner = ? AND EXISTS (SELECT 1 FROM keystrand_outbox o WHERE o.slot = s.slot AND o.sent_ns IS NULL)
		ORDER BY s.slot`, owner)
}

// UnsentEvents jumps from message group to message group in the index of unsent rows, so a group with a long backlog
// costs no more than PerGroup rows.
func (sqliteDialect) UnsentEvents(ctx context.Context, db *sql.DB, q dialect.Unsent) ([]dialect.OutboxEvent, error) {
	return collect(ctx, db, eventFields, `
		WITH RECURSIVE heads(aggregate, version, n) AS (
			SELECT * FROM (SELECT aggregate, version, 1 FROM keystrand_outbox INDEXED BY keystrand_outbox_unsent
				WHERE sent_ns IS NULL AND slot = ?1 AND aggregate > ?2 ORDER BY aggregate, version LIMIT 1)
			UNION ALL
			SELECT o.aggregate, o.version, h.n + 1 FROM heads h JOIN keystrand_outbox o ON o.rowid = (
				SELECT x.rowid FROM keystrand_outbox x INDEXED BY keystrand_outbox_unsent
				WHERE x.sent_ns IS NULL AND x.slot = ?1 AND x.aggregate > h.aggregate ORDER BY x.aggregate, x.version LIMIT 1)
			WHERE h.n < ?3
		)
		SELECT `+eventColumns+` FROM heads h CROSS JOIN keystrand_outbox o INDEXED BY keystrand_outbox_unsent
			ON o.slot = ?1 AND o.aggregate = h.aggregate AND o.sent_ns IS NULL AND o.version >= h.version AND o.version < h.version + ?4
		ORDER BY o.aggregate, o.version`, q.Slot, q.After, q.Groups, q.PerGroup)
}

func (sqliteDialect) MarkSent(ctx context.Context, db *sql.DB, sent []dialect.Sent, atNs int64) (stamped int, err error) {
	err = inTx(ctx, db, "mark outbox rows as sent", func(tx *sql.Tx) error {
		stamped = 0
		for _, s := range sent {
			res, err := tx.ExecContext(ctx, `UPDATE keystrand_outbox SET sent_ns = ?1
				WHERE aggregate = ?2 AND version = ?3
				AND (SELECT token FROM keystrand_outbox_slot WHERE slot = ?4) = ?5`, atNs, s.Aggregate, s.Version, s.Slot, s.Token)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			stamped += int(n)
		}
		return nil
	})
	return stamped, err
}

func (sqliteDialect) CountUnsent(ctx context.Context, db *sql.DB) (n int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM keystrand_outbox INDEXED BY keystrand_outbox_unsent WHERE sent_ns IS NULL`).Scan(&n)
	return n, wrap(err)
}

func (sqliteDialect) EventsOf(ctx context.Context, db *sql.DB, aggregate string, from int64, limit int) ([]dialect.OutboxEvent, error) {
	return collect(ctx, db, eventFields, `SELECT `+eventColumns+` FROM keystrand_outbox o
		WHERE o.aggregate = ? AND o.version >= ? ORDER BY o.version LIMIT ?`, aggregate, from, limit)
}

func slotFields(s *dialect.Slot) []any { return []any{&s.ID, &s.Owner, &s.Token} }

const eventColumns = `o.aggregate, o.version, o.event_id, o.topic, o.slot, o.type, o.occurred_ns, o.produced_ns, o.trace_id, o.schema, o.payload`

func eventFields(e *dialect.OutboxEvent) []any {
	return []any{&e.Aggregate, &e.Version, &e.EventID, &e.Topic, &e.Slot, &e.Type, &stamp{&e.OccurredAt}, &stamp{&e.ProducedAt}, &e.TraceID, &e.Schema, &e.Payload}
}
