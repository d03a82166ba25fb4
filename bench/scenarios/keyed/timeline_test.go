package main

import (
	"math"
	"testing"
	"time"
)

func TestRatesCountFromTheFirstStartAndSteadyUntilAQueueIsDry(t *testing.T) {
	t.Parallel()
	x := newTimeline(6)
	second := int64(time.Second)
	x.start(10 * second)
	x.start(11 * second)
	for i, queue := range []int32{0, 1, 0, 1, 0, 0} { // queue 1 is dry after 14 s
		x.end((11+int64(i))*second, queue)
	}
	if got, want := x.rate(), 6.0/6; math.Abs(got-want) > 1e-9 {
		t.Errorf("rate %v, want %v", got, want)
	}
	if got, want := x.steadyRate(2), 4.0/4; math.Abs(got-want) > 1e-9 {
		t.Errorf("steady rate %v, want %v", got, want)
	}
	if got := x.steadyRate(3); got != 0 {
		t.Errorf("steady rate of three queues, one of them never seen: %v, want 0", got)
	}
	if x.peak != 2 {
		t.Errorf("peak %d, want 2", x.peak)
	}
}
