package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/vfs"
)

// readBack writes into the history what the run left behind: every message of the log, every row of the database. It reads
// the broker's log itself, not through a broker, and the tables with SQL of its own, not through the library.
func (r *run) readBack(ctx context.Context) error {
	w := r.recorder.Worker(1)
	return errors.Join(r.readLog(w), r.readEffects(ctx, w), r.readInbox(ctx, w), r.readOutbox(ctx, w))
}

// readLog goes through the log of the broker, which has ended.
func (r *run) readLog(w *history.Worker) (err error) {
	dir := filepath.ToSlash(filepath.Join(r.dir, "broker"))
	log, err := store.Open(vfs.OS{}, dir, store.Options{})
	if err != nil {
		return fmt.Errorf("read the log back: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	topics, seq, copies := map[state.TopicID]string{}, int64(0), map[copyOf]int{}
	err = log.Replay(0, func(_ store.Position, record store.Record) error {
		switch kind := state.Kind(record.Kind); kind {
		case state.KindTopic:
			decoded, err := state.Decode(kind, record.Body)
			if t, ok := decoded.(*state.Topic); ok {
				topics[t.ID] = t.Name
			}
			return err
		case state.KindMessage:
			m, err := state.DecodeMessage(kind, record.Body)
			if err != nil || topics[m.Topic] != topicName {
				return err
			}
			told := history.FromMessage(keystrand.Message{Topic: topicName, MessageGroup: m.Group, Properties: m.Props, Body: m.Body})
			w.Log(told, m.Queue, m.Offset, seq)
			seq++
			r.noteCopy(copies, copyOf{told.Key, told.ID}, m)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the log back: %w", err)
	}
	w.ReadBack(history.Log, topicName, "", int(seq))
	return nil
}

type copyOf struct {
	key string
	id  history.ID
}

// noteCopy proves the faults that leave copies: one of the parent's duplicates stands where its receipt says, behind
// another copy.
func (r *run) noteCopy(copies map[copyOf]int, c copyOf, m state.Message) {
	copies[c]++
	r.mu.Lock()
	duplicate := false
	for _, rogue := range r.rogues {
		duplicate = duplicate || rogue.id == c.id && rogue.key == c.key && (rogue.receipt.Queue < 0 || rogue.receipt.Queue == m.Queue) && int64(rogue.receipt.Offset) == m.Offset
	}
	r.mu.Unlock()
	if duplicate && copies[c] > 1 {
		r.strike(faultDuplicateSend)
	}
}

// rows runs a query and calls f, which scans, for each row.
func (r *run) rows(ctx context.Context, query string, f func(*sql.Rows) error) (n int, err error) {
	rows, err := r.db.QueryContext(ctx, query)
	if err != nil {
		return 0, fmt.Errorf("read back: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ; rows.Next(); n++ {
		if err := f(rows); err != nil {
			return n, fmt.Errorf("read back: %w", err)
		}
	}
	return n, rows.Err()
}

// row is a row of the receiver's side.
func row(order string, version int64) history.Delivery {
	d := history.Delivery{Topic: topicName, Group: groupName, Key: order, Queue: -1, Offset: -1, Version: uint64(version)}
	if version > 0 {
		d.ID = history.OutboxID(version)
	}
	return d
}

func (r *run) readEffects(ctx context.Context, w *history.Worker) error {
	n, err := r.rows(ctx, `SELECT order_id, version, broker, token FROM order_log ORDER BY seq`, func(rows *sql.Rows) error {
		var order, broker string
		var version, token int64
		if err := rows.Scan(&order, &version, &broker, &token); err != nil {
			return err
		}
		d := row(order, version)
		d.Broker, d.Token = broker, uint64(token)
		w.Effect(d)
		return nil
	})
	w.ReadBack(history.Effect, topicName, groupName, n)
	return err
}

func (r *run) readInbox(ctx context.Context, w *history.Worker) error {
	scan := func(put func(history.Delivery)) func(*sql.Rows) error {
		return func(rows *sql.Rows) error {
			var order string
			var version int64
			if err := rows.Scan(&order, &version); err != nil {
				return err
			}
			put(row(order, version))
			return nil
		}
	}
	n, err := r.rows(ctx, `SELECT aggregate, version FROM keystrand_inbox_event ORDER BY aggregate, version`, scan(w.Inbox))
	w.ReadBack(history.Inbox, topicName, groupName, n)
	if err != nil {
		return err
	}
	n, err = r.rows(ctx, `SELECT aggregate, version FROM keystrand_inbox ORDER BY aggregate`, scan(w.State))
	w.ReadBack(history.State, topicName, groupName, n)
	if err != nil {
		return err
	}
	_, err = r.rows(ctx, `SELECT aggregate, version FROM keystrand_inbox_aside ORDER BY id`, scan(func(d history.Delivery) { w.Aside(d, "set aside by the inbox") }))
	return err
}

func (r *run) readOutbox(ctx context.Context, w *history.Worker) error {
	n, err := r.rows(ctx, `SELECT aggregate, version, payload FROM keystrand_outbox ORDER BY rowid`, func(rows *sql.Rows) error {
		var order string
		var version int64
		var payload []byte
		if err := rows.Scan(&order, &version, &payload); err != nil {
			return err
		}
		w.Outbox(history.Message{Topic: topicName, Key: order, ID: history.OutboxID(version), Version: uint64(version), Sum: history.Sum(payload)})
		return nil
	})
	w.ReadBack(history.Outbox, topicName, "", n)
	return err
}
