package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

func (sqliteDialect) ReadInbox(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, eventID string) (dialect.InboxRow, bool, *dialect.InboxEvent, error) {
	var version, token, pending, seenVersion sql.NullInt64
	var state, broker, seenAggregate sql.NullString
	var sum []byte
	err := tx.QueryRowContext(ctx, `
		SELECT r.version, r.state, r.broker, r.token, r.pending, e.aggregate, e.version, e.sum
		FROM (SELECT 1)
		LEFT JOIN keystrand_inbox r ON r.inbox = ?1 AND r.aggregate = ?2
		LEFT JOIN keystrand_inbox_event e ON e.inbox = ?1 AND e.event_id = ?3`, k.Inbox, k.Aggregate, eventID,
	).Scan(&version, &state, &broker, &token, &pending, &seenAggregate, &seenVersion, &sum)
	if err != nil {
		return dialect.InboxRow{}, false, nil, wrap(err)
	}
	var seen *dialect.InboxEvent
	if seenVersion.Valid {
		seen = &dialect.InboxEvent{EventID: eventID, Aggregate: seenAggregate.String, Version: seenVersion.Int64, Sum: sum}
	}
	row := dialect.InboxRow{Version: version.Int64, State: state.String, Pending: int(pending.Int64)}
	row.Token = keystrand.Token{Broker: broker.String, Value: uint64(token.Int64)}
	return row, version.Valid, seen, nil
}

func (sqliteDialect) AppliedAt(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, version int64) (*dialect.InboxEvent, error) {
	e := dialect.InboxEvent{Aggregate: k.Aggregate, Version: version}
	err := tx.QueryRowContext(ctx, `SELECT event_id, sum FROM keystrand_inbox_event WHERE inbox = ? AND aggregate = ? AND version = ?`,
		k.Inbox, k.Aggregate, version).Scan(&e.EventID, &e.Sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err)
	}
	return &e, nil
}

func (sqliteDialect) SetInbox(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, old, next dialect.InboxRow, exists bool) (bool, error) {
	query, args := `
		INSERT INTO keystrand_inbox (inbox, aggregate, version, state, broker, token, pending) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, []any{k.Inbox, k.Aggregate, next.Version, next.State, next.Token.Broker, int64(next.Token.Value), next.Pending}
	if exists {
		query, args = `
		UPDATE keystrand_inbox SET version = ?3, state = ?4, broker = ?5, token = ?6, pending = ?7
		WHERE inbox = ?1 AND aggregate = ?2 AND version = ?8 AND (broker <> ?5 OR token <= ?6)`, append(args, old.Version)
	}
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, wrap(err)
	}
	n, err := res.RowsAffected()
	return n == 1, wrap(err)
}

func (sqliteDialect) PutApplied(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, e dialect.InboxEvent, atNs int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO keystrand_inbox_event (inbox, event_id, aggregate, version, sum, applied_ns) VALUES (?, ?, ?, ?, ?, ?)`,
		k.Inbox, e.EventID, k.Aggregate, e.Version, e.Sum, atNs)
	return wrap(err)
}

