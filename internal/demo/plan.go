package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

const (
	// plannedPatience bounds the wait for one fault to strike; a fault that did not strike fails the run.
	plannedPatience = 30 * time.Second
	// runPatience bounds the wait for the run to come as far as a fault wants it, and for the end; a busy machine is slow.
	runPatience    = 150 * time.Second
	pollEvery      = 20 * time.Millisecond
	duplicateSends = 24
)

// plan makes the faults strike, the heavy ones one after the other. A fault that could not be proved is told and leaves
// its mark unreached, which fails the run; the plan goes on.
func (r *run) plan(ctx context.Context) error {
	if r.options.NoFaults {
		close(r.writers.gate)
		return nil
	}
	tasks := task.NewGroup(ctx)
	tasks.Go("demo.early", func(ctx context.Context) error { return r.sendEarly(ctx) })
	tasks.Go("demo.duplicates", func(ctx context.Context) error { return r.sendDuplicates(ctx) })
	tasks.Go("demo.losses", func(ctx context.Context) error { return r.loseSends(ctx) })
	tasks.Go("demo.kills", func(ctx context.Context) error {
		for _, step := range []func(context.Context) error{r.stopConsumer, r.killConsumer, r.killBroker} {
			if err := r.tell(ctx, step(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	return tasks.Wait()
}

// tell keeps an error of one fault for the end; only the end of the run itself ends the plan.
func (r *run) tell(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.problem(err)
	}
	return nil
}

// await polls until the condition holds.
func await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	return awaitFor(ctx, plannedPatience, what, holds)
}

func awaitFor(ctx context.Context, patience time.Duration, what string, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ok, err := holds(ctx)
		if ok {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s: %w", patience, what, errors.Join(err, context.Cause(ctx)))
		}
	}
}

func (r *run) awaitSent(ctx context.Context, part float64) error {
	want := int(part * float64(r.events()))
	return awaitFor(ctx, runPatience, fmt.Sprintf("%d sent events", want), func(context.Context) (bool, error) { return r.live().Sent >= want, nil })
}

// sendEarly sends version 3 of some orders before their version 2 exists, as a second path around the outbox would.
func (r *run) sendEarly(ctx context.Context) error {
	for i, order := range r.cast.early {
		if err := r.tell(ctx, r.awaitSent(ctx, 0.05*float64(i))); err != nil {
			return err
		}
		if err := r.writers.advance(ctx, order); err != nil {
			return err
		}
		m := eventOf(order, earlyVersion, false).Message(topicName)
		m.Properties[history.PropertyID] = history.ID{Producer: rogueProducer, Counter: 1}.String()
		if err := r.tell(ctx, r.rogueSend(ctx, m)); err != nil {
			return err
		}
		for range len(steps) - 1 {
			if err := r.writers.advance(ctx, order); err != nil {
				return err
			}
		}
	}
	return nil
}

// rogueSend sends a message of the parent's own, again until it is stored.
func (r *run) rogueSend(ctx context.Context, m keystrand.Message) error {
	return await(ctx, "a send of the parent", func(ctx context.Context) (bool, error) {
		receipts, err := r.rogue.Send(ctx, m)
		if err == nil && len(receipts) == 1 {
			r.noteRogue(m, receipts[0])
		}
		return err == nil, err
	})
}

// sendDuplicates sends events again that the relay has sent, spread over the run.
func (r *run) sendDuplicates(ctx context.Context) error {
	for i := range duplicateSends {
		if err := r.tell(ctx, r.awaitSent(ctx, 0.9*float64(i+1)/duplicateSends)); err != nil {
			return err
		}
		var order string
		var version int64
		err := await(ctx, "a sent event to duplicate", func(ctx context.Context) (bool, error) {
			err := r.db.QueryRowContext(ctx, `SELECT aggregate, version FROM keystrand_outbox
				WHERE sent_ns IS NOT NULL AND aggregate <> ? ORDER BY random() LIMIT 1`, r.cast.poison).Scan(&order, &version)
			return err == nil, err
		})
		if err == nil {
			err = r.rogueSend(ctx, eventOf(order, version, false).Message(topicName))
		}
		if err := r.tell(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// loseSends has the relay's proxy lose the request of one send and the answer of another.
func (r *run) loseSends(ctx context.Context) error {
	for _, step := range []struct {
		loss loss
		what string
		at   float64
	}{{loseRequest, faultRequestLost, 0.02}, {loseAnswer, faultAnswerLost, 0.05}} {
		if err := r.tell(ctx, r.awaitSent(ctx, step.at)); err != nil {
			return err
		}
		if err := r.tell(ctx, r.loseOne(ctx, step.loss, step.what)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) loseOne(ctx context.Context, l loss, what string) error {
	r.worker.FaultBegin(what)
	defer r.worker.FaultEnd(what)
	r.mu.Lock()
	r.lossAt[what] = history.Now()
	r.mu.Unlock()
	r.relayProxy.arm(l)
	timer := time.NewTimer(plannedPatience)
	defer timer.Stop()
	select {
	case <-r.relayProxy.lost:
		r.mu.Lock()
		r.lostBy[what] = true
		r.mu.Unlock()
		sent := r.live().Sent
		// What the loss did to the relay is proved from the history; here it is over when the relay sends again.
		return await(ctx, "the relay to send again", func(context.Context) (bool, error) { return r.live().Sent > sent, nil })
	case <-timer.C:
		return fmt.Errorf("%s: no send came by in %v", what, plannedPatience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// held waits until a consumer stands at the hold.
func (r *run) held(ctx context.Context, h hold) (heldBy, error) {
	timer := time.NewTimer(plannedPatience)
	defer timer.Stop()
	for {
		select {
		case got := <-r.holds:
			if got.hold == h {
				return got, nil
			}
			_ = got.process.say("go") // not waited for any more; a dead process needs no word
		case <-timer.C:
			return heldBy{}, fmt.Errorf("no consumer met %s version %d %s in %v", h.Order, h.Version, h.At, plannedPatience)
		case <-ctx.Done():
			return heldBy{}, ctx.Err()
		}
	}
}

func (r *run) writeWhole(ctx context.Context, order string) error {
	for range steps {
		if err := r.writers.advance(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

// appliedBy finds the row of an applied event.
func (r *run) appliedBy(ctx context.Context, order string, version int64) (process int, token uint64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT process, token FROM order_log WHERE order_id = ? AND version = ?`, order, version).Scan(&process, &token)
	return process, token, err
}

// stopConsumer stops a consumer that has received an event and not begun its transaction, until the other one has applied
// the event under a newer token; then it goes on, and its effect must be refused.
func (r *run) stopConsumer(ctx context.Context) error {
	if err := r.writeWhole(ctx, r.cast.stopped); err != nil {
		return err
	}
	h := hold{holdBefore, r.cast.stopped, stoppedVersion}
	by, err := r.held(ctx, h)
	if err != nil {
		return err
	}
	r.worker.FaultBegin(faultConsumerStopped)
	defer r.worker.FaultEnd(faultConsumerStopped)
	if err := by.process.stop(); err != nil {
		return err
	}
	r.progress.say("%s is stopped; it holds %s version %d under a lease of %v", by.process.name, h.Order, h.Version, leaseLength)
	var token uint64
	takenOver := await(ctx, "the other consumer to take over "+h.Order, func(ctx context.Context) (bool, error) {
		process, t, err := r.appliedBy(ctx, h.Order, h.Version)
		token = t
		return err == nil && process != by.process.config.Process, err
	})
	if err := errors.Join(takenOver, by.process.resume(), by.process.say("go")); err != nil {
		return err
	}
	outcome, err := r.outcomeOf(ctx, h)
	if err != nil {
		return err
	}
	r.progress.say("%s goes on; its effect: %s", by.process.name, outcome)
	if outcome != "superseded" || token <= by.token {
		return fmt.Errorf("%s: the effect of %s under token %d was %s, although token %d was there", faultConsumerStopped, by.process.name, by.token, outcome, token)
	}
	r.strike(faultConsumerStopped)
	return nil
}

// outcomeOf waits for the word of the held consumer, once it went on.
func (r *run) outcomeOf(ctx context.Context, h hold) (string, error) {
	timer := time.NewTimer(plannedPatience)
	defer timer.Stop()
	for {
		select {
		case n := <-r.outcomes:
			if n.Hold == h {
				return n.Text, nil
			}
		case <-timer.C:
			return "", fmt.Errorf("no outcome of %s version %d in %v", h.Order, h.Version, plannedPatience)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// killConsumer kills a consumer whose transaction has made its changes and not committed.
func (r *run) killConsumer(ctx context.Context) error {
	if err := r.writeWhole(ctx, r.cast.killed); err != nil {
		return err
	}
	h := hold{holdInside, r.cast.killed, killedVersion}
	by, err := r.held(ctx, h)
	if err != nil {
		return err
	}
	r.worker.FaultBegin(faultConsumerKilled)
	defer r.worker.FaultEnd(faultConsumerKilled)
	r.worker.Kill(uint32(by.process.config.Process), "consumer")
	if err := by.process.kill(); err != nil {
		return err
	}
	r.kills.Add(1)
	r.progress.say("%s is killed inside its transaction for %s version %d", by.process.name, h.Order, h.Version)
	if _, _, err := r.appliedBy(ctx, h.Order, h.Version); err == nil {
		return fmt.Errorf("%s: what it had not committed is in the database", faultConsumerKilled)
	}
	if err := r.startConsumer(ctx); err != nil {
		return err
	}
	if err := await(ctx, "another consumer to apply "+h.Order, func(ctx context.Context) (bool, error) {
		process, token, err := r.appliedBy(ctx, h.Order, h.Version)
		return err == nil && process != by.process.config.Process && token > by.token, err
	}); err != nil {
		return err
	}
	r.strike(faultConsumerKilled)
	return nil
}

// killBroker kills the broker while events are being sent and starts it again on the same data.
func (r *run) killBroker(ctx context.Context) error {
	close(r.writers.gate)
	if err := r.awaitSent(ctx, gateAt+0.05); err != nil {
		return err
	}
	r.worker.FaultBegin(faultBrokerKilled)
	defer r.worker.FaultEnd(faultBrokerKilled)
	r.worker.Kill(uint32(r.broker.config.Process), "broker")
	before := r.broker.told()
	if err := r.broker.kill(); err != nil {
		return err
	}
	r.kills.Add(1)
	r.setTarget("")
	r.progress.say("%s is killed", r.broker.name)
	if err := r.startBroker(ctx); err != nil {
		return err
	}
	if after := r.broker.told(); after.BrokerID != before.BrokerID {
		return fmt.Errorf("%s: the new process is broker %s, not %s: it has other data", faultBrokerKilled, after.BrokerID, before.BrokerID)
	}
	sent := r.live().Sent
	r.progress.say("%s serves the same data", r.broker.name)
	if err := await(ctx, "the relay to send again", func(context.Context) (bool, error) { return r.live().Sent > sent, nil }); err != nil {
		return err
	}
	r.strike(faultBrokerKilled)
	return nil
}
