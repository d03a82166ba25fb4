package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keystrand/keystrand/bench/internal/floor"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/spread"
)

// messagesOf is how many messages W6 preloads for k keys.
func messagesOf(k int, short bool) int {
	per := 250
	if k >= 1000 {
		per = 100
	}
	if short {
		per = 10
	}
	return k * per
}

// session is everything that was measured.
type session struct {
	machine     machine.Machine
	before      floor.Probe
	after       floor.Probe
	loads       spread.Of
	rate, share map[int]*spread.Of // by keys
	cpu, peak   map[int]*spread.Of
	queueRate   spread.Of // order level queue, while all queues have work
	queueWhole  spread.Of
	queuePeak   spread.Of
	events      int       // of all histories
	discarded   int       // runs not counted because others used too much of the machine
	gain        spread.Of // G2, one for each pair
}

func (s *session) note(k int, r result, o options) {
	s.loads.Add(r.others)
	for m, v := range map[*map[int]*spread.Of]float64{&s.rate: r.rate, &s.share: r.rate / (float64(k) / o.handler.Seconds()), &s.cpu: r.cpuPerM, &s.peak: float64(r.peak)} {
		if *m == nil {
			*m = map[int]*spread.Of{}
		}
		if (*m)[k] == nil {
			(*m)[k] = &spread.Of{}
		}
		(*m)[k].Add(v)
	}
}

func measure(ctx context.Context, o options) (*session, error) {
	s := &session{machine: machine.Describe(ctx, o.dir)}
	probe := 5 * time.Second
	if o.short {
		probe = 500 * time.Millisecond
	}
	var err error
	if s.before, err = floor.Measure(ctx, o.dir, probe); err != nil {
		return nil, err
	}
	progress("%s", s.machine)
	progress("floor before: %s", s.before)
	for round := range o.repeat {
		for _, k := range o.keys {
			if err := s.quietly(ctx, k, round, o); err != nil {
				return nil, fmt.Errorf("%d keys, round %d: %w", k, round+1, err)
			}
		}
	}
	s.after, err = floor.Measure(ctx, o.dir, probe)
	progress("floor after: %s", s.after)
	return s, err
}

// maxTries bounds how often a run is made again because others used too much of the machine meanwhile.
const maxTries = 10

// quietly makes one run, and again while others used more than o.quiet of the cores meanwhile. The rate plays no part in that.
func (s *session) quietly(ctx context.Context, k, round int, o options) error {
	for try := 1; ; try++ {
		machine.WaitQuiet(ctx, o.quiet)
		name := fmt.Sprintf("keyed-%d-round-%d-try-%d", k, round+1, try)
		taken, err := s.one(ctx, k, name, o, try == maxTries)
		if err != nil || taken {
			return err
		}
		s.discarded++
	}
}

// one measures k keys on a broker of its own; for the largest k also queue order on the same broker. It takes the
// result, unless others used too much of the machine and this is not the last try.
func (s *session) one(ctx context.Context, k int, name string, o options, last bool) (taken bool, err error) {
	x, err := openBench(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	n := messagesOf(k, o.short)
	began := time.Now()
	if err := x.preload(ctx, "keyed", k, n, o); err != nil {
		return false, err
	}
	progress("%s: %d messages preloaded in %v", name, n, time.Since(began).Round(time.Millisecond))
	machine.WaitQuiet(ctx, o.quiet)
	r, err := x.consume(ctx, "by-key", "group", "keyed", k, n, o)
	if err != nil {
		return false, err
	}
	progress("%s: %.1f/s, %.3f of the bound, %d at once, %.0f CPU s per million, others used %.2f of the cores", name, r.rate, r.rate/(float64(k)/o.handler.Seconds()), r.peak, r.cpuPerM, r.others)
	if r.others > o.quiet && !last {
		return false, nil
	}
	var q result
	withQueue := o.queue && k == o.keys[len(o.keys)-1]
	if withQueue {
		if q, err = s.queueOrder(ctx, x, name, k, o); err != nil {
			return false, err
		}
	}
	if err := x.judge(o, name); err != nil {
		return false, err
	}
	s.events += x.tape.Events()
	s.note(k, r, o)
	if withQueue {
		s.queueRate.Add(q.steady)
		s.queueWhole.Add(q.rate)
		s.queuePeak.Add(float64(q.peak))
		s.gain.Add(r.rate / q.steady)
	}
	return true, nil
}

// queuedMessages is how many messages W5a preloads.
func queuedMessages(short bool) int {
	if short {
		return 400
	}
	return 8000
}

// queueOrder is W5a on the broker that has just served the keys.
func (s *session) queueOrder(ctx context.Context, x *bench, name string, k int, o options) (result, error) {
	n := queuedMessages(o.short)
	if err := x.preload(ctx, "queued", k, n, o); err != nil {
		return result{}, err
	}
	q, err := x.consume(ctx, "by-queue", "queue", "queued", k, n, o)
	if err == nil {
		progress("%s: queue order %.1f/s while all queues had work, %.1f/s in all, %d at once", name, q.steady, q.rate, q.peak)
	}
	return q, err
}