func (sqliteDialect) PutPending(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, e keystrand.Event, sum []byte, atNs int64) (bool, error) {
	res, err := tx.ExecContext(ctx, `
		INSERT INTO keystrand_inbox_pending (inbox, aggregate, version, event_id, type, occurred_ns, produced_ns, trace_id, schema, payload, sum, parked_ns)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		k.Inbox, k.Aggregate, e.Version, e.EventID, e.Type, nanos(e.OccurredAt), nanos(e.ProducedAt), e.TraceID, e.Schema, notNull(e.Payload), sum, atNs)
	if err != nil {
		return false, wrap(err)
	}
	n, err := res.RowsAffected()
	return n == 1, wrap(err)
}

const pendingColumns = `event_id, type, occurred_ns, produced_ns, trace_id, schema, payload, sum`

func (sqliteDialect) PendingAt(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, version int64) (*keystrand.Event, []byte, error) {
	return pending(ctx, tx, k, version, `SELECT `+pendingColumns+` FROM keystrand_inbox_pending WHERE inbox = ? AND aggregate = ? AND version = ?`)
}

func (sqliteDialect) TakePending(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, version int64) (*keystrand.Event, []byte, error) {
	return pending(ctx, tx, k, version, `DELETE FROM keystrand_inbox_pending WHERE inbox = ? AND aggregate = ? AND version = ? RETURNING `+pendingColumns)
}

func pending(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, version int64, query string) (*keystrand.Event, []byte, error) {
	e := keystrand.Event{Aggregate: k.Aggregate, Version: version}
	var sum []byte
	err := tx.QueryRowContext(ctx, query, k.Inbox, k.Aggregate, version).Scan(
		&e.EventID, &e.Type, &stamp{&e.OccurredAt}, &stamp{&e.ProducedAt}, &e.TraceID, &e.Schema, &e.Payload, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, wrap(err)
	}
	return &e, sum, nil
}

func (sqliteDialect) CountPending(ctx context.Context, tx dialect.Tx, inbox string, limit int) (n int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM keystrand_inbox_pending WHERE inbox = ? LIMIT ?)`, inbox, limit).Scan(&n)
	return n, wrap(err)
}

func (sqliteDialect) PutAside(ctx context.Context, tx dialect.Tx, k dialect.InboxKey, a dialect.Aside) (bool, error) {
	e := a.Event
	res, err := tx.ExecContext(ctx, `
		INSERT INTO keystrand_inbox_aside (inbox, aggregate, version, event_id, type, occurred_ns, produced_ns, trace_id, schema, payload, sum, reason, aside_ns)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		k.Inbox, k.Aggregate, e.Version, e.EventID, e.Type, nanos(e.OccurredAt), nanos(e.ProducedAt), e.TraceID, e.Schema, notNull(e.Payload), a.Sum, a.Reason, a.AtNs)
	if err != nil {
		return false, wrap(err)
	}
	n, err := res.RowsAffected()
	return n == 1, wrap(err)
}

func (sqliteDialect) Gaps(ctx context.Context, db *sql.DB, inbox string, limit int) ([]dialect.Gap, error) {
	return collect(ctx, db, func(g *dialect.Gap) []any {
		return []any{&g.Aggregate, &g.Applied, &g.First, &g.Pending, &g.SinceNs}
	}, `
		SELECT p.aggregate, coalesce(r.version, 0), min(p.version), count(*), min(p.parked_ns)
		FROM keystrand_inbox_pending p LEFT JOIN keystrand_inbox r ON r.inbox = p.inbox AND r.aggregate = p.aggregate
		WHERE p.inbox = ? GROUP BY p.aggregate ORDER BY 5, 1 LIMIT ?`, inbox, limit)
}

func (sqliteDialect) Asides(ctx context.Context, db *sql.DB, inbox string, limit int) ([]dialect.Aside, error) {
	return collect(ctx, db, func(a *dialect.Aside) []any {
		e := &a.Event
		return []any{&e.Aggregate, &e.Version, &e.EventID, &e.Type, &stamp{&e.OccurredAt}, &stamp{&e.ProducedAt}, &e.TraceID, &e.Schema, &e.Payload, &a.Sum, &a.Reason, &a.AtNs}
	}, `
		SELECT aggregate, version, event_id, type, occurred_ns, produced_ns, trace_id, schema, payload, sum, reason, aside_ns
		FROM keystrand_inbox_aside WHERE inbox = ? ORDER BY id LIMIT ?`, inbox, limit)
}

func (d sqliteDialect) InboxOf(ctx context.Context, db *sql.DB, k dialect.InboxKey) (dialect.InboxRow, bool, error) {
	row, exists, _, err := d.ReadInbox(ctx, db, k, "")
	return row, exists, err
}
