//go:build long

package test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

// What is measured, and what is asked of it.
const (
	isolationTopic = "isolation"
	isolationKeys  = 1000
	isolationTries = 3 // of a case whose figures miss the bounds: a shared machine has its own disturbances
	leastRateRatio = 0.95
	mostP99Ratio   = 1.2
	warmUp         = time.Second
	slice          = 2 * time.Second // figures are taken per slice, and compared by their medians: a stall of the disk hits few
	calibration    = 6 * time.Second
	backlogBound   = 2000 // messages sent and not handled, while the rate is found out
)

// Goal: a handler that fails or hangs for one of 1,000 message groups leaves the others at least 0.95 of their rate and at
// most 1.2 times their p99, in the official PushConsumer with 20 threads, with and without its accelerator.
// Method: the rate R that producer, broker and consumer keep up together is found out first; then phases with an open load
// of R/2, in turn without and with a disturbed group. Rate and p99 of each slice of 2 s are taken, and their medians compared.
// Latency runs from the time a message was due to be sent to its handler. The history of each case is judged.
func TestIsolationKeepsRateAndLatencyOfTheOtherGroups(t *testing.T) {
	stops := task.NewGroup(context.WithoutCancel(t.Context()))
	defer func() {
		if err := stops.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for _, accelerator := range []bool{false, true} {
		for _, c := range []isolationCase{
			{name: "park", args: []string{"--at-limit", "park"}, phase: 8 * time.Second, pairs: 4},
			{name: "dead-letter", args: []string{"--at-limit", "dead-letter"}, phase: 8 * time.Second, pairs: 4},
			{name: "block", args: []string{"--at-limit", "block"}, phase: 8 * time.Second, pairs: 4},
			{name: "hang", args: []string{"--max-processing", maxProcessing.String()}, phase: maxProcessing + 4*time.Second, pairs: 2, hangs: true},
		} {
			c.accelerator, c.stops = accelerator, stops
			t.Run(fmt.Sprintf("%s, accelerator %v", c.name, accelerator), c.measure)
		}
	}
}

type isolationCase struct {
	name        string
	args        []string
	phase       time.Duration
	pairs       int // of phases without and with a disturbed group
	hangs       bool
	accelerator bool
	stops       *task.Group // of clients and brokers whose run is over
}

// measure runs a case until its figures are within the bounds, three times at most.
func (c isolationCase) measure(t *testing.T) {
	for try := 1; ; try++ {
		f := c.once(t)
		t.Logf("try %d: %v", try, f)
		if f.rateRatio() >= leastRateRatio && f.p99Ratio() <= mostP99Ratio {
			return
		}
		if try == isolationTries {
			t.Errorf("rate x%.3f, p99 x%.2f after %d tries; want at least x%.2f and at most x%.2f", f.rateRatio(), f.p99Ratio(), try, leastRateRatio, mostP99Ratio)
			return
		}
	}
}

// figures of one try.
type figures struct {
	sustained        float64 // messages a second, without a disturbed group
	plain, disturbed side
	deliveries       int // of the disturbed group
}

// side is one side of the comparison, with one value for each slice.
type side struct {
	rates []float64
	p99s  []time.Duration
}

func (f *figures) rateRatio() float64 { return median(f.disturbed.rates) / median(f.plain.rates) }
func (f *figures) p99Ratio() float64 {
	return float64(median(f.disturbed.p99s)) / float64(median(f.plain.p99s))
}

func (f *figures) String() string {
	return fmt.Sprintf("sustained %.0f/s; the others: %v; beside the disturbed group: %v; rate x%.3f, p99 x%.2f; the disturbed group was delivered %d times",
		f.sustained, &f.plain, &f.disturbed, f.rateRatio(), f.p99Ratio(), f.deliveries)
}

func (s *side) String() string {
	return fmt.Sprintf("%.0f/s (%.0f to %.0f), p99 %v (%v to %v)", median(s.rates), slices.Min(s.rates), slices.Max(s.rates),
		median(s.p99s).Round(10*time.Microsecond), slices.Min(s.p99s).Round(10*time.Microsecond), slices.Max(s.p99s).Round(10*time.Microsecond))
}

func median[T int | float64 | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// isolationRun is one broker with one PushConsumer.
type isolationRun struct {
	isolationCase
	broker *brokerProcess
	tap    *sdk.Tap
	load   *sdk.Load
	group  string

	mu        sync.Mutex // guards all below
	handled   int        // of all messages
	disturbed string     // message group whose handler fails or hangs; empty: none
	cured     chan struct{}
	seen      int // deliveries of the disturbed group
	measured  *window
}

// window collects, per slice, what is handled of the groups that are not disturbed.
type window struct {
	from      int64
	counts    []int
	latencies [][]time.Duration
}

// at is the slice of a time, -1 outside the window.
func (w *window) at(t int64) int {
	if i := int((t - w.from) / int64(slice)); t >= w.from && i < len(w.counts) {
		return i
	}
	return -1
}

func (c isolationCase) once(t *testing.T) *figures {
	r := &isolationRun{isolationCase: c, group: "readers", cured: make(chan struct{})}
	r.broker = startBroker(t, "--data", t.TempDir(), "--log-level", "error", "--topic", isolationTopic+":fifo:8")
	args := append([]string{"group", "create", r.group, "--ordered", "--max-attempts", "3", "--back-off", "1s,1s"}, c.args...)
	if c.accelerator {
		args = append(args, "--push-batch", "many")
	}
	r.broker.keystrand(t, args...)
	r.tap = sdk.NewTap(t, r.broker.GRPCAddr)
	r.tap.Main().Subscribe(r.group, isolationTopic, true, "earliest")
	r.load = &sdk.Load{Producer: sdk.NewProducer(t, r.broker.GRPCAddr, isolationTopic), Topic: isolationTopic, Keys: isolationKeys}
	consumer, err := sdk.StartPushConsumer(r.broker.GRPCAddr, r.group, isolationTopic,
		sdk.PushOptions{Threads: pushThreads, Accelerator: c.accelerator, Handle: r.handle})
	if err != nil {
		t.Fatal(err)
	}
	f := &figures{sustained: r.calibrate(t)}
	for pair := range c.pairs {
		if pair%2 == 0 {
			r.measurePhase(t, f, false, pair)
			r.measurePhase(t, f, true, pair)
		} else {
			r.measurePhase(t, f, true, pair)
			r.measurePhase(t, f, false, pair)
		}
	}
	r.mu.Lock()
	f.deliveries = r.seen
	r.mu.Unlock()
	r.judge(t)
	c.stops.Go("stop", func(ctx context.Context) error { return stopAll(ctx, r.broker, consumer) })
	return f
}

func (r *isolationRun) handle(m *rmq.MessageView) rmq.ConsumerResult {
	took, now, key := sdk.SinceDue(m), history.Now(), sdk.KeyOf(m)
	r.mu.Lock()
	r.handled++
	if key == r.disturbed {
		r.seen++
		cured := r.cured
		r.mu.Unlock()
		if !r.hangs {
			return rmq.FAILURE
		}
		<-cured
		return rmq.SUCCESS
	}
	defer r.mu.Unlock()
	if w := r.measured; w != nil {
		if i := w.at(now); i >= 0 {
			w.counts[i]++
		}
		if i := w.at(now - int64(took)); i >= 0 {
			w.latencies[i] = append(w.latencies[i], took)
		}
	}
	return rmq.SUCCESS
}

// calibrate finds the rate that everything together keeps up.
func (r *isolationRun) calibrate(t *testing.T) float64 {
	t.Helper()
	handled := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.handled }
	sent := 0
	began, before := time.Now().Add(calibration/3), -1
	var rate float64
	err := r.load.Closed(t.Context(), calibration, func() int {
		now, done := time.Now(), handled()
		switch {
		case before < 0 && now.After(began):
			began, before = now, done
		case before >= 0 && now.After(began):
			rate = float64(done-before) / now.Sub(began).Seconds()
		}
		n := max(0, backlogBound-(sent-done))
		sent += n
		return n
	})
	if err != nil || rate == 0 {
		t.Fatalf("the sustained rate could not be found out (%.0f/s): %v", rate, err)
	}
	r.settle(t)
	return rate
}

// measurePhase runs one phase and notes rate and p99 of the groups that are not disturbed, slice by slice.
func (r *isolationRun) measurePhase(t *testing.T, f *figures, disturb bool, pair int) {
	t.Helper()
	n, into, key := int(r.phase/slice), &f.plain, ""
	if disturb {
		into, key = &f.disturbed, sdk.KeyName(100+pair)
	}
	w := &window{from: history.Now() + int64(warmUp), counts: make([]int, n), latencies: make([][]time.Duration, n)}
	cured := make(chan struct{})
	r.mu.Lock()
	r.measured, r.disturbed, r.cured = w, key, cured
	r.mu.Unlock()
	if err := r.load.Open(t.Context(), f.sustained/2, warmUp+r.phase); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.disturbed = ""
	r.mu.Unlock()
	close(cured)
	if disturb && r.name == "park" {
		r.broker.keystrand(t, "resume", "--group", r.group, "--topic", isolationTopic, "--key", key)
	}
	r.settle(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured = nil
	for i, all := range w.latencies {
		if len(all) == 0 {
			t.Fatalf("nothing was handled of what was due in slice %d", i)
		}
		slices.Sort(all)
		into.rates = append(into.rates, float64(w.counts[i])/slice.Seconds())
		into.p99s = append(into.p99s, all[len(all)*99/100])
	}
}

// settle waits until everything is finished.
func (r *isolationRun) settle(t *testing.T) {
	t.Helper()
	sdk.Eventually(t, 30*time.Second, "everything finished", func() bool { return unfinished(t, r.broker, r.group) == 0 })
}

func (r *isolationRun) judge(t *testing.T) {
	t.Helper()
	main := r.tap.Main()
	main.DrainBegin()
	main.DrainEnd()
	if dlq := "%DLQ%" + r.group; r.name == "dead-letter" {
		r.broker.keystrand(t, "group", "create", "dead-reader")
		for _, d := range sdk.ReadAll(t, r.broker.GRPCAddr, "dead-reader", dlq, messagesOf(t, r.broker, dlq)) {
			main.DeadLetter(history.Delivery{Topic: isolationTopic, Group: r.group, Key: d.Key, ID: d.ID, Queue: -1, Offset: -1, Attempt: 3}, 3)
		}
	}
	r.broker.keystrand(t, "group", "create", "read-back")
	r.tap.NoteReadBack(t, isolationTopic, sdk.ReadAll(t, r.broker.GRPCAddr, "read-back", isolationTopic, messagesOf(t, r.broker, isolationTopic)))
	report, err := r.tap.Judge(history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != history.Pass {
		t.Errorf("verdict %s: %v %v", report.Verdict, report.Violations, report.Unknown)
	}
}
