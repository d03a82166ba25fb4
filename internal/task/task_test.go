package task

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestNothingOfAGroupRunsAfterStop(t *testing.T) {
	t.Parallel()
	for range 50 {
		g := NewGroup(context.Background())
		var running atomic.Int64
		for range 20 {
			g.Go("worker", func(ctx context.Context) error {
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				return ctx.Err()
			})
		}
		var stops sync.WaitGroup
		for range 4 { // Stop is safe from many goroutines at once
			stops.Go(func() {
				if err := g.Stop(); err != nil {
					t.Errorf("a cancelled worker is no error: %v", err)
				}
				if n := running.Load(); n != 0 {
					t.Errorf("%d workers run after Stop returned", n)
				}
			})
		}
		stops.Wait()
	}
}

func TestTheFirstErrorEndsTheOthersAndIsReported(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	g := NewGroup(context.Background())
	g.Go("patient", func(ctx context.Context) error { <-ctx.Done(); return nil })
	g.Go("failing", func(context.Context) error { return broken })
	err := g.Wait()
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "failing") {
		t.Fatalf("got %v, want the error with the task's name", err)
	}
	if !errors.Is(context.Cause(g.Context()), broken) {
		t.Fatalf("cause %v, want the error", context.Cause(g.Context()))
	}
}

func TestAPanicIsTheGroupsErrorWithItsStack(t *testing.T) {
	t.Parallel()
	g := NewGroup(context.Background())
	g.Go("panicking", func(context.Context) error { panic("oh") })
	if err := g.Wait(); err == nil || !strings.Contains(err.Error(), "oh") || !strings.Contains(err.Error(), "task_test.go") {
		t.Fatalf("got %v", err)
	}
}

func TestTheParentEndsTheGroup(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(context.Background())
	g := NewGroup(parent)
	g.Go("worker", func(ctx context.Context) error { <-ctx.Done(); return nil })
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
