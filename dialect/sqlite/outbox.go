package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/keystrand/keystrand/dialect"
)

// AppendEvent: the transaction is the writer, so what it reads is locked. The row is inserted first, with the version that
// the head would give; when it is refused, the head was not touched and there is no hole.
func (sqliteDialect) AppendEvent(ctx context.Context, tx dialect.Tx, e dialect.OutboxEvent) (dialect.Appended, error) {
	var version int64
	err := tx.QueryRowContext(ctx, `
		INSERT INTO keystrand_outbox (aggregate, version, event_id, topic, slot, type, occurred_ns, produced_ns, trace_id, schema, payload)
		SELECT ?1, 1 + coalesce((SELECT version FROM keystrand_outbox_head WHERE aggregate = ?1), 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
		WHERE ?11 IN (0, 1 + coalesce((SELECT version FROM keystrand_outbox_head WHERE aggregate = ?1), 0))
		AND NOT EXISTS (SELECT 1 FROM keystrand_outbox_head WHERE aggregate = ?1 AND topic <> ?3)
		ON CONFLICT (event_id) DO NOTHING RETURNING version`,
		e.Aggregate, e.EventID, e.Topic, e.Slot, e.Type, nanos(e.OccurredAt), nanos(e.ProducedAt), e.TraceID, e.Schema, notNull(e.Payload), e.Version,
	).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return refusal(ctx, tx, e)
	}
	if err != nil {
		return dialect.Appended{}, wrap(err)
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO keystrand_outbox_head (aggregate, topic, version) VALUES (?, ?, ?)
		ON CONFLICT (aggregate) DO UPDATE SET version = excluded.version`, e.Aggregate, e.Topic, version)
	return dialect.Appended{Version: version}, wrap(err)
}

// refusal finds out why an insert wrote nothing.
func refusal(ctx context.Context, tx dialect.Tx, e dialect.OutboxEvent) (dialect.Appended, error) {
	var a dialect.Appended
	var exists bool
	err := tx.QueryRowContext(ctx, `
		SELECT coalesce((SELECT topic FROM keystrand_outbox_head WHERE aggregate = ?1), ''),
			1 + coalesce((SELECT version FROM keystrand_outbox_head WHERE aggregate = ?1), 0),
			EXISTS (SELECT 1 FROM keystrand_outbox WHERE event_id = ?2)`, e.Aggregate, e.EventID).Scan(&a.Topic, &a.Next, &exists)
	switch {
	case err != nil:
		return dialect.Appended{}, wrap(err)
	case exists:
		a.Refused = dialect.RefusedEventID
	case a.Topic != "" && a.Topic != e.Topic:
		a.Refused = dialect.RefusedTopic
	default:
		a.Refused = dialect.RefusedVersion
	}
	return a, nil
}

// notNull keeps an empty payload from being stored as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
