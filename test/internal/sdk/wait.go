package sdk

import (
	"context"
	"testing"
	"time"
)

// pollEvery is the time between two looks of Eventually.
const pollEvery = 20 * time.Millisecond

// Eventually polls until cond holds, and fails the test when it does not within limit.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	end := time.After(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", limit, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %s", what)
		}
	}
}

// Pause waits for d or for ctx, whichever ends first.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
