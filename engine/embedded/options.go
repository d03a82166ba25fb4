package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
)

// Bounds of a lease, and of the hold of an empty receive.
const (
	minLease = time.Second
	maxLease = 12 * time.Hour
	maxWait  = 20 * time.Second
)

// completeConsumer fills in defaults and reports what is wrong.
func completeConsumer(o keystrand.ConsumerOptions, shortest time.Duration) (keystrand.ConsumerOptions, error) {
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Wait <= 0 || o.Wait > maxWait {
		o.Wait = maxWait
	}
	if o.ClientID == "" {
		o.ClientID = randomID("keystrand-")
	}
	switch {
	case o.Group == "" || o.Topic == "":
		return o, fmt.Errorf("consumer of topic %q in group %q: both are needed: %w", o.Topic, o.Group, keystrand.ErrRejected)
	case o.Lease < shortest || o.Lease > maxLease:
		return o, fmt.Errorf("consumer of topic %q in group %q: a lease of %v is not between %v and %v: %w", o.Topic, o.Group, o.Lease, shortest, maxLease, keystrand.ErrRejected)
	}
	return o, nil
}

// opening is the time a producer or consumer is open.
type opening struct {
	closed context.Context
	close  context.CancelFunc
}

// newOpening begins one that ends by Close alone, whatever becomes of the context it was opened with.
func newOpening(ctx context.Context) opening {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return opening{ctx, cancel}
}

// within returns a context that ends with ctx and with the opening. The error is ErrClosed when that has ended.
func (o opening) within(ctx context.Context) (context.Context, func(), error) {
	if o.closed.Err() != nil {
		return nil, nil, keystrand.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.closed, func() { cancel(keystrand.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }, nil
}
