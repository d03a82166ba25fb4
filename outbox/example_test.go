package outbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/outbox"
)

// A business transaction changes an order and appends the event that says so; both are committed, or neither.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlite.Dialect.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT)"); err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(sqlite.Dialect, outbox.Options{Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}

	tx, err := sqlite.Begin(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('order-1001', 'CREATED')"); err != nil {
		log.Fatal(err)
	}
	event, err := box.Append(ctx, tx, keystrand.Event{Aggregate: "order-1001", Type: "OrderCreated", Payload: []byte(`{"total": 42}`)})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.Aggregate, event.Type, "version", event.Version)
	// Output: order-1001 OrderCreated version 1
}
