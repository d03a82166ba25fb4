package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/inside"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/bench/internal/workload"
	"github.com/keystrand/keystrand/consumer"
	"github.com/keystrand/keystrand/engine/embedded"
	"github.com/keystrand/keystrand/internal/history"
)

// queues of every topic.
const queues = 8

// bench is one embedded engine on a fresh data directory, and the history of all that is done with it.
type bench struct {
	dir    string
	engine *embedded.Engine
	tape   *tape.Tape
	bodies *workload.Bodies
}

func openBench(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp(o.dir, "keystrand-keyed-")
	if err != nil {
		return nil, err
	}
	e, err := inside.Open(ctx, filepath.Join(dir, "data"), 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &bench{dir: dir, engine: e, tape: tape.New(1), bodies: workload.NewBodies(o.bytes, o.seed)}, nil
}

func (x *bench) close() error { return errors.Join(x.engine.Close(), os.RemoveAll(x.dir)) }

// preload stores n messages over k keys and returns when they are durable.
func (x *bench) preload(ctx context.Context, topic string, k, n int, o options) error {
	if err := x.engine.Admin().CreateTopic(ctx, keystrand.TopicSpec{Name: topic, Type: keystrand.TopicFIFO, Queues: queues}); err != nil {
		return err
	}
	producer, err := x.engine.Producer(ctx)
	if err != nil {
		return err
	}
	defer producer.Close() // it holds nothing
	source := workload.Source{Topic: topic, Bodies: x.bodies, Keys: workload.Keys(k, o.seed), Number: 1}
	const batch = 500
	for sent := 0; sent < n; {
		size := min(batch, n-sent)
		messages, events := make([]keystrand.Message, size), make([]history.Event, size)
		for i := range messages {
			var m history.Message
			messages[i], m = source.Next()
			events[i] = tape.SendEvent(m)
			x.tape.Invoke(0, &events[i])
		}
		receipts, err := producer.Send(ctx, messages...)
		for i := range events {
			if err == nil {
				events[i].Queue, events[i].Offset = receipts[i].Queue, int64(receipts[i].Offset)
			}
			x.tape.End(0, &events[i], err)
		}
		if err != nil {
			return fmt.Errorf("preload: %w", err)
		}
		sent += size
	}
	return nil
}

// result of one consumption.
type result struct {
	rate, steady float64
	peak         int
	others       float64 // share of all cores that others used meanwhile
	cpuPerM      float64 // processor seconds per million messages: broker, consumer and recording together
}

// consume lets a new group of the given order level handle n messages of the topic, through package consumer.
func (x *bench) consume(ctx context.Context, group, level, topic string, workers, n int, o options) (result, error) {
	if err := x.engine.Admin().CreateGroup(ctx, keystrand.GroupSpec{Name: group, Ordered: true, OrderLevel: level}); err != nil {
		return result{}, err
	}
	source, err := x.engine.Consumer(ctx, keystrand.ConsumerOptions{Group: group, Topic: topic})
	if err != nil {
		return result{}, err
	}
	defer source.Close() // nothing is out when the run has ended
	limit := o.handler*time.Duration(n)/time.Duration(min(workers, queues))*2 + time.Minute
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	times := newTimeline(n)
	watched := x.tape.Watch(source, group)
	watched.Sum = x.bodies.Sum
	watched.OnAck = func(acked int64) {
		if acked >= int64(n) {
			cancel()
		}
	}
	faults := make(chan error, 1)
	c, err := consumer.New(watched, handler(watched, times, o.handler), consumer.Options{Workers: workers, Events: consumer.Events{Fault: func(err error) {
		select {
		case faults <- err:
		default: // the first is enough
		}
	}}})
	if err != nil {
		return result{}, err
	}
	runtime.GC() // what the preload left behind is not the consumer's
	cpu, stretch := machine.OwnCPU(), machine.Begin()
	if err := c.Run(bounded); err != nil {
		return result{}, err
	}
	cpu = machine.OwnCPU() - cpu
	others := stretch.Others(cpu)
	select {
	case err := <-faults:
		return result{}, err
	default:
	}
	if errors.Is(bounded.Err(), context.DeadlineExceeded) || ctx.Err() != nil {
		return result{}, fmt.Errorf("%+v of %d messages within %v: %w", c.Stats(), n, limit, bounded.Err())
	}
	return result{times.rate(), times.steadyRate(queues), times.peak, others, cpu.Seconds() / float64(n) * 1e6}, nil
}

// handler holds each message for d.
func handler(watched *tape.Consumer, times *timeline, d time.Duration) consumer.Handler {
	timers := sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}
	return func(ctx context.Context, m keystrand.Delivery) error {
		worker := workload.KeyNumber(m.MessageGroup)
		times.start(watched.Handle(history.Start, worker, &m))
		timer := timers.Get().(*time.Timer)
		defer timers.Put(timer)
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		times.end(watched.Handle(history.End, worker, &m), m.Queue)
		return nil
	}
}

// judge says whether the run so far kept its promises; without that no figure counts.
func (x *bench) judge(o options, name string) error {
	path := filepath.Join(x.dir, "history.jsonl")
	if o.keep != "" {
		path = filepath.Join(o.keep, name+".jsonl")
	}
	report, err := x.tape.Judge(path)
	if err == nil {
		progress("history of %s: %d events, %s", name, report.Summary.Events, report.Verdict)
	}
	return err
}
