package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/keystrand/keystrand/internal/history"
)

// setUp makes database, proxies and child processes.
func (r *run) setUp(ctx context.Context) (err error) {
	if r.recorder, err = newRecorder(r.dir, "parent", parentProcess); err != nil {
		return err
	}
	r.worker = r.recorder.Worker(0)
	if r.db, err = openDatabase(filepath.Join(r.dir, "demo.db")); err != nil {
		return err
	}
	if err = createTables(ctx, r.db); err != nil {
		return err
	}
	if r.writers, err = newWriters(r.db, r.cast.poison); err != nil {
		return err
	}
	r.writers.gateAt = int64(gateAt * float64(r.events()))
	if r.relayProxy, err = newProxy(r.tasks); err != nil {
		return err
	}
	if r.clientProxy, err = newProxy(r.tasks); err != nil {
		return err
	}
	r.announce()
	if err = r.startBroker(ctx); err != nil {
		return err
	}
	if r.relay, err = r.start(ctx, childConfig{Role: "relay", Process: relayProcess, Endpoint: r.relayProxy.address()}); err != nil {
		return err
	}
	for range 2 {
		if err = r.startConsumer(ctx); err != nil {
			return err
		}
	}
	if r.engine, err = dial(ctx, r.clientProxy.address()); err != nil {
		return err
	}
	r.rogue, err = history.Watch(r.engine, r.recorder, 10).Producer(ctx)
	return err
}

// announce tells the history what the run wants to see.
func (r *run) announce() {
	r.worker.Subscribe(groupName, topicName, true, "earliest")
	if r.options.NoFaults {
		return
	}
	for _, f := range faultList {
		r.worker.WantMark(f.name)
	}
}

func (r *run) start(ctx context.Context, config childConfig) (*process, error) {
	config.Dir, config.Queues, config.Workers, config.HandlerNs = r.dir, r.options.Queues, r.options.Workers, int64(r.options.Handler)
	config.Break = r.options.Break
	r.worker.Boot(uint32(config.Process), config.Role)
	return start(ctx, r.tasks, config, r.noted)
}

// next is the number of the next process of a role.
func (r *run) next(role string, first int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := first + r.started[role]
	r.started[role]++
	return n
}

func (r *run) startBroker(ctx context.Context) error {
	p, err := r.start(ctx, childConfig{Role: "broker", Process: r.next("broker", brokerProcess)})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.broker = p
	r.mu.Unlock()
	r.setTarget(p.told().GRPC)
	return nil
}

func (r *run) setTarget(address string) {
	r.relayProxy.setTarget(address)
	r.clientProxy.setTarget(address)
}

func (r *run) startConsumer(ctx context.Context) error {
	config := childConfig{Role: "consumer", Process: r.next("consumer", consumerProcess), Endpoint: r.clientProxy.address()}
	if !r.options.NoFaults {
		config.Holds = []hold{{holdBefore, r.cast.stopped, stoppedVersion}, {holdInside, r.cast.killed, killedVersion}}
	}
	p, err := r.start(ctx, config)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.consumers = append(r.consumers, p)
	r.mu.Unlock()
	return nil
}

// drain waits until nothing moves any more: everything is sent, and what is not finished stands parked.
func (r *run) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		why, err := r.moving(ctx)
		if why == "" && err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("not drained after %v: %s: %w", runPatience, why, errors.Join(err, ctx.Err()))
		}
	}
}

// moving says what is not at its end yet.
func (r *run) moving(ctx context.Context) (string, error) {
	unsent, err := count(ctx, r.db, `SELECT count(*) FROM keystrand_outbox WHERE sent_ns IS NULL`)
	if err != nil || unsent > 0 {
		return fmt.Sprintf("%d events are not sent", unsent), err
	}
	client, err := r.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	standing, err := client.Lag(ctx, groupName)
	if err != nil {
		return "the broker's answer", err
	}
	parked, waiting := int64(0), int64(0)
	if r.cast.poison != "" {
		parked, waiting = 1, int64(len(steps)-poisonVersion+1)
	}
	for _, s := range standing {
		if s.Topic == topicName && s.Cursor == s.Messages && s.Parked == parked && s.Unfinished == waiting {
			return "", nil
		}
	}
	return fmt.Sprintf("the consumer group stands at %+v", standing), nil
}

// clearStage ends the children that are still there.
func (r *run) clearStage() error {
	var errs []error
	if r.rogue != nil {
		errs = append(errs, r.rogue.Close(), r.engine.Close())
	}
	for _, p := range append(r.consumers, r.relay, r.broker) {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
			continue
		default:
		}
		errs = append(errs, p.finish())
	}
	return errors.Join(errs...)
}
