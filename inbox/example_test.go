package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
)

// Events that arrive early and twice are applied once and in order, each in one transaction with its change.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "inbox")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(filepath.Join(dir, "stock.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlite.Dialect.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE shipments (order_id TEXT, step TEXT)"); err != nil {
		log.Fatal(err)
	}
	box, err := inbox.New(db, sqlite.Dialect, inbox.Options{
		Name: "shipping",
		Transitions: inbox.Transitions{
			"":        {"OrderCreated": "CREATED"},
			"CREATED": {"PaymentSucceeded": "PAID"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	write := func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO shipments VALUES (?, ?)", e.Aggregate, e.Type)
		return err
	}

	created := keystrand.Event{EventID: "e1", Aggregate: "order-1001", Version: 1, Type: "OrderCreated", Payload: []byte("{}")}
	paid := keystrand.Event{EventID: "e2", Aggregate: "order-1001", Version: 2, Type: "PaymentSucceeded", Payload: []byte("{}")}
	for _, event := range []keystrand.Event{paid, created, paid} {
		// In a consumer: box.Apply(ctx, delivery, write), then acknowledge.
		result, err := box.ApplyEvent(ctx, event, keystrand.Token{}, write)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, "is", result.Outcome)
	}
	version, state, err := box.Version(ctx, "order-1001")
	fmt.Println("version", version, state, err)
	// Output:
	// PaymentSucceeded is parked
	// OrderCreated is applied
	// PaymentSucceeded is duplicate
	// version 2 PAID <nil>
}
