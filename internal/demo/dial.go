package demo

import (
	"context"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/engine/embedded"
)

// dial connects to the broker over a proxy. A call whose answer was lost shall not hold its caller for long.
func dial(ctx context.Context, endpoint string) (keystrand.Engine, error) {
	return embedded.Dial(ctx, endpoint, embedded.DialOptions{CallTimeout: 5 * time.Second})
}
