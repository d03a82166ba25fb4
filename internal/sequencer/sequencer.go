package sequencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/task"
)

// Sequencer is the broker's core. Open recovers it, Run drives it, Close ends it.
//
// The loop goroutine (Run) owns everything under "loop" below; nobody else touches it. Other goroutines reach the state
// through commands, and look names up in the catalog view, which the loop replaces as a whole at each change.
//
// Invariant: a record is applied to the state in the turn that appends it, in log order; a message is visible, and a
// finish opens its strand, only when the durable mark covers its record (store.Log.Visible at `sync: interval`).
type Sequencer struct {
	o      Options
	log    *store.Log
	codec  handleCodec
	logger *slog.Logger
	clock  clock.Clock
	tasks  *task.Group
	// holdUntil is the end of the restart hold, 0 after a clean stop. Set by Open, never changed.
	holdUntil clock.Mono
	view      atomic.Pointer[catalogView]

	durable atomic.Uint64 // newest mark told by the flusher
	failed  atomic.Pointer[error]
	wake    chan struct{} // capacity 1: something to look at
	stopped chan struct{} // closed when the loop has ended
	running atomic.Bool

	mu     sync.Mutex // guards queue, closed
	queue  []command
	closed bool

	closeOnce sync.Once
	closeErr  error

	dropRecord func(state.Record) bool // set by tests only: a broker that forgets must be caught

	loop loopState
}

// loopState belongs to the loop goroutine.
type loopState struct {
	catalog  *state.Catalog
	topics   map[state.TopicID]*topicState
	machines map[pair]*machine
	timers   machineHeap
	tokens   *tokens
	now      clock.Mono
	seen     store.Position // the durable mark already acted on

	turn    turn
	syncing fifo[syncing]
	waiting map[deliver.RequestID]*receiveCommand
	nextID  deliver.RequestID
	moves   deadLetterMoves
	stats   Stats
}

type pair struct {
	group state.GroupID
	topic state.TopicID
}

// tokens gives fencing tokens: epoch << 40 | counter. The epoch grows with each start, so tokens grow without being stored.
type tokens struct{ next uint64 }

const tokenCounterBits = 40

func newTokens(epoch uint32) *tokens { return &tokens{uint64(epoch) << tokenCounterBits} }

// Next implements deliver.Tokens.
func (t *tokens) Next() uint64 { t.next++; return t.next }

// command is one thing to do in the loop. run must not block; it may add records and answers to the turn.
type command interface{ run(s *Sequencer) }

// refuser is a command that must be answered when the loop cannot run it.
type refuser interface{ refuse(err error) }

// submit queues a command. Its error wraps keystrand.ErrRetryLater: nothing was done.
func (s *Sequencer) submit(c command) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return fmt.Errorf("broker: %w", keystrand.ErrClosed)
	case len(s.queue) >= maxQueuedCommands:
		s.mu.Unlock()
		return fmt.Errorf("broker: %d commands are waiting, the bound: %w", maxQueuedCommands, keystrand.ErrRetryLater)
	}
	s.queue = append(s.queue, c)
	first := len(s.queue) == 1
	s.mu.Unlock()
	if first {
		s.poke()
	}
	return nil
}

func (s *Sequencer) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Err tells why the broker takes nothing, or nil.
func (s *Sequencer) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// BrokerID is the id of the data directory, 16 hex digits.
func (s *Sequencer) BrokerID() string { return s.log.BrokerID() }

// Run drives the broker until ctx ends, then drains: commands already queued are run, receives are answered empty. It
// returns the error that made the log read-only, if that happened.
func (s *Sequencer) Run(ctx context.Context) (err error) {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("sequencer: Run called twice")
	}
	defer close(s.stopped)
	defer func() {
		if p := recover(); p != nil {
			err = s.broken(p)
		}
	}()
	s.tasks.Go("snapshot", s.snapshotLoop)
	s.tasks.Go("dead-letter-read", s.readDeadLetters)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.runTurn()
		if s.pending() {
			if ctx.Err() == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return s.drain()
		}
		timer.Reset(s.untilNextTimer())
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// broken ends the broker's work after a panic in the loop: the state is in doubt, the log is not, so nothing more is
// decided, every caller is told, and a restart folds the log anew.
func (s *Sequencer) broken(p any) error {
	err := fmt.Errorf("broker: panic in the loop: %v\n%s", p, debug.Stack())
	s.fail(err)
	s.mu.Lock()
	s.closed = true
	s.loop.turn.commands = append(s.loop.turn.commands, s.queue...)
	s.queue = nil
	s.mu.Unlock()
	s.refuseAll(s.Err())
	return err
}

// pending reports whether a turn has something to do at once.
func (s *Sequencer) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0 || s.loop.syncing.len() > 0 && s.loop.syncing.front().end <= store.Position(s.durable.Load())
}

func (s *Sequencer) untilNextTimer() time.Duration {
	if len(s.loop.timers) == 0 || s.Err() != nil {
		return time.Hour
	}
	return max(0, s.loop.timers[0].due-s.clock.Mono())
}

// drain ends the loop's life: nothing new comes in, queued commands run, what waits for a sync gets its answer, held
// receives are answered empty.
func (s *Sequencer) drain() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for {
		s.runTurn()
		s.answerHeldEmpty()
		s.mu.Lock()
		left := len(s.queue)
		s.mu.Unlock()
		if left > 0 {
			continue
		}
		if s.loop.syncing.len() == 0 || s.Err() != nil {
			break
		}
		<-s.wake // the flusher tells of each sync, and of failure
	}
	return s.Err()
}

// Close ends Run's goroutines, writes a last snapshot, and marks the log as cleanly closed. Run must have returned, or
// never have been called. Safe twice and from any goroutine.
func (s *Sequencer) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		if s.running.Load() {
			<-s.stopped
		}
		errs := []error{s.tasks.Stop()}
		if s.Err() == nil {
			errs = append(errs, s.lastSnapshot())
		}
		for _, t := range s.loop.topics {
			errs = append(errs, t.index.Close())
		}
		// A stop within the hold is no clean one: the next start must hold again.
		end := s.log.Close
		if s.clock.Mono() < s.holdUntil {
			end = s.log.Abandon
		}
		s.closeErr = errors.Join(append(errs, end())...)
	})
	return s.closeErr
}
