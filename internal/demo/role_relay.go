package demo

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/outbox"
)

// relay sends the outbox.
func (c *child) relay(ctx context.Context) (err error) {
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
	producer, err := history.Watch(engine, recorder, 0).Producer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	var sent atomic.Int64
	relay, err := outbox.NewRelay(db, sqlite.Dialect, producer, outbox.RelayOptions{
		Poll: 20 * time.Millisecond, SendTimeout: 5 * time.Second, Batch: 32, Events: outbox.RelayEvents{
			Sent: func(keystrand.Event, keystrand.Receipt) { sent.Add(1) },
			Held: func(e keystrand.Event, err error) {
				c.logger.Warn("event held", "aggregate", e.Aggregate, "version", e.Version, "error", err)
			},
			Fault: func(err error) { c.logger.Warn("database did not answer", "error", err) },
		},
	})
	if err != nil {
		return err
	}
	if err := c.tell(note{Kind: "ready"}); err != nil {
		return err
	}
	tasks := task.NewGroup(ctx)
	tasks.Go("demo.stats", func(ctx context.Context) error {
		return c.report(ctx, func() stats { return stats{Sent: int(sent.Load())} })
	})
	tasks.Go("demo.relay", relay.Run)
	return tasks.Wait()
}

// report tells the counts four times a second, and once more at the end.
func (c *child) report(ctx context.Context, of func() stats) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return c.tell(note{Kind: "stats", Stats: of()})
		}
		if err := c.tell(note{Kind: "stats", Stats: of()}); err != nil {
			return err
		}
	}
}
