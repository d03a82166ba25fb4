package embedded_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/consumer"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/engine/embedded"
	"github.com/keystrand/keystrand/inbox"
	"github.com/keystrand/keystrand/outbox"
)

// The whole way in one process: a business transaction, its events in the outbox, a relay, the broker, a consumer, and an
// inbox that applies them; and the order in which they end.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "keystrand")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engine, err := embedded.Open(ctx, embedded.Options{
		DataDir: filepath.Join(dir, "broker"),
		Topics:  []keystrand.TopicSpec{{Name: "orders", Type: keystrand.TopicFIFO}},
		Groups:  []keystrand.GroupSpec{{Name: "shipping", Ordered: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlite.Dialect.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}

	// Produce: the order and its events are one commit.
	events, err := outbox.New(sqlite.Dialect, outbox.Options{Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := sqlite.Begin(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	for _, what := range []string{"OrderCreated", "PaymentSucceeded", "OrderShipped"} {
		if _, err := events.Append(ctx, tx, keystrand.Event{Aggregate: "order-1001", Type: what, Payload: []byte("{}")}); err != nil {
			log.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	// Relay, deliver and apply.
	producer, err := engine.Producer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(db, sqlite.Dialect, producer, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	source, err := engine.Consumer(ctx, keystrand.ConsumerOptions{Group: "shipping", Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	applied, err := inbox.New(db, sqlite.Dialect, inbox.Options{Name: "shipping"})
	if err != nil {
		log.Fatal(err)
	}
	lanes, err := consumer.New(source, func(ctx context.Context, d keystrand.Delivery) error {
		_, err := applied.Apply(ctx, d, func(_ context.Context, _ *sql.Tx, e keystrand.Event) error {
			fmt.Println(e.Aggregate, "version", e.Version, e.Type)
			if e.Version == 3 {
				defer stop()
			}
			return nil
		})
		return err
	}, consumer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var services sync.WaitGroup
	var relayEnd, consumerEnd error
	services.Go(func() { defer stop(); relayEnd = relay.Run(ctx) }) // when one ends, for whatever reason, so does the other
	services.Go(func() { defer stop(); consumerEnd = lanes.Run(ctx) })
	services.Wait()
	fmt.Println("ended:", errors.Join(relayEnd, consumerEnd, source.Close(), producer.Close(), engine.Close(), db.Close()))
	// Output:
	// order-1001 version 1 OrderCreated
	// order-1001 version 2 PaymentSucceeded
	// order-1001 version 3 OrderShipped
	// ended: <nil>
}
