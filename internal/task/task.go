// Package task owns goroutines: each is started in a Group, has a name that profiles show, and is waited for.
package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"sync"
)

// Group is a set of goroutines with one owner. The first error cancels the others.
//
// Invariant: after Wait or Stop returned, nothing started by Go runs.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup

	mu   sync.Mutex // guards errs
	errs []error
}

// NewGroup makes a group whose goroutines end with parent.
func NewGroup(parent context.Context) *Group {
	ctx, cancel := context.WithCancelCause(parent)
	return &Group{ctx: ctx, cancel: cancel}
}

// Context ends when the group stops, with the first error as its cause.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f in a goroutine named name. A panic in f becomes the group's error, with its stack. Must not be called after
// Wait began, unless from a goroutine of the group.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.wait.Add(1)
	go pprof.Do(g.ctx, pprof.Labels("task", name), func(ctx context.Context) {
		defer g.wait.Done()
		defer func() {
			if p := recover(); p != nil {
				g.fail(fmt.Errorf("task %s: panic: %v\n%s", name, p, debug.Stack()))
			}
		}()
		if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
			g.fail(fmt.Errorf("task %s: %w", name, err))
		}
	})
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	g.errs = append(g.errs, err)
	g.mu.Unlock()
	g.cancel(err)
}

// Wait blocks until all goroutines ended and returns their errors joined.
func (g *Group) Wait() error {
	g.wait.Wait()
	g.cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}

// Stop cancels the group's context and waits.
func (g *Group) Stop() error {
	g.cancel(nil)
	return g.Wait()
}
