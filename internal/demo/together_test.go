package demo

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
)

// Events of many handlers share transactions; the one that fails takes back its own change and no other.
func TestAnEventThatFailsTakesOnlyItselfBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := openDatabase(filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := createTables(ctx, db); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(db, sqlite.Dialect, inbox.Options{Name: inboxName, Transitions: transitions()})
	if err != nil {
		t.Fatal(err)
	}
	group := &together{db: db, inbox: box}
	refused := errors.New("refused")
	change := func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO order_view (id, status, version) VALUES (?, 'x', 1)`, e.Aggregate); err != nil {
			return err
		}
		if e.Aggregate == orderName(7) {
			return refused
		}
		return nil
	}
	const orders = 100
	var wait sync.WaitGroup
	for i := range orders {
		wait.Go(func() {
			d := keystrand.Delivery{Message: eventOf(orderName(i), 1, false).Message(topicName), Token: keystrand.Token{Broker: "b", Value: uint64(i + 1)}}
			result, err := group.apply(ctx, d, change)
			if i == 7 {
				if !errors.Is(err, refused) {
					t.Errorf("the failing event: got %v", err)
				}
				return
			}
			if err != nil || result.Outcome != inbox.Applied {
				t.Errorf("order %d: %v, %v", i, result.Outcome, err)
			}
			if again, err := group.apply(ctx, d, change); err != nil || again.Outcome != inbox.Duplicate {
				t.Errorf("order %d again: %v, %v", i, again.Outcome, err)
			}
		})
	}
	wait.Wait()
	for query, want := range map[string]int{
		`SELECT count(*) FROM order_view`:                                        orders - 1,
		`SELECT count(*) FROM keystrand_inbox_event`:                             orders - 1,
		`SELECT count(*) FROM order_view WHERE id = 'order-000007'`:              0,
		`SELECT count(*) FROM keystrand_inbox WHERE aggregate = 'order-000007'`:  0,
		`SELECT count(*) FROM keystrand_inbox WHERE version = 1 AND state <> ''`: orders - 1,
	} {
		if n, err := count(ctx, db, query); err != nil || n != want {
			t.Errorf("%s: got %d (%v), want %d", query, n, err, want)
		}
	}
}
