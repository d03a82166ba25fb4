package sequencer

import (
	"context"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
)

// handleCommand does one thing with each of some receipt handles of one (group, topic).
type handleCommand struct {
	pair    pair
	handles []deliver.Handle
	act     func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions)
	errs    []error // one per handle; set in the loop
	done    chan error
}

func (c *handleCommand) run(s *Sequencer) {
	m := s.loop.machines[c.pair]
	for i, h := range c.handles {
		if c.errs[i] != nil {
			continue // its text was no handle
		}
		if m == nil {
			c.errs[i] = fmt.Errorf("the group has not received from this topic: %w", keystrand.ErrBadHandle)
			continue
		}
		verdict, actions := c.act(m, s.loop.now, h)
		s.perform(m, actions)
		if verdict == deliver.Stale {
			c.errs[i] = fmt.Errorf("entry %d: %w: its lease ended or the message went out again", h.Entry, keystrand.ErrLeaseExpired)
		}
	}
	s.loop.turn.synced = append(s.loop.turn.synced, c)
}

func (c *handleCommand) refuse(err error) { c.done <- err }
func (c *handleCommand) synced(err error) { c.done <- err }

// withHandles runs act in the loop for each handle and returns, when what it did is durable, one error per handle.
func (s *Sequencer) withHandles(ctx context.Context, what, group, topic string, texts []string,
	act func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions)) []error {
	c, err := s.prepareHandles(group, topic, texts, act)
	if err == nil {
		err = s.submit(c)
	}
	if err == nil {
		select {
		case err = <-c.done:
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", keystrand.ErrUnknown, ctx.Err())
		}
	}
	if err != nil {
		errs := make([]error, len(texts))
		for i := range errs {
			errs[i] = fmt.Errorf("%s for group %q of topic %q: %w", what, group, topic, err)
		}
		return errs
	}
	for i, err := range c.errs {
		if err != nil {
			c.errs[i] = fmt.Errorf("%s for group %q of topic %q: %w", what, group, topic, err)
		}
	}
	return c.errs
}

func (s *Sequencer) prepareHandles(group, topic string, texts []string,
	act func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions)) (*handleCommand, error) {
	v := s.view.Load()
	g, t := v.groups[group], v.topics[topic]
	if g == nil {
		return nil, keystrand.ErrGroupNotFound
	}
	if t == nil {
		return nil, keystrand.ErrTopicNotFound
	}
	c := &handleCommand{
		pair: pair{g.ID, t.ID}, handles: make([]deliver.Handle, len(texts)), act: act,
		errs: make([]error, len(texts)), done: make(chan error, 1),
	}
	for i, text := range texts {
		c.handles[i], c.errs[i] = s.codec.decode(g.ID, t.ID, text)
	}
	return c, nil
}

// Ack finishes deliveries. One error per handle: nil (also for the repeat of an ack that took effect),
// keystrand.ErrLeaseExpired, keystrand.ErrBadHandle; or for all of them why nothing, or perhaps nothing, was done.
func (s *Sequencer) Ack(ctx context.Context, group, topic string, handles ...string) []error {
	return s.withHandles(ctx, "ack", group, topic, handles,
		func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions) {
			verdict, actions := m.Ack(now, h)
			if verdict == deliver.Done {
				s.loop.stats.Acked++
			}
			return verdict, actions
		})
}

// Fail reports that an attempt failed: it is counted, the strand backs off, or the group's at-limit policy is applied.
func (s *Sequencer) Fail(ctx context.Context, group, topic, handle, reason string) error {
	return s.fails(ctx, group, topic, handle, reason, -1)
}

// FailAfter is Fail with the delay the client asked for instead of the group's back-off.
func (s *Sequencer) FailAfter(ctx context.Context, group, topic, handle, reason string, delay time.Duration) error {
	return s.fails(ctx, group, topic, handle, reason, min(max(delay, 0), maxLease))
}

func (s *Sequencer) fails(ctx context.Context, group, topic, handle, reason string, delay time.Duration) error {
	const maxReasonBytes = 512
	if len(reason) > maxReasonBytes {
		reason = reason[:maxReasonBytes]
	}
	return s.withHandles(ctx, "failure", group, topic, []string{handle},
		func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions) {
			verdict, actions := m.Fail(now, h, reason, delay)
			if verdict == deliver.Done {
				s.loop.stats.Failed++
			}
			return verdict, actions
		})[0]
}

// ChangeInvisible makes the lease end d from now. The handle stays the same: it names the grant, not its end.
func (s *Sequencer) ChangeInvisible(ctx context.Context, group, topic, handle string, d time.Duration) (string, error) {
	d = min(max(d, 0), maxLease)
	return handle, s.withHandles(ctx, "change of the invisible duration", group, topic, []string{handle},
		func(m *machine, now clock.Mono, h deliver.Handle) (deliver.Verdict, deliver.Actions) {
			return m.Change(now, h, d)
		})[0]
}

// ClientSeen notes a sign of life of a client; group "" means all its groups.
func (s *Sequencer) ClientSeen(clientID, group string) {
	s.clientCommand(&clientCommand{id: clientID, group: group, seen: true})
}

// ClientGone says that the client's last connection closed, or (after 0) that it said good-bye: its auto-renewed leases
// end after that unless it is seen again.
func (s *Sequencer) ClientGone(clientID string, after time.Duration) {
	s.clientCommand(&clientCommand{id: clientID, after: after})
}

func (s *Sequencer) clientCommand(c *clientCommand) {
	if err := s.submit(c); err != nil {
		s.logger.Debug("a sign of a client was dropped; its leases end by themselves", "error", err)
	}
}

type clientCommand struct {
	id, group string
	seen      bool
	after     time.Duration
}

func (c *clientCommand) run(s *Sequencer) {
	only := state.GroupID(0)
	if c.group != "" {
		g := s.view.Load().groups[c.group]
		if g == nil {
			return
		}
		only = g.ID
	}
	for _, m := range s.loop.machines {
		switch {
		case only != 0 && m.group != only:
		case c.seen:
			m.ClientSeen(s.loop.now, c.id)
		default:
			s.perform(m, m.ClientGone(s.loop.now, c.id, c.after))
		}
	}
}
