package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/keystrand/keystrand"
)

// maxAcks bounds the deliveries of one acknowledging call.
const maxAcks = 256

// callTimeout bounds one call to the engine; a lost answer must not hold an acker for ever.
const callTimeout = 15 * time.Second

// acknowledge acknowledges what has finished, everything that gathered during the call before at once: no delay is added,
// and the batch grows with the load.
func (c *Consumer) acknowledge(ctx context.Context) error {
	deliveries := make([]keystrand.Delivery, 0, maxAcks)
	var items []*item
	for {
		select {
		case <-c.ackWork:
		case <-ctx.Done():
			return nil
		}
		for items = c.takeFrom(&c.acks, items, maxAcks, c.ackWork); len(items) > 0; items = c.takeFrom(&c.acks, items, maxAcks, c.ackWork) {
			for _, i := range items {
				deliveries = append(deliveries, i.delivery)
			}
			c.ackAll(ctx, deliveries)
			clear(deliveries) // bodies must not stay behind an idle acker
			deliveries = deliveries[:0]
			c.gone(items)
		}
	}
}

// gone ends items that were answered. Their memory goes with the last of those received together; their bodies go now.
func (c *Consumer) gone(items []*item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range items {
		i.delivery = keystrand.Delivery{}
	}
	c.leave(len(items))
}

// takeFrom takes up to most items from the front of a queue, into the memory of into where they do not fit all, else by
// exchanging the two. It wakes another one when some are left.
func (c *Consumer) takeFrom(queue *[]*item, into []*item, most int, more signal) []*item {
	clear(into)
	c.mu.Lock()
	defer c.mu.Unlock()
	q := *queue
	if len(q) <= most {
		*queue = into[:0]
		return q
	}
	into = append(into[:0], q[:most]...)
	rest := append(q[:0], q[most:]...)
	clear(q[len(rest):])
	*queue = rest
	more.send()
	return into
}

// ackAll acknowledges deliveries and repeats what the engine did not answer, until the leases must have ended: then the
// messages come again, and the inbox recognises them.
func (c *Consumer) ackAll(ctx context.Context, deliveries []keystrand.Delivery) {
	started, pause := c.options.Clock.Mono(), minPause
	for len(deliveries) > 0 {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.source.Ack(limited, deliveries...)
		cancel()
		again := c.settleAcks(deliveries, err)
		c.counts.acked.Add(int64(len(deliveries) - len(again)))
		if len(again) == 0 {
			return
		}
		c.fault("ack", err)
		if c.options.Clock.Mono()-started > deliveries[0].Lease || !wait(ctx, pause) {
			return
		}
		deliveries, pause = again, min(2*pause, maxPause)
	}
}

// settleAcks tells of the lost leases in err and returns the deliveries to acknowledge again.
func (c *Consumer) settleAcks(deliveries []keystrand.Delivery, err error) (again []keystrand.Delivery) {
	if err == nil {
		return nil
	}
	failed := keystrand.DeliveryErrors(err)
	if len(failed) == 0 { // the call as a whole
		if errors.Is(err, keystrand.ErrSuperseded) || errors.Is(err, keystrand.ErrRejected) {
			c.lostAcks(deliveries, err)
			return nil
		}
		return deliveries
	}
	for _, f := range failed {
		if errors.Is(f.Err, keystrand.ErrSuperseded) || errors.Is(f.Err, keystrand.ErrRejected) {
			c.lostAcks([]keystrand.Delivery{f.Delivery}, f.Err)
			continue
		}
		again = append(again, f.Delivery)
	}
	return again
}

func (c *Consumer) lostAcks(deliveries []keystrand.Delivery, err error) {
	c.counts.superseded.Add(int64(len(deliveries)))
	c.counts.acked.Add(-int64(len(deliveries)))
	if f := c.options.Events.Superseded; f != nil {
		for _, d := range deliveries {
			f(d, err)
		}
	}
}

// report tells the engine of failed attempts and gives deliveries back.
func (c *Consumer) report(ctx context.Context) error {
	var items []*item
	for {
		select {
		case <-c.otherWork:
		case <-ctx.Done():
			return nil
		}
		for items = c.takeFrom(&c.others, items, 1, c.otherWork); len(items) > 0; items = c.takeFrom(&c.others, items, 1, c.otherWork) {
			c.reportOne(ctx, items[0])
			c.gone(items)
		}
	}
}

func (c *Consumer) reportOne(ctx context.Context, i *item) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		var err error
		if i.verdict == toFail {
			err = c.source.Fail(limited, i.delivery, i.cause)
		} else {
			_, err = c.source.Extend(limited, i.delivery, 0) // the lease ends now, and no failure is counted
		}
		cancel()
		switch {
		case err == nil && i.verdict == toFail:
			c.counts.failed.Add(1)
			if f := c.options.Events.Failed; f != nil {
				f(i.delivery, i.cause)
			}
			return
		case err == nil:
			c.counts.released.Add(1)
			return
		case errors.Is(err, keystrand.ErrSuperseded):
			c.superseded(i.delivery, err)
			return
		case errors.Is(err, keystrand.ErrRejected):
			c.fault("report", err)
			return
		}
		c.fault("report", err)
		if pause >= maxPause || !wait(ctx, pause) {
			return // its lease will end by itself
		}
	}
}
