package demo

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/outbox"
)

// ordersPerTransaction is how many orders one business transaction advances, as a warehouse that confirms a trolley does.
const ordersPerTransaction = 4

// writerPause is the least time between two transactions of one writer. SQLite lets whoever asks first have the writer's
// place, and who waits in another process asks every few milliseconds: without a pause the writers would take it all.
const writerPause = 8 * time.Millisecond

// writers are the business: transactions that change orders and append the events to the outbox, both or neither.
type writers struct {
	db      *sql.DB
	outbox  *outbox.Outbox
	poison  string
	written atomic.Int64
	script  chan []string
	gate    chan struct{} // closed when the writers may go on behind gateAt
	gateAt  int64
}

func newWriters(db *sql.DB, poison string) (*writers, error) {
	box, err := outbox.New(sqlite.Dialect, outbox.Options{Topic: topicName})
	if err != nil {
		return nil, err
	}
	return &writers{db: db, outbox: box, poison: poison, script: make(chan []string), gate: make(chan struct{})}, nil
}

// feed hands the script to the writers, a transaction's orders at a time. It waits at gateAt.
func (w *writers) feed(ctx context.Context, script []string) error {
	defer close(w.script)
	for at := 0; at < len(script); at += ordersPerTransaction {
		if int64(at) >= w.gateAt {
			select {
			case <-w.gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case w.script <- script[at:min(at+ordersPerTransaction, len(script))]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *writers) write(ctx context.Context) error {
	ticker := time.NewTicker(writerPause)
	defer ticker.Stop()
	for orders := range w.script {
		if err := w.advance(ctx, orders...); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// advance moves each order one step, all in one transaction with their events.
func (w *writers) advance(ctx context.Context, orders ...string) error {
	err := transact(ctx, w.db, func(tx *sql.Tx) error {
		events := make([]keystrand.Event, 0, len(orders))
		for _, order := range orders {
			e, err := w.step(ctx, tx, order)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		_, err := w.outbox.AppendAll(ctx, tx, events...)
		return err
	})
	if err != nil {
		return fmt.Errorf("advance orders %v: %w", orders, err)
	}
	w.written.Add(int64(len(orders)))
	return nil
}

// step changes the order's row. The transaction is the writer from its start, so two writers of one order take turns.
func (w *writers) step(ctx context.Context, tx *sql.Tx, order string) (keystrand.Event, error) {
	var version int64
	err := tx.QueryRowContext(ctx, `
		INSERT INTO orders (id, status, version) VALUES (?1, ?2, 1)
		ON CONFLICT (id) DO UPDATE SET version = version + 1 RETURNING version`, order, steps[0].state).Scan(&version)
	if err != nil {
		return keystrand.Event{}, err
	}
	if version < 1 || int(version) > len(steps) {
		return keystrand.Event{}, fmt.Errorf("order %s has no step %d", order, version)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE orders SET status = ? WHERE id = ?`, steps[version-1].state, order); err != nil {
		return keystrand.Event{}, err
	}
	return eventOf(order, version, order == w.poison), nil
}
