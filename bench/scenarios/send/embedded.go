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
		for try, taken := 1, false; !taken; try++ {
			var err error
			taken, err = s.embeddedRound(ctx, filepath.Join(dir, fmt.Sprintf("embedded-%d-%d", round+1, try)), o, try == maxTries)
			if err != nil {
				return fmt.Errorf("embedded, round %d: %w", round+1, err)
			}
		}
	}
	return nil
}

// embeddedRound runs the ladder once on a fresh broker, with a probe of the disk between the runs, and the async side. It
// takes the figures, unless others used too much of the machine in one of the runs and this is not the last try.
func (s *session) embeddedRound(ctx context.Context, dir string, o options, last bool) (taken bool, err error) {
	probe := time.Second
	if o.short {
		probe = 200 * time.Millisecond
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return false, err
	}
	runs := make([]embeddedRun, len(o.embedded))
	floors := make([]floor.Probe, len(o.embedded)+1)
	if floors[0], err = floor.Measure(ctx, dir, probe); err != nil {
		return false, err
	}
	err = s.onBroker(ctx, dir, "sync", 0, o, func(l *ladder, send func(int) sendOne) error {
		for i, n := range o.embedded {
			if runs[i], err = inProcess(ctx, l, n, send, o); err != nil {
				return err
			}
			if floors[i+1], err = floor.Measure(ctx, dir, probe); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	var async embeddedRun
	err = s.onBroker(ctx, dir, "async", asyncInterval, o, func(l *ladder, send func(int) sendOne) error {
		async, err = inProcess(ctx, l, o.embedded[len(o.embedded)-1], send, o)
		return err
	})
	if err != nil {
		return false, err
	}
	others := async.others
	for i, r := range runs {
		progress("embedded, %d senders: %.0f/s, p50 %v, fdatasync %v, %.1f CPU us a message, others used %.2f of the cores", o.embedded[i], r.rate, r.p50, floors[i].Sync1, r.cpu*1e6, r.others)
		others = max(others, r.others)
	}
	progress("embedded, %d senders, async: %.0f/s, others used %.2f of the cores", o.embedded[len(o.embedded)-1], async.rate, async.others)
	if others > o.quiet && !last {
		s.discarded++
		return false, os.RemoveAll(dir)
	}
	s.takeRound(runs, async, floors, o)
	return true, os.RemoveAll(dir)
}

// takeRound adds the figures of a round.
func (s *session) takeRound(runs []embeddedRun, async embeddedRun, floors []floor.Probe, o options) {
	most := runs[len(runs)-1]
	s.async.Add(async.rate)
	s.syncToAsync.Add(most.rate / async.rate)
	for i, n := range o.embedded {
		if s.embedded[n] == nil {
			s.embedded[n] = &embeddedFigures{}
		}
		f, r := s.embedded[n], runs[i]
		f.rate.Add(r.rate)
		f.p50.Add(float64(r.p50) / 1e6)
		f.p99.Add(float64(r.p99) / 1e6)
		f.cpu.Add(r.cpu * 1e6)
		flush := (floors[i].Sync1 + floors[i+1].Sync1).Seconds() / 2
		f.model.Add(r.rate / (float64(n) / (flush + float64(n)*most.cpu)))
		f.disk.Add(r.rate / ((floors[i].Syncs + floors[i+1].Syncs) / 2))
		s.loads.Add(r.others)
	}
}

// embeddedRun is one run.
type embeddedRun struct {
	sent
	cpu    float64 // seconds of a message
	others float64 // share of all cores
}

func inProcess(ctx context.Context, l *ladder, n int, send func(int) sendOne, o options) (embeddedRun, error) {
	machine.WaitQuiet(ctx, o.quiet)
	cpu, stretch := machine.OwnCPU(), machine.Begin()
	got, err := l.run(ctx, n, o.warm, o.time, send)
	cpu = machine.OwnCPU() - cpu
	return embeddedRun{got, cpu.Seconds() / (got.rate * (o.warm + o.time).Seconds()), stretch.Others(cpu)}, err
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
