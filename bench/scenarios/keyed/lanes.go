package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/broker"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// lanes consumes with the broker's own calls: fetchers receive, a worker holds each message for the handler's time, and
// ackers finish what is done, several in one call.
type lanes struct {
	broker  *broker.Broker
	group   string
	topic   string
	workers int
	handler time.Duration
	tape    *tape.Tape

	work chan delivery
	done chan delivery
	// limit is how many messages are handled before the run ends.
	limit   int64
	handled atomic.Int64
	acked   atomic.Int64
	times   *timeline
}

// delivery is a message on its way through the consumer.
type delivery struct {
	engine keystrand.Delivery
	record history.Delivery
}

// Numbers of a consumer of this kind.
const (
	fetchers      = 4
	ackers        = 4
	maxAckHandles = 256
	receiveMax    = 32 // the broker's bound for one receive
)

func (l *lanes) run(ctx context.Context) error {
	l.work, l.done = make(chan delivery, l.workers), make(chan delivery, l.workers)
	running, stop := context.WithCancel(ctx)
	defer stop()
	group := task.NewGroup(running)
	for i := range fetchers {
		group.Go("fetch", func(ctx context.Context) error { return l.fetch(ctx, l.workers+ackers+i) })
	}
	for i := range l.workers {
		group.Go("worker", func(ctx context.Context) error { return l.handle(ctx, i) })
	}
	for i := range ackers {
		group.Go("ack", func(ctx context.Context) error { return l.ack(ctx, l.workers+i, stop) })
	}
	return group.Wait()
}

func (l *lanes) fetch(ctx context.Context, worker int) error {
	for ctx.Err() == nil {
		since := history.Now()
		got, err := l.broker.Receive(ctx, broker.Receive{Group: l.group, Topic: l.topic, Max: receiveMax, Lease: 30 * time.Second, Wait: 5 * time.Second, ClientID: "bench"})
		if err != nil {
			return ended(ctx, err)
		}
		for _, d := range got {
			record := history.FromDelivery(l.group, d, since)
			e := tape.RecvEvent(&record)
			l.tape.Put(worker, &e)
			select {
			case l.work <- delivery{d, record}:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

func (l *lanes) handle(ctx context.Context, worker int) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case d := <-l.work:
			start := tape.DeliveryEvent(history.Start, &d.record)
			l.times.start(l.tape.Put(worker, &start))
			timer.Reset(l.handler)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
			end := tape.DeliveryEvent(history.End, &d.record)
			l.times.end(l.tape.Put(worker, &end), d.record.Queue)
			l.handled.Add(1)
			l.done <- d
		case <-ctx.Done():
			return nil
		}
	}
}

// ack finishes what the workers are done with. The last ack that the run needs ends it.
func (l *lanes) ack(ctx context.Context, worker int, stop func()) error {
	handles := make([]string, 0, maxAckHandles)
	invokes := make([]history.Event, 0, maxAckHandles)
	for {
		handles, invokes = handles[:0], invokes[:0]
		take := func(d delivery) {
			e := tape.DeliveryEvent(history.AckInv, &d.record)
			l.tape.Invoke(worker, &e)
			handles, invokes = append(handles, d.engine.ReceiptHandle), append(invokes, e)
		}
		select {
		case d := <-l.done:
			take(d)
		case <-ctx.Done():
			return nil
		}
		for more := true; more && len(handles) < maxAckHandles; {
			select {
			case d := <-l.done:
				take(d)
			default:
				more = false
			}
		}
		// The run's end must not leave these acks half recorded.
		errs := l.broker.Ack(context.WithoutCancel(ctx), l.group, l.topic, handles...)
		for i := range invokes {
			l.tape.End(worker, &invokes[i], errs[i])
		}
		if err := errors.Join(errs...); err != nil {
			return ended(ctx, err)
		}
		if l.acked.Add(int64(len(handles))) >= l.limit {
			stop()
		}
	}
}

// ended hides the error of a call that the run's end cut off.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
