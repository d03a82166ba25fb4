package consumer

import (
	"context"
	"time"
)

// abandonAfter is how long handlers get to notice that their context has ended.
const abandonAfter = 5 * time.Second

// stop takes nothing new: what waits is given back.
func (c *Consumer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for i := c.limits.head; i != nil; {
		next := i.links[byDeadline].next
		if i.stage == waiting {
			c.lanes.drop(i)
			c.complete(i, toRelease, nil)
		}
		i = next
	}
	c.leave(0) // there may be nothing at all
}

// drain waits until everything is answered, ends the handlers' contexts when the time is over, and returns how many
// handlers still ran when it gave them up.
func (c *Consumer) drain(abort context.CancelCauseFunc) int {
	if c.emptyWithin(c.options.DrainTimeout) {
		return 0
	}
	c.mu.Lock()
	c.aborting = true
	c.mu.Unlock()
	abort(ErrStopped)
	if c.emptyWithin(abandonAfter) {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes.running
}

func (c *Consumer) emptyWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.empty:
		return true
	case <-timer.C:
		return false
	}
}

// dismiss ends the idle workers, and those that become idle later: after a full drain none does.
func (c *Consumer) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissed = true
	for _, w := range c.idle {
		close(w.work)
	}
	c.idle = nil
}
