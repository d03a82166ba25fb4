package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/keystrand/keystrand"
)

// worker is one goroutine that runs handlers. Idle ones wait with an empty channel.
type worker struct {
	c    *Consumer
	work chan *item
}

// run runs items until the channel is closed. Having finished one it takes the next ready one itself: no hand-over between
// goroutines while there is work.
func (w *worker) run(context.Context) error {
	for i := range w.work {
		for i != nil {
			d, err := w.c.handle(i)
			i = w.c.finish(w, i, d, err)
		}
	}
	return nil
}

// handle calls the handler with a copy of the delivery, which it returns; the item's own may get a new handle meanwhile. A
// panic becomes an error, and an error after the context's end tells why it ended.
func (c *Consumer) handle(i *item) (d keystrand.Delivery, err error) {
	ctx, cancel := context.WithCancelCause(c.base)
	defer cancel(context.Canceled)
	c.mu.Lock()
	i.cancel, d = cancel, i.delivery
	lost := i.lost
	c.mu.Unlock()
	if lost {
		return d, ErrLeaseLost
	}
	defer func() {
		if p := recover(); p != nil {
			c.counts.panics.Add(1)
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	err = c.handler(ctx, d)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return d, err
}

// judge says what the engine is told after a handler returned.
func judge(err error, lost, aborting bool) verdict {
	switch {
	case lost, errors.Is(err, keystrand.ErrSuperseded):
		return toDrop
	case err == nil:
		return toAck
	case aborting && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopped)):
		return toRelease // the stop interrupted it: no failure of its own
	}
	return toFail
}

// finish ends an item and returns the next one for this worker; nil: the worker is idle now.
func (c *Consumer) finish(w *worker, i *item, d keystrand.Delivery, err error) *item {
	c.mu.Lock()
	v := judge(err, i.lost, c.aborting)
	if v == toDrop && err == nil {
		err = ErrLeaseLost
	}
	c.lanes.done(i)
	c.complete(i, v, err)
	next := c.next()
	switch {
	case next != nil:
	case c.dismissed:
		close(w.work)
	default:
		c.idle = append(c.idle, w)
	}
	c.mu.Unlock()
	if v == toDrop {
		c.superseded(d, err)
	}
	return next
}

func (c *Consumer) superseded(d keystrand.Delivery, cause error) {
	c.counts.superseded.Add(1)
	if f := c.options.Events.Superseded; f != nil {
		f(d, cause)
	}
}

// complete hands a finished item to those who tell the engine. While a renewal is under way it waits for the new handle.
// Requires: mu held.
func (c *Consumer) complete(i *item, v verdict, cause error) {
	i.stage, i.verdict, i.cause, i.cancel = finished, v, cause, nil
	c.renewals.remove(i)
	c.limits.remove(i)
	if i.extending {
		return // the renewer calls forward
	}
	c.forward(i)
}

// forward queues the item for its last call. Requires: mu held.
func (c *Consumer) forward(i *item) {
	switch i.verdict {
	case toAck:
		c.acks = append(c.acks, i)
		c.ackWork.send()
	case toFail, toRelease:
		c.others = append(c.others, i)
		c.otherWork.send()
	default:
		c.leave(1)
	}
}

// leave gives back n places of the window. Requires: mu held.
func (c *Consumer) leave(n int) {
	c.window -= n
	c.room.send()
	if c.stopping && c.window == 0 {
		select {
		case <-c.empty:
		default:
			close(c.empty)
		}
	}
}
