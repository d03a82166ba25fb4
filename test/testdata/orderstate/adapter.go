package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/sqlite"
	orderstate "github.com/keystrand/keystrand/test/testdata/orderstate/article"
)

const inboxName = "article"

func keyOf(orderID string) dialect.InboxKey {
	return dialect.InboxKey{Inbox: inboxName, Aggregate: orderID}
}

// store is the article's Store on the dialect: an order's version and status are its inbox row.
type store struct{ db *sql.DB }

func (s *store) WithTx(ctx context.Context, fn func(orderstate.Tx) error) (err error) {
	tx, err := sqlite.Begin(ctx, s.db)
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
	}()
	if err := fn(&unit{tx: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// unit is the article's Tx: one event in one transaction. It remembers what was loaded, for the compare-and-set.
type unit struct {
	tx     *sql.Tx
	key    dialect.InboxKey
	loaded dialect.InboxRow
	exists bool
	saved  bool
}

func (u *unit) Processed(ctx context.Context, eventID string) (bool, error) {
	_, _, seen, err := sqlite.Dialect.ReadInbox(ctx, u.tx, dialect.InboxKey{Inbox: inboxName}, eventID)
	return seen != nil, err
}

func (u *unit) LoadOrderForUpdate(ctx context.Context, orderID string) (*orderstate.Order, error) {
	u.key = keyOf(orderID)
	var err error
	u.loaded, u.exists, _, err = sqlite.Dialect.ReadInbox(ctx, u.tx, u.key, "")
	return &orderstate.Order{OrderID: orderID, Version: u.loaded.Version, Status: u.loaded.State}, err
}

func (u *unit) SaveOrder(ctx context.Context, order *orderstate.Order) error {
	next := u.loaded
	next.Version, next.State = order.Version, order.Status
	u.saved = true
	changed, err := sqlite.Dialect.SetInbox(ctx, u.tx, u.key, u.loaded, next, u.exists)
	if err == nil && !changed {
		return fmt.Errorf("order %q moved on from version %d", order.OrderID, u.loaded.Version)
	}
	u.loaded = next
	return err
}

// MarkProcessed records the event that was saved; a stale one is set aside, since its version is another event's.
func (u *unit) MarkProcessed(ctx context.Context, eventID string) error {
	if u.saved {
		return sqlite.Dialect.PutApplied(ctx, u.tx, u.key, dialect.InboxEvent{EventID: eventID, Version: u.loaded.Version, Sum: []byte{}}, 0)
	}
	aside := dialect.Aside{Reason: "stale", Event: keystrand.Event{EventID: eventID, Aggregate: u.key.Aggregate}, Sum: []byte{}}
	_, err := sqlite.Dialect.PutAside(ctx, u.tx, u.key, aside)
	return err
}
