package main

import (
	"slices"
	"sync"
	"time"
)

// timeline notes when handlers began and ended, and in which queue.
type timeline struct {
	mu     sync.Mutex // guards those below
	first  int64      // start of the first handler; history's clock
	ends   []handlerEnd
	active int
	peak   int // handlers in parallel
}

type handlerEnd struct {
	at    int64
	queue int32
}

func newTimeline(messages int) *timeline { return &timeline{ends: make([]handlerEnd, 0, messages)} }

func (t *timeline) start(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == 0 || at < t.first {
		t.first = at
	}
	t.active++
	t.peak = max(t.peak, t.active)
}

func (t *timeline) end(at int64, queue int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.ends = append(t.ends, handlerEnd{at, queue})
}

// rate is messages per second from the first handler's start to the last one's end.
func (t *timeline) rate() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ends) == 0 {
		return 0
	}
	last := slices.MaxFunc(t.ends, func(a, b handlerEnd) int { return int(a.at - b.at) }).at
	return float64(len(t.ends)) / time.Duration(last-t.first).Seconds()
}

// steadyRate is the rate while every queue still had work: up to the last message of the queue that ran dry first. Keys
// spread unevenly over queues, so a queue-ordered run ends with fewer queues at work; counting that end would flatter
// whatever the run is compared with.
func (t *timeline) steadyRate(queues int) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := make(map[int32]int64, queues)
	for _, e := range t.ends {
		last[e.queue] = max(last[e.queue], e.at)
	}
	if len(last) < queues {
		return 0
	}
	dry := int64(0)
	for _, at := range last {
		if dry == 0 || at < dry {
			dry = at
		}
	}
	n := 0
	for _, e := range t.ends {
		if e.at <= dry {
			n++
		}
	}
	return float64(n) / time.Duration(dry-t.first).Seconds()
}
