package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
)

// Pauses after an engine that does not answer.
const minPause, maxPause = 50 * time.Millisecond, 5 * time.Second

// receive asks for deliveries while there is room, until ctx ends or the engine rejects the question: asking again does not
// help then, and someone must be told. Workers are started in pool.
func (c *Consumer) receive(ctx context.Context, pool *task.Group) error {
	pause := minPause
	for {
		n := c.reserve(ctx)
		if n == 0 {
			return nil
		}
		deliveries, err := c.source.Receive(ctx, n)
		c.take(deliveries, n, pool)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			pause = minPause
			continue
		}
		if errors.Is(err, keystrand.ErrRejected) {
			return fmt.Errorf("receive: %w", err)
		}
		c.fault("receive", err)
		if !wait(ctx, pause) {
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reserve waits for room for a worthwhile number of deliveries and takes it; 0 when ctx ended. While workers have waiting
// work a single free place is no reason for a call; when they are hungry it is.
func (c *Consumer) reserve(ctx context.Context) int {
	for {
		c.mu.Lock()
		worth := 1
		if c.lanes.count > c.lanes.running {
			worth = min(c.options.Batch, max(1, c.options.Window/8))
		}
		free := c.options.Window - c.window
		if free >= worth {
			n := min(free, c.options.Batch)
			c.window += n
			more := free-n >= worth
			c.mu.Unlock()
			if more {
				c.room.send() // another receiver may go too
			}
			return n
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-ctx.Done():
			return 0
		}
	}
}

// take puts deliveries into their lanes and hands what may run to workers. Of the reserved places the unused come back.
func (c *Consumer) take(deliveries []keystrand.Delivery, reserved int, pool *task.Group) {
	c.counts.received.Add(int64(len(deliveries)))
	items := make([]item, len(deliveries)) // one piece of memory for all; it lives as long as the last of them
	now := c.options.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window += len(deliveries) - reserved
	for n := range deliveries {
		i := &items[n]
		i.delivery = deliveries[n]
		if c.stopping {
			c.complete(i, toRelease, nil)
			continue
		}
		c.lanes.add(i)
		i.renewAt, i.deadlineAt = now+i.delivery.Lease/3, now+c.options.HandlerTimeout
		first := c.renewals.head == nil || c.limits.head == nil
		c.renewals.push(i)
		c.limits.push(i)
		if first {
			c.alarm.send()
		}
	}
	c.startWorkers(pool)
	if len(deliveries) < reserved {
		c.room.send()
	}
}

// startWorkers hands ready items to idle workers, and to new ones up to the bound. Requires: mu held.
func (c *Consumer) startWorkers(pool *task.Group) {
	for len(c.idle) > 0 || c.workers < c.options.Workers {
		i := c.next()
		if i == nil {
			return
		}
		if n := len(c.idle); n > 0 {
			w := c.idle[n-1]
			c.idle = c.idle[:n-1]
			w.work <- i // holds one, and is empty while the worker is idle
			continue
		}
		c.workers++
		w := &worker{c: c, work: make(chan *item, 1)}
		w.work <- i
		pool.Go("consumer.worker", w.run)
	}
}

// next takes the item that may start now and starts its time. Requires: mu held.
func (c *Consumer) next() *item {
	if c.stopping {
		return nil
	}
	i := c.lanes.next()
	if i == nil {
		return nil
	}
	if c.lanes.count == c.lanes.running {
		c.room.send() // the workers will be hungry: any room is worth a call now
	}
	c.limits.remove(i)
	i.deadlineAt = c.options.Clock.Mono() + c.options.HandlerTimeout
	c.limits.push(i)
	return i
}
