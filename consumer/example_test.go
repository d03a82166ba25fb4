package consumer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/consumer"
)

// A consumer on an engine's source; here one that is made of memory.
func Example() {
	source := newSource(30 * time.Second)
	source.add("order-1001", 3)

	ctx, stop := context.WithCancel(context.Background())
	c, err := consumer.New(source, func(_ context.Context, d keystrand.Delivery) error {
		fmt.Println("handled", d.ID)
		if d.ID == "order-1001/3" {
			stop()
		}
		return nil // acknowledged once it is returned
	}, consumer.Options{Workers: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", c.Run(ctx))
	// Output:
	// handled order-1001/1
	// handled order-1001/2
	// handled order-1001/3
	// stopped: <nil>
}
