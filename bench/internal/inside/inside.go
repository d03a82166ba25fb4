// Package inside runs a broker in this process, for benchmarks of the embedded engine and for reading back what a run stored.
package inside

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/broker"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// Broker is a running broker.
type Broker struct {
	*broker.Broker
	stop  context.CancelFunc
	tasks *task.Group
}

// Open runs a broker on dir. interval 0 is `sync: always`.
func Open(ctx context.Context, dir string, interval time.Duration) (*Broker, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, err := broker.Open(broker.Options{DataDir: dir, SyncInterval: interval, Logger: logger})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	x := &Broker{Broker: b, stop: stop, tasks: task.NewGroup(running)}
	ready := make(chan struct{})
	x.tasks.Go("broker", func(ctx context.Context) error { return b.Run(ctx, func() { close(ready) }) })
	select {
	case <-ready:
		return x, nil
	case <-x.tasks.Context().Done():
		return nil, errors.Join(x.Close(), context.Cause(x.tasks.Context()))
	}
}

// Close drains and closes.
func (x *Broker) Close() error {
	x.stop()
	return errors.Join(x.tasks.Wait(), x.Broker.Close())
}

// Drain lets a new ordered group receive and ack everything on the topic, and records it: what was acknowledged must be
// there, in order. Returns the number of messages.
func (x *Broker) Drain(ctx context.Context, topic string, to *tape.Tape) (int, error) {
	const group, worker = "read-back", 9000
	if err := x.CreateGroup(ctx, keystrand.GroupSpec{Name: group, Ordered: true}); err != nil {
		return 0, err
	}
	n := 0
	for {
		since := history.Now()
		got, err := x.Receive(ctx, broker.Receive{Group: group, Topic: topic, Max: 32, Lease: time.Minute, Wait: 200 * time.Millisecond, ClientID: group})
		if err != nil || len(got) == 0 {
			return n, err
		}
		handles, acks := make([]string, len(got)), make([]history.Event, len(got))
		for i, d := range got {
			record := history.FromDelivery(group, d, since)
			e := tape.RecvEvent(&record)
			to.Put(worker, &e)
			acks[i] = tape.DeliveryEvent(history.AckInv, &record)
			handles[i] = d.ReceiptHandle
		}
		for i := range acks {
			to.Invoke(worker, &acks[i])
		}
		errs := x.Ack(ctx, group, topic, handles...)
		for i := range acks {
			to.End(worker, &acks[i], errs[i])
		}
		if err := errors.Join(errs...); err != nil {
			return n, err
		}
		n += len(got)
	}
}
