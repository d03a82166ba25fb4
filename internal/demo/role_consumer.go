package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/consumer"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// applier is what the handler of a consumer needs.
type applier struct {
	*child
	together together
	worker   *history.Worker

	// gate is held shared around each transaction and exclusively by a handler that waits to be stopped: a process that
	// is stopped inside a transaction would keep SQLite's one writer's place for as long.
	gate sync.RWMutex

	mu    sync.Mutex // guards below
	count stats
	met   map[hold]bool
}

// consumer applies events.
func (c *child) consumer(ctx context.Context) (err error) {
	recorder, err := newRecorder(c.Dir, c.Role, c.Process)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	db, err := openDatabase(filepath.Join(c.Dir, "demo.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	engine, err := dial(ctx, c.Endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	source, err := history.Watch(engine, recorder, 1).Consumer(ctx, keystrand.ConsumerOptions{
		Group: groupName, Topic: topicName, Lease: leaseLength, Wait: 5 * time.Second, ClientID: fmt.Sprintf("demo-consumer-%d", c.Process),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	a := &applier{child: c, worker: recorder.Worker(0), met: map[hold]bool{}}
	a.together.db = db
	if a.together.inbox, err = inbox.New(db, sqlite.Dialect, inbox.Options{Name: inboxName, Transitions: transitions()}); err != nil {
		return err
	}
	lanes, err := consumer.New(source, a.handle, consumer.Options{
		Workers: c.Workers, Receivers: 2, DrainTimeout: 5 * time.Second, HandlerTimeout: time.Minute,
		Events: consumer.Events{Fault: func(err error) { c.logger.Warn("engine did not answer", "error", err) }},
	})
	if err != nil {
		return err
	}
	if err := c.tell(note{Kind: "ready"}); err != nil {
		return err
	}
	tasks := task.NewGroup(ctx)
	tasks.Go("demo.stats", func(ctx context.Context) error { return c.report(ctx, a.counts) })
	tasks.Go("demo.consumer", lanes.Run)
	return tasks.Wait()
}

func (a *applier) counts() stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// handle applies one delivery. What becomes of it goes to the history as the end of the handler.
func (a *applier) handle(ctx context.Context, d keystrand.Delivery) error {
	told := history.FromDelivery(groupName, d, 0)
	a.worker.Start(told)
	if a.HandlerNs > 0 {
		timer := time.NewTimer(time.Duration(a.HandlerNs))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			a.worker.EndAs(told, "interrupted", context.Cause(ctx).Error())
			return context.Cause(ctx)
		}
	}
	held, stopped := a.holdOf(holdBefore, d, d.MessageGroup, int64(told.Version))
	if stopped {
		if err := a.waitToBeStopped(ctx, held, d); err != nil {
			return err
		}
		// The lease is lost by now and ctx with it. Going on all the same is the point: the token must be what refuses it.
		ctx = context.WithoutCancel(ctx)
	}
	a.gate.RLock()
	result, err := a.together.apply(ctx, d, func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error { return a.apply(ctx, tx, d, e) })
	a.gate.RUnlock()
	outcome, text := a.tally(result, err, errors.Is(context.Cause(ctx), keystrand.ErrSuperseded))
	a.worker.EndAs(told, outcome, text)
	if stopped {
		return errors.Join(err, a.tell(note{Kind: "outcome", Hold: held, Text: outcome}))
	}
	return err
}

// tally counts an outcome and names it for the history. lost: the consumer had ended the handler's context, since the
// broker said that the lease is gone; nothing was tried then, so nothing was refused.
func (a *applier) tally(result inbox.Result, err error, lost bool) (outcome, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	outcome = string(result.Outcome)
	switch {
	case err != nil && errors.Is(err, keystrand.ErrSuperseded):
		outcome = string(inbox.Superseded)
		a.count.Fenced++
	case err != nil && lost:
		outcome = "lease lost"
	case err != nil:
		outcome = "failed"
		a.count.Failed++
	case result.Outcome == inbox.Parked:
		a.count.Gaps++
	case result.Outcome == inbox.Duplicate, result.Outcome == inbox.Stale:
		a.count.Duplicates++
	}
	a.count.Applied += len(result.Applied)
	if err != nil {
		text = err.Error()
	}
	return outcome, text
}

// apply is the user's change: the view of the order, and a line in its log, under the delivery's token.
func (a *applier) apply(ctx context.Context, tx *sql.Tx, d keystrand.Delivery, e keystrand.Event) error {
	var body struct {
		Amount int64 `json:"amount"`
	}
	if err := json.Unmarshal(e.Payload, &body); err != nil {
		return fmt.Errorf("order %s version %d: payload: %w: %w", e.Aggregate, e.Version, err, keystrand.ErrRejected)
	}
	if body.Amount < 0 {
		return fmt.Errorf("order %s version %d: an amount of %d cannot be paid: %w", e.Aggregate, e.Version, body.Amount, keystrand.ErrRejected)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO order_view (id, status, version) VALUES (?1, ?2, ?3)
		ON CONFLICT (id) DO UPDATE SET status = ?2, version = ?3`, e.Aggregate, stateAfter(e.Version), e.Version); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO order_log (order_id, version, event_id, event, amount, broker, token, process) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Aggregate, e.Version, e.EventID, e.Type, body.Amount, d.Token.Broker, int64(d.Token.Value), a.Process); err != nil {
		return err
	}
	if held, inside := a.holdOf(holdInside, d, e.Aggregate, e.Version); inside {
		return a.wait(ctx, held, d)
	}
	return nil
}

func stateAfter(version int64) string {
	if version < 1 || int(version) > len(steps) {
		return ""
	}
	return steps[version-1].state
}

// holdOf says whether this first attempt of an event stands at a hold, and marks that as met.
func (a *applier) holdOf(at string, d keystrand.Delivery, order string, version int64) (hold, bool) {
	h := hold{at, order, version}
	for _, wanted := range a.Holds {
		if wanted != h || d.Attempt != 1 {
			continue
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.met[h] {
			return h, false
		}
		a.met[h] = true
		return h, true
	}
	return h, false
}

// waitToBeStopped waits outside of any transaction of this process.
func (a *applier) waitToBeStopped(ctx context.Context, h hold, d keystrand.Delivery) error {
	a.gate.Lock()
	defer a.gate.Unlock()
	return a.wait(context.WithoutCancel(ctx), h, d)
}

// wait tells the parent where this stands, and waits for its word.
func (a *applier) wait(ctx context.Context, h hold, d keystrand.Delivery) error {
	if err := a.tell(note{Kind: "hold", Hold: h, Token: d.Token.Value}); err != nil {
		return err
	}
	timer := time.NewTimer(plannedPatience)
	defer timer.Stop()
	select {
	case <-a.words:
		return nil
	case <-timer.C:
		return fmt.Errorf("no word of the parent in %v: %w", plannedPatience, keystrand.ErrRetryLater)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
