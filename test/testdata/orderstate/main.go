// Command orderstate runs the article's order state machine, laid beside it by a build overlay, on the SQLite dialect.
// It exits with 1 and the reason when something is not as the article says.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/keystrand/keystrand/dialect/sqlite"
	orderstate "github.com/keystrand/keystrand/test/testdata/orderstate/article"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: orderstate DATABASE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "orderstate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlite.Dialect.Migrate(ctx, db); err != nil {
		return err
	}
	s := &store{db: db}
	for i, step := range steps {
		answer := orderstate.Apply(ctx, s, step.event)
		if !errors.Is(answer, step.want) {
			return fmt.Errorf("step %d, event %+v: got %v, want %v", i, step.event, answer, step.want)
		}
		version, status, err := standing(ctx, db, step.event.OrderID)
		if err != nil {
			return err
		}
		if version != step.version || status != step.status {
			return fmt.Errorf("step %d, event %+v: order is %q at version %d, want %q at %d", i, step.event, status, version, step.status, step.version)
		}
		fmt.Printf("%-2d %-12s v%d %-16s -> %-11s v%d  %v\n", i, step.event.EventID, step.event.Version, step.event.EventType, status, version, answer)
	}
	var applied int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM keystrand_inbox_event WHERE inbox = ?`, inboxName).Scan(&applied); err != nil {
		return err
	}
	if applied != 5 {
		return fmt.Errorf("%d events applied, want 5", applied)
	}
	fmt.Println("applied", applied)
	return nil
}

func standing(ctx context.Context, db *sql.DB, orderID string) (int64, string, error) {
	row, _, err := sqlite.Dialect.InboxOf(ctx, db, keyOf(orderID))
	return row.Version, row.State, err
}

// steps are the article's five events, with what goes wrong between them: a repeat, a gap, a forbidden transition, a stale
// event of another id.
var steps = []struct {
	event   orderstate.Event
	want    error
	version int64
	status  string
}{
	{event(2, "PaymentSucceeded"), orderstate.ErrVersionGap, 0, ""},
	{event(1, "OrderCreated"), nil, 1, "CREATED"},
	{event(1, "OrderCreated"), nil, 1, "CREATED"},
	{event(2, "OrderShipped"), orderstate.ErrInvalidTransition, 1, "CREATED"},
	{event(3, "StockDeducted"), orderstate.ErrVersionGap, 1, "CREATED"},
	{event(2, "PaymentSucceeded"), nil, 2, "PAID"},
	{event(3, "StockDeducted"), nil, 3, "STOCKED_OUT"},
	{stale(2, "PaymentSucceeded"), nil, 3, "STOCKED_OUT"},
	{stale(2, "PaymentSucceeded"), nil, 3, "STOCKED_OUT"},
	{event(4, "OrderShipped"), nil, 4, "SHIPPED"},
	{event(5, "OrderSigned"), nil, 5, "SIGNED"},
	{event(5, "OrderSigned"), nil, 5, "SIGNED"},
	{event(7, "OrderSigned"), orderstate.ErrVersionGap, 5, "SIGNED"},
}

func event(version int64, kind string) orderstate.Event {
	return orderstate.Event{EventID: fmt.Sprintf("evt-1001-%d", version), OrderID: "order-1001", Version: version, EventType: kind}
}

func stale(version int64, kind string) orderstate.Event {
	e := event(version, kind)
	e.EventID = "replayed-" + e.EventID
	return e
}
