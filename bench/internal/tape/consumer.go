package tape

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
)

// Consumer records what passes through an engine's consumer: every hand-out and every ack.
type Consumer struct {
	keystrand.Consumer
	tape  *Tape
	group string
	call  atomic.Int64 // numbers the calls, so that those at the same time have different workers
	acked atomic.Int64
	// Sum adds up a body; by default history.Sum.
	Sum func(body []byte) uint64
	// OnAck is called after acks took effect, with their number so far; may be nil.
	OnAck func(acked int64)
}

// Numbers of the workers in the history: calls to the engine from callWorkers on, handlers below.
const callWorkers = 9000

// Watch records c, which receives for group.
func (t *Tape) Watch(c keystrand.Consumer, group string) *Consumer {
	return &Consumer{Consumer: c, tape: t, group: group, Sum: history.Sum}
}

func (c *Consumer) worker() int { return callWorkers + int(c.call.Add(1)%1000) }

// Receive implements keystrand.Consumer.
func (c *Consumer) Receive(ctx context.Context, limit int) ([]keystrand.Delivery, error) {
	worker, since := c.worker(), c.tape.now()
	got, err := c.Consumer.Receive(ctx, limit)
	for i := range got {
		e := deliveryEvent(history.Recv, c.group, &got[i])
		e.Sum, e.Since, e.Dur = c.Sum(got[i].Body), since, int64(got[i].Lease)
		c.tape.Put(worker, &e)
	}
	return got, err
}

// Ack implements keystrand.Consumer.
func (c *Consumer) Ack(ctx context.Context, deliveries ...keystrand.Delivery) error {
	worker := c.worker()
	events := make([]history.Event, len(deliveries))
	for i := range deliveries {
		events[i] = deliveryEvent(history.AckInv, c.group, &deliveries[i])
		c.tape.Invoke(worker, &events[i])
	}
	err := c.Consumer.Ack(ctx, deliveries...)
	if err != nil {
		err = errors.Join(errors.New("a benchmark's acks must all take effect"), err)
	}
	for i := range events {
		c.tape.End(worker, &events[i], err)
	}
	if n := c.acked.Add(int64(len(deliveries))); err == nil && c.OnAck != nil {
		c.OnAck(n)
	}
	return err
}

// Handle records the beginning of a delivery's handler, or its end, and returns the stamp. A message group runs one handler
// at a time, so its number can stand for the worker.
func (c *Consumer) Handle(kind history.Kind, worker int, d *keystrand.Delivery) int64 {
	e := deliveryEvent(kind, c.group, d)
	return c.tape.Put(worker%callWorkers, &e)
}

// deliveryEvent is an event about a delivery, without sum, since and lease.
func deliveryEvent(kind history.Kind, group string, d *keystrand.Delivery) history.Event {
	e := Event(kind)
	id, err := history.ParseID(d.Properties[history.PropertyID])
	if err != nil {
		id = history.ID{} // the judge will say that nobody sent it
	}
	e.Topic, e.Group, e.Key, e.ID, e.Queue, e.Offset = d.Topic, group, d.MessageGroup, id, d.Queue, int64(d.Offset)
	e.Token, e.Broker, e.Attempt = d.Token.Value, d.Token.Broker, uint32(d.Attempt)
	return e
}

// Drain receives and acks everything that is there for the consumer and records it: what was acknowledged must be there, in
// order. Returns the number of messages. Requires: c was opened with DrainWait.
func (c *Consumer) Drain(ctx context.Context) (n int, err error) {
	for {
		got, err := c.Receive(ctx, 32)
		if err != nil || len(got) == 0 {
			return n, err
		}
		if err := c.Ack(ctx, got...); err != nil {
			return n, err
		}
		n += len(got)
	}
}

// DrainWait is how long a consumer that is drained should wait in a receive before it is taken to be at the end.
const DrainWait = 200 * time.Millisecond
