package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/task"
)

// Handler does the work of one delivery. Its context ends when the lease is lost, when the handler runs too long, and when
// the consumer stops and its drain time is over; context.Cause says which.
//
// nil: acknowledge. An error of class keystrand.ErrSuperseded: neither acknowledge nor fail. Any other error: a failed
// attempt, which the engine counts; its text is kept as the reason. That holds for the class keystrand.ErrRejected too:
// the engine delivers again until the group's attempts are used up, which with their back-off is some ten minutes by default.
// To have a message that can never succeed dealt with now, keep it elsewhere and return nil, or park the message group.
type Handler func(ctx context.Context, d keystrand.Delivery) error

// Options of a consumer. The zero value works.
type Options struct {
	// Workers bounds handlers that run at once; default 64, at most 100,000. Each is a goroutine that stays.
	Workers int
	// Window bounds deliveries in this process: waiting, running, and not yet acknowledged. Default twice Workers. Larger:
	// workers find work at once when message groups are many; smaller: less work to give back at a stop.
	Window int
	// Receivers is how many calls of Receive are out at once, default 4; Batch how much each asks for, default 32.
	Receivers, Batch int
	// Ackers is how many acknowledging calls are out at once, default 4.
	Ackers int
	// HandlerTimeout ends a handler's context, and the extension of its lease. Default 5 min. It also bounds how long a
	// delivery waits here for its lane.
	HandlerTimeout time.Duration
	// DrainTimeout is how long a stop waits for running handlers before it ends their contexts; default 30 s.
	DrainTimeout time.Duration
	// Events must not block. Without Events.Fault nothing shows that the engine is away, without Events.Failed nothing here
	// shows why an attempt failed: set both to what logs.
	Events Events
	// Clock is the seam to time; default the real one.
	Clock Clock
}

// Clock tells monotonic time: how long ago some fixed moment was. It must be safe from any goroutine.
type Clock interface{ Mono() time.Duration }

// Events tell what happens; each may be nil. They are called from several goroutines.
type Events struct {
	// Failed: an attempt was reported as failed, for this reason.
	Failed func(d keystrand.Delivery, cause error)
	// Superseded: the delivery belongs to someone else now.
	Superseded func(d keystrand.Delivery, cause error)
	// Fault: the engine did not answer as it should; the call is repeated for as long as that can help. What the engine
	// rejects at a receive ends Run instead.
	Fault func(err error)
}

func (o Options) complete() Options {
	count := func(p *int, d, most int) {
		if *p <= 0 {
			*p = d
		}
		*p = min(*p, most)
	}
	count(&o.Workers, 64, 100_000)
	count(&o.Window, 2*o.Workers, 1_000_000)
	o.Window = max(o.Window, o.Workers)
	count(&o.Receivers, 4, 64)
	count(&o.Batch, 32, 1024)
	count(&o.Ackers, 4, 64)
	if o.HandlerTimeout <= 0 {
		o.HandlerTimeout = 5 * time.Minute
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	return o
}

// Stats are counts since the start, and what is going on now.
type Stats struct {
	Received, Acked, Failed, Released, Superseded, Panics, Extended int64
	Waiting, Running, Unanswered                                    int
}

// Consumer runs a handler for what an engine's consumer receives.
type Consumer struct {
	source  keystrand.Consumer
	handler Handler
	options Options
	started atomic.Bool
	base    context.Context // of the handlers; set by Run before any of them

	mu        sync.Mutex // guards what follows; held for a few steps, never across a call out
	lanes     *lanes
	renewals  schedule
	limits    schedule
	window    int  // items in this process, and places that receivers have reserved
	stopping  bool // nothing new starts
	aborting  bool // the handlers' contexts have ended
	dismissed bool // an idle worker ends
	idle      []*worker
	workers   int
	acks      []*item
	others    []*item // to fail or release

	room, ackWork, otherWork, alarm signal
	empty                           chan struct{} // closed when stopping and nothing is left
	counts                          struct{ received, acked, failed, released, superseded, panics, extended atomic.Int64 }
}

// signal is a wake-up that is never lost and never blocks: one is kept.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// New makes a consumer; Run starts it. The source stays the caller's to close, after Run returned.
func New(source keystrand.Consumer, h Handler, o Options) (*Consumer, error) {
	if source == nil || h == nil {
		return nil, fmt.Errorf("consumer: a source and a handler are needed: %w", keystrand.ErrRejected)
	}
	o = o.complete()
	c := &Consumer{source: source, handler: h, options: o, lanes: newLanes(o.Workers), renewals: schedule{line: byRenewal}, limits: schedule{line: byDeadline}, empty: make(chan struct{})}
	c.room, c.alarm = make(signal, o.Receivers), make(signal, 1)
	c.ackWork, c.otherWork = make(signal, o.Ackers), make(signal, o.Ackers)
	return c, nil
}

// Run consumes until ctx ends, or until the engine rejects a receive (keystrand.ErrRejected, such as ErrTopicNotFound and
// ErrGroupNotFound). Then it receives nothing more, gives waiting deliveries back, lets running handlers finish for
// DrainTimeout, ends the contexts of the rest, acknowledges what was done, and returns nil or the rejection, and a
// *DrainError when handlers ignore the end of their context. It may run once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return fmt.Errorf("consumer: Run was called before: %w", keystrand.ErrClosed)
	}
	service := context.WithoutCancel(ctx) // acknowledging goes on while the handlers drain
	handlers, abort := context.WithCancelCause(service)
	defer abort(ErrStopped)
	c.base = handlers
	receivers, calls, pool := task.NewGroup(ctx), task.NewGroup(service), task.NewGroup(service)
	for n := range c.options.Receivers {
		receivers.Go(fmt.Sprintf("consumer.receive.%d", n), func(ctx context.Context) error { return c.receive(ctx, pool) })
	}
	for n := range c.options.Ackers {
		calls.Go(fmt.Sprintf("consumer.ack.%d", n), c.acknowledge)
		calls.Go(fmt.Sprintf("consumer.report.%d", n), c.report)
	}
	for n := range renewers {
		calls.Go(fmt.Sprintf("consumer.renew.%d", n), c.renew)
	}
	err := receivers.Wait() // ends with ctx
	c.stop()
	left := c.drain(abort)
	_ = calls.Stop() // they end with their context, and report through Events
	c.dismiss()
	if left > 0 {
		return errors.Join(err, &DrainError{Running: left})
	}
	return errors.Join(err, pool.Wait())
}

// Stats tells counts.
func (c *Consumer) Stats() Stats {
	c.mu.Lock()
	waitingNow, runningNow, window := c.lanes.count-c.lanes.running, c.lanes.running, c.window
	c.mu.Unlock()
	n := &c.counts
	return Stats{
		Received: n.received.Load(), Acked: n.acked.Load(), Failed: n.failed.Load(), Released: n.released.Load(), Superseded: n.superseded.Load(),
		Panics: n.panics.Load(), Extended: n.extended.Load(), Waiting: waitingNow, Running: runningNow, Unanswered: window - waitingNow - runningNow,
	}
}

func (c *Consumer) fault(what string, err error) {
	if f := c.options.Events.Fault; f != nil {
		f(fmt.Errorf("consumer %s: %w", what, err))
	}
}
