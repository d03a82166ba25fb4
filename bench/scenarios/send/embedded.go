package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/floor"
	"github.com/keystrand/keystrand/bench/internal/inside"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/bench/internal/workload"
)

// embeddedFigures are those of one number of senders in the broker's process.
type embeddedFigures struct {
	rate     spread.Of
	p50, p99 spread.Of // milliseconds
	cpu      spread.Of // seconds per million messages: broker, senders and recording
	// model is the rate's share of N/(F + N c): F the median fdatasync of 1 KiB just before and after, c the processor time of
	// a message in the run with the most senders of the same round.
	model spread.Of
	// disk is the rate's share of raw 1 KiB writes with fdatasync, one after the other, just before and after.
	disk spread.Of
}

// asyncInterval is the loss window of the async side of G9.
const asyncInterval = 50 * time.Millisecond

func (s *session) embeddedRuns(ctx context.Context, dir string, o options) error {
	for round := range o.pairs {
		if err := s.embeddedRound(ctx, filepath.Join(dir, fmt.Sprintf("embedded-%d", round+1)), o); err != nil {
			return fmt.Errorf("embedded, round %d: %w", round+1, err)
		}
	}
	return nil
}

// embeddedRound runs the ladder once on a fresh broker, with a probe of the disk between the runs, and the async side.
func (s *session) embeddedRound(ctx context.Context, dir string, o options) error {
	probe := time.Second
	if o.short {
		probe = 200 * time.Millisecond
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	rates := make([]sent, len(o.embedded))
	cpu := make([]float64, len(o.embedded))
	floors := make([]floor.Probe, len(o.embedded)+1)
	s.loads.Add(machine.WaitQuiet(ctx, o.quiet))
	var err error
	if floors[0], err = floor.Measure(ctx, dir, probe); err != nil {
		return err
	}
	err = s.onBroker(ctx, dir, "sync", 0, o, func(l *ladder, send func(int) sendOne) error {
		for i, n := range o.embedded {
			if rates[i], cpu[i], err = inProcess(ctx, l, n, send, o); err != nil {
				return err
			}
			if floors[i+1], err = floor.Measure(ctx, dir, probe); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	most := len(o.embedded) - 1
	var async sent
	err = s.onBroker(ctx, dir, "async", asyncInterval, o, func(l *ladder, send func(int) sendOne) error {
		async, _, err = inProcess(ctx, l, o.embedded[most], send, o)
		return err
	})
	if err != nil {
		return err
	}
	s.async.Add(async.rate)
	s.syncToAsync.Add(rates[most].rate / async.rate)
	for i, n := range o.embedded {
		if s.embedded[n] == nil {
			s.embedded[n] = &embeddedFigures{}
		}
		f := s.embedded[n]
		f.rate.Add(rates[i].rate)
		f.p50.Add(float64(rates[i].p50) / 1e6)
		f.p99.Add(float64(rates[i].p99) / 1e6)
		f.cpu.Add(cpu[i] * 1e6)
		flush := (floors[i].Sync1 + floors[i+1].Sync1).Seconds() / 2
		f.model.Add(rates[i].rate / (float64(n) / (flush + float64(n)*cpu[most])))
		f.disk.Add(rates[i].rate / ((floors[i].Syncs + floors[i+1].Syncs) / 2))
		progress("embedded, %d senders: %.0f/s, p50 %v, fdatasync %v, %.1f CPU us a message", n, rates[i].rate, rates[i].p50, floors[i].Sync1, cpu[i]*1e6)
	}
	progress("embedded, %d senders, async: %.0f/s", o.embedded[most], async.rate)
	return os.RemoveAll(dir)
}

// inProcess is one run; it also returns the processor seconds of a message.
func inProcess(ctx context.Context, l *ladder, n int, send func(int) sendOne, o options) (sent, float64, error) {
	cpu := machine.OwnCPU()
	got, err := l.run(ctx, n, o.warm, o.time, send)
	cpu = machine.OwnCPU() - cpu
	return got, cpu.Seconds() / (got.rate * (o.warm + o.time).Seconds()), err
}

// onBroker runs f on a fresh engine in this process, then reads everything back and judges it.
func (s *session) onBroker(ctx context.Context, dir, name string, interval time.Duration, o options, f func(*ladder, func(int) sendOne) error) (err error) {
	e, err := inside.Open(ctx, filepath.Join(dir, name), interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	const topic = "sends"
	if err := e.Admin().CreateTopic(ctx, keystrand.TopicSpec{Name: topic, Type: keystrand.TopicFIFO, Queues: 8}); err != nil {
		return err
	}
	producer, err := e.Producer(ctx)
	if err != nil {
		return err
	}
	l := &ladder{topic: topic, bodies: workload.NewBodies(o.bytes, o.seed), keys: o.keys, seed: o.seed, tape: tape.New(1)}
	send := func(int) sendOne {
		return func(ctx context.Context, m *keystrand.Message) (int32, int64, error) {
			receipts, err := producer.Send(ctx, *m)
			if err != nil {
				return -1, -1, err
			}
			return receipts[0].Queue, int64(receipts[0].Offset), nil
		}
	}
	if err := f(l, send); err != nil {
		return err
	}
	n, err := inside.Drain(ctx, e, topic, l.tape)
	if err := errors.Join(err, producer.Close()); err != nil {
		return err
	}
	return s.judge(l.tape, "send-embedded-"+name, n, dir, o)
}
