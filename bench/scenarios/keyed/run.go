package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/inside"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/bench/internal/workload"
	"github.com/keystrand/keystrand/internal/history"
)

// queues of every topic.
const queues = 8

// bench is one broker in this process, on a fresh data directory, and the history of all that is done with it.
type bench struct {
	dir    string
	broker *inside.Broker
	tape   *tape.Tape
}

func openBench(ctx context.Context, parent string) (*bench, error) {
	dir, err := os.MkdirTemp(parent, "keystrand-keyed-")
	if err != nil {
		return nil, err
	}
	b, err := inside.Open(ctx, filepath.Join(dir, "data"), 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &bench{dir: dir, broker: b, tape: tape.New(1)}, nil
}

func (x *bench) close() error { return errors.Join(x.broker.Close(), os.RemoveAll(x.dir)) }

// preload stores n messages over k keys and returns when they are durable.
func (x *bench) preload(ctx context.Context, topic string, k, n int, o options) error {
	if err := x.broker.CreateTopic(ctx, keystrand.TopicSpec{Name: topic, Type: keystrand.TopicFIFO, Queues: queues}); err != nil {
		return err
	}
	source := workload.Source{Topic: topic, Bodies: workload.NewBodies(o.bytes, o.seed), Keys: workload.Keys(k, o.seed), Number: 1}
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
		receipts, err := x.broker.Send(ctx, topic, messages, "")
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
	cpuPerM      float64 // processor seconds per million messages: broker, consumer and recording together
}

// consume lets a new group of the given order level handle n messages of the topic.
func (x *bench) consume(ctx context.Context, group, level, topic string, workers, n int, o options) (result, error) {
	if err := x.broker.CreateGroup(ctx, keystrand.GroupSpec{Name: group, Ordered: true, OrderLevel: level}); err != nil {
		return result{}, err
	}
	times := newTimeline(n)
	l := &lanes{broker: x.broker.Broker, group: group, topic: topic, workers: workers, handler: o.handler, tape: x.tape, limit: int64(n), times: times}
	runtime.GC() // what the preload left behind is not the consumer's
	cpu := machine.OwnCPU()
	limit := o.handler*time.Duration(n)/time.Duration(min(workers, queues))*2 + time.Minute
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := l.run(bounded); err != nil {
		return result{}, err
	}
	if bounded.Err() != nil {
		return result{}, fmt.Errorf("%d of %d messages within %v: %w", l.acked.Load(), n, limit, bounded.Err())
	}
	cpu = machine.OwnCPU() - cpu
	return result{times.rate(), times.steadyRate(queues), times.peak, cpu.Seconds() / float64(n) * 1e6}, nil
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
