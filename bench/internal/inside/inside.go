// Package inside opens the embedded engine for benchmarks, and reads back what a run stored.
package inside

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/engine/embedded"
)

// Open runs a broker on dir in this process. interval 0 is `sync: always`. Its warnings go to standard error.
func Open(ctx context.Context, dir string, interval time.Duration) (*embedded.Engine, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return embedded.Open(ctx, embedded.Options{DataDir: dir, SyncInterval: interval, Logger: logger})
}

// Drain lets a new ordered group receive and ack everything on the topic, and records it. Returns the number of messages.
func Drain(ctx context.Context, e keystrand.Engine, topic string, to *tape.Tape) (n int, err error) {
	const group = "read-back"
	if err := e.Admin().CreateGroup(ctx, keystrand.GroupSpec{Name: group, Ordered: true}); err != nil {
		return 0, err
	}
	c, err := e.Consumer(ctx, keystrand.ConsumerOptions{Group: group, Topic: topic, Wait: tape.DrainWait})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return to.Watch(c, group).Drain(ctx)
}
