package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
)

// renewers is how many renewing calls are out at once.
const renewers = 2

// renew extends leases at a third of their length and ends what takes too long, until ctx ends.
func (c *Consumer) renew(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := c.options.Clock.Mono()
		i, due, ok := c.due(now)
		if i != nil {
			c.extend(ctx, i)
			continue
		}
		timer.Reset(time.Hour)
		if ok {
			timer.Reset(max(0, due-now))
		}
		select {
		case <-timer.C:
		case <-c.alarm:
		case <-ctx.Done():
			return nil
		}
	}
}

// due ends what is over its limit and returns the item whose lease is to be extended now, or when to look again.
func (c *Consumer) due(now clock.Mono) (i *item, next clock.Mono, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := c.limits.head; h != nil && h.deadlineAt <= now; h = c.limits.head {
		c.limits.remove(h)
		c.renewals.remove(h)
		c.overdue(h)
	}
	if h := c.renewals.head; h != nil {
		if h.renewAt <= now {
			c.renewals.remove(h)
			h.extending = true
			return h, 0, false
		}
		next, ok = h.renewAt, true
	}
	if h := c.limits.head; h != nil && (!ok || h.deadlineAt < next) {
		next, ok = h.deadlineAt, true
	}
	return nil, next, ok
}

// overdue: a running handler's context ends; one that only waited, behind a handler that hangs, is let go. Either way its
// lease ends by itself, which counts an attempt. Requires: mu held.
func (c *Consumer) overdue(i *item) {
	switch i.stage {
	case running:
		if i.cancel != nil {
			i.cancel(ErrHandlerTimeout)
		}
	case waiting:
		c.lanes.drop(i)
		c.complete(i, toDrop, ErrHandlerTimeout)
	}
}

// extend makes one renewing call.
func (c *Consumer) extend(ctx context.Context, i *item) {
	limited, cancel := context.WithTimeout(ctx, max(i.delivery.Lease/3, time.Second))
	renewed, err := c.source.Extend(limited, i.delivery, i.delivery.Lease)
	cancel()
	now := c.options.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	i.extending = false
	switch {
	case err == nil:
		c.counts.extended.Add(1)
		i.delivery.ReceiptHandle = renewed.ReceiptHandle
		i.renewAt = now + i.delivery.Lease/3
	case errors.Is(err, keystrand.ErrSuperseded), errors.Is(err, keystrand.ErrRejected):
		i.lost = true
		if i.cancel != nil {
			i.cancel(ErrLeaseLost)
		}
	default:
		i.renewAt = now + i.delivery.Lease/10 // not done, or perhaps done: again, soon
	}
	switch {
	case i.stage == finished:
		if i.lost {
			i.verdict = toDrop
		}
		c.forward(i)
	case !i.lost && i.links[byDeadline].in:
		c.renewals.push(i)
	}
}
