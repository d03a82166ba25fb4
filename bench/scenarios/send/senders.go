package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/bench/internal/workload"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// sendOne stores one message and returns when it is acknowledged: queue and offset, -1 when not told.
type sendOne func(ctx context.Context, m *keystrand.Message) (queue int32, offset int64, err error)

// ladder makes closed-loop senders. Each sender owns its keys, so sends of one key are one after the other.
type ladder struct {
	topic  string
	bodies *workload.Bodies
	keys   int
	seed   uint64
	tape   *tape.Tape
	// given numbers the producers of the history: each sender of each run is a new one.
	given uint32
}

// sent is what a run gave.
type sent struct {
	rate     float64
	p50, p99 time.Duration
	count    int
}

// run lets N senders send for d, after a warm-up; only what begins and ends in the measured time counts.
func (l *ladder) run(ctx context.Context, senders int, warm, d time.Duration, send func(sender int) sendOne) (sent, error) {
	var mu sync.Mutex // guards times
	var times []time.Duration
	keys := workload.Keys(l.keys, l.seed)
	begin := time.Now().Add(warm)
	end := begin.Add(d)
	group := task.NewGroup(ctx)
	for i := range senders {
		l.given++
		source := workload.Source{Topic: l.topic, Bodies: l.bodies, Keys: ownKeys(keys, i, senders), Number: l.given}
		one := send(i)
		group.Go("sender", func(ctx context.Context) error {
			var own []time.Duration
			for {
				from := time.Now()
				if !from.Before(end) || ctx.Err() != nil {
					break
				}
				took, err := l.send(ctx, i, &source, one)
				if err != nil {
					return err
				}
				if !from.Before(begin) && !from.Add(took).After(end) {
					own = append(own, took)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return sent{}, err
	}
	return sent{float64(len(times)) / d.Seconds(), spread.Quantile(times, 0.5), spread.Quantile(times, 0.99), len(times)}, ctx.Err()
}

// send makes one send, with its record before and after it. What recording costs is outside the send's own time.
func (l *ladder) send(ctx context.Context, worker int, source *workload.Source, one sendOne) (time.Duration, error) {
	m, record := source.Next()
	event := tape.SendEvent(record)
	l.tape.Invoke(worker, &event)
	from := time.Now()
	queue, offset, err := one(ctx, &m)
	took := time.Since(from)
	event.Queue, event.Offset = queue, offset
	l.tape.End(worker, &event, err)
	if err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	return took, nil
}

// ownKeys are the keys that sender i of n owns.
func ownKeys(all []string, i, n int) []string {
	own := make([]string, 0, len(all)/n+1)
	for k := i; k < len(all); k += n {
		own = append(own, all[k])
	}
	return own
}

// clients are producers of the official Go SDK, each with its own connection.
type clients struct{ producers []rmq.Producer }

func dial(endpoint, topic string, connections int) (*clients, error) {
	c := &clients{}
	for range connections {
		p, err := rmq.NewProducer(&rmq.Config{Endpoint: endpoint, Credentials: &credentials.SessionCredentials{}}, rmq.WithTopics(topic), rmq.WithMaxAttempts(1))
		if err != nil {
			return nil, fmt.Errorf("official client: %w", err)
		}
		if err := p.Start(); err != nil {
			return nil, fmt.Errorf("official client: start: %w", err)
		}
		c.producers = append(c.producers, p)
	}
	return c, nil
}

func (c *clients) close() error {
	for _, p := range c.producers {
		if err := p.GracefulStop(); err != nil {
			return fmt.Errorf("official client: stop: %w", err)
		}
	}
	return nil
}

// sender returns the send of one sender; senders share the connections evenly.
func (c *clients) sender(i int) sendOne {
	p := c.producers[i%len(c.producers)]
	return func(ctx context.Context, m *keystrand.Message) (int32, int64, error) {
		out := &rmq.Message{Topic: m.Topic, Body: m.Body}
		out.SetMessageGroup(m.MessageGroup)
		out.AddProperty(history.PropertyID, m.Properties[history.PropertyID])
		receipts, err := p.Send(ctx, out)
		if err != nil {
			return -1, -1, err
		}
		return -1, receipts[0].Offset, nil // the answer names no queue
	}
}
