package sequencer

import (
	"context"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// Bounds of a receive.
const (
	maxWait  = 5 * time.Minute
	maxLease = 12 * time.Hour
)

// receiveCommand waits for messages. It is answered once: with grants, empty, or with an error.
type receiveCommand struct {
	Receive
	id      deliver.RequestID // given by the loop
	pair    pair
	machine *machine
	done    chan received // capacity 1
}

type received struct {
	grants []deliver.Grant
	m      *machine
	err    error
}

// Receive holds until messages of as many different strands are there, at most r.Max, or r.Wait is over (empty, nil).
func (s *Sequencer) Receive(ctx context.Context, r Receive) ([]keystrand.Delivery, error) {
	deadline := s.clock.Mono() + r.Wait
	for {
		deliveries, err := s.receiveOnce(ctx, r)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
		// Empty, or only messages whose tag has the hash but not the text of the filter: those are finished, ask again.
		if r.Wait = deadline - s.clock.Mono(); r.Wait <= 0 {
			return nil, nil
		}
	}
}

func (s *Sequencer) receiveOnce(ctx context.Context, r Receive) ([]keystrand.Delivery, error) {
	c, err := s.prepareReceive(r)
	if err != nil {
		return nil, err
	}
	if err := s.submit(c); err != nil {
		return nil, err
	}
	select {
	case got := <-c.done:
		if got.err != nil {
			return nil, fmt.Errorf("receive for group %q of topic %q: %w", r.Group, r.Topic, got.err)
		}
		return s.deliveries(ctx, c, got)
	case <-ctx.Done():
		s.abandon(c)
		return nil, ctx.Err()
	}
}

func (s *Sequencer) prepareReceive(r Receive) (*receiveCommand, error) {
	v := s.view.Load()
	t, ok := v.topics[r.Topic]
	if !ok {
		return nil, fmt.Errorf("receive from topic %q: %w; create it first (keystrand topic create)", r.Topic, keystrand.ErrTopicNotFound)
	}
	g, ok := v.groups[r.Group]
	if !ok {
		return nil, fmt.Errorf("receive for group %q: %w; create it first (keystrand group create)", r.Group, keystrand.ErrGroupNotFound)
	}
	if _, err := state.ParseFilter(r.Expression); err != nil {
		return nil, fmt.Errorf("receive for group %q of topic %q: %w", r.Group, r.Topic, err)
	}
	r.Wait = min(max(r.Wait, 0), maxWait)
	if r.Lease = min(r.Lease, maxLease); r.Lease <= 0 {
		r.Lease = 30 * time.Second
	}
	return &receiveCommand{Receive: r, pair: pair{g.ID, t.ID}, done: make(chan received, 1)}, nil
}

func (c *receiveCommand) run(s *Sequencer) {
	l := &s.loop
	if len(l.waiting) >= s.o.MaxWaiting {
		c.refuse(fmt.Errorf("%d receives are held, the bound: %w", s.o.MaxWaiting, keystrand.ErrRetryLater))
		return
	}
	m, err := s.subscribed(c.pair, c.Expression)
	if err != nil {
		c.refuse(err)
		return
	}
	l.nextID++
	c.id, c.machine = l.nextID, m
	l.waiting[c.id] = c
	s.perform(m, m.Receive(l.now, deliver.Receive{
		ID: c.id, ClientID: c.ClientID, Max: c.Max, Lease: c.Lease, AutoRenew: c.AutoRenew, Until: l.now + c.Wait,
		AttemptID: c.AttemptID, Push: c.Push, Slot: c.Slot,
	}))
}

func (c *receiveCommand) refuse(err error) { c.done <- received{err: err} }

// answer ends a held receive.
func (s *Sequencer) answer(a deliver.Answer) {
	c, ok := s.loop.waiting[a.ID]
	if !ok {
		return // cancelled in this very turn
	}
	delete(s.loop.waiting, a.ID)
	s.loop.stats.Granted += uint64(len(a.Grants))
	c.done <- received{grants: a.Grants, m: c.machine}
}

func (s *Sequencer) answerHeldEmpty() {
	for id, c := range s.loop.waiting {
		delete(s.loop.waiting, id)
		s.perform(c.machine, c.machine.Cancel(s.loop.now, id))
		c.done <- received{m: c.machine}
	}
}

// abandon takes a receive back whose caller has gone. If it was answered meanwhile, the leases end at once.
func (s *Sequencer) abandon(c *receiveCommand) {
	if s.submit(&cancelCommand{c}) != nil {
		return // the loop is at its end and answers or refuses everything held
	}
}

type cancelCommand struct{ receive *receiveCommand }

func (c *cancelCommand) run(s *Sequencer) {
	r := c.receive
	if _, held := s.loop.waiting[r.id]; held {
		delete(s.loop.waiting, r.id)
		s.perform(r.machine, r.machine.Cancel(s.loop.now, r.id))
		for _, a := range s.loop.turn.answers {
			if a.ID == r.id && len(a.Grants) > 0 { // granted earlier in this very turn
				s.perform(r.machine, r.machine.Undelivered(s.loop.now, a.Grants))
			}
		}
		return
	}
	select {
	case got := <-r.done:
		if len(got.grants) > 0 {
			s.perform(got.m, got.m.Undelivered(s.loop.now, got.grants))
		}
	default: // refused before it was held
	}
}

// deliveries reads what was granted. It runs in the caller's goroutine: the loop does not touch the disk for bodies.
func (s *Sequencer) deliveries(ctx context.Context, c *receiveCommand, got received) ([]keystrand.Delivery, error) {
	filter, err := state.ParseFilter(c.Expression)
	if err != nil {
		return nil, err
	}
	out := make([]keystrand.Delivery, 0, len(got.grants))
	for i, g := range got.grants {
		m, err := s.readEntry(got.m.topic.index, g.Entry)
		if err != nil {
			s.giveBack(got.m, got.grants[i:])
			s.Undelivered(out)
			return nil, fmt.Errorf("receive for group %q of topic %q: entry %d: %w", c.Group, c.Topic, g.Entry, err)
		}
		d := s.delivery(c, g, &m)
		if !filter.MatchesTag(m.Tag) {
			if err := s.Ack(ctx, c.Group, c.Topic, d.ReceiptHandle)[0]; err != nil {
				s.logger.Warn("a message outside the filter could not be finished; it comes again", "topic", c.Topic, "consumer_group", c.Group, "error", err)
			}
			continue
		}
		out = append(out, d)
	}
	return out, nil
}

func (s *Sequencer) delivery(c *receiveCommand, g deliver.Grant, m *state.Message) keystrand.Delivery {
	d := stored(c.Topic, m)
	d.Attempt, d.Lease = int(g.Attempt), g.Lease
	d.Token = keystrand.Token{Broker: s.log.BrokerID(), Value: g.Token}
	d.ReceiptHandle = s.codec.encode(c.pair.group, c.pair.topic, deliver.Handle{Strand: g.Strand, Entry: g.Entry, Token: g.Token})
	return d
}

// readEntry reads the message of an index entry from the log. Safe from any goroutine.
func (s *Sequencer) readEntry(index *store.Index, n int64) (state.Message, error) {
	e, err := index.Entry(n)
	if err != nil {
		return state.Message{}, err
	}
	r, err := s.log.Read(e.Position, int(e.SizeBytes))
	if err != nil {
		return state.Message{}, err
	}
	return state.DecodeMessage(state.Kind(r.Kind), r.Body)
}

// Undelivered ends the leases of deliveries whose answer could not be written; their attempts do not count.
func (s *Sequencer) Undelivered(deliveries []keystrand.Delivery) {
	grants := map[pair][]deliver.Grant{}
	for _, d := range deliveries {
		if p, h, ok := s.codec.open(d.ReceiptHandle); ok {
			grants[p] = append(grants[p], deliver.Grant{Strand: h.Strand, Entry: h.Entry, Token: h.Token, Attempt: int32(d.Attempt), Lease: d.Lease})
		}
	}
	for p, g := range grants {
		s.submitGiveBack(&giveBackCommand{pair: p, grants: g})
	}
}

func (s *Sequencer) giveBack(m *machine, grants []deliver.Grant) {
	s.submitGiveBack(&giveBackCommand{pair: pair{m.group, m.topic.ID}, grants: grants})
}

func (s *Sequencer) submitGiveBack(c *giveBackCommand) {
	if len(c.grants) == 0 {
		return
	}
	if err := s.submit(c); err != nil {
		s.logger.Warn("undelivered messages stay leased until their lease ends", "count", len(c.grants), "error", err)
	}
}

type giveBackCommand struct {
	pair   pair
	grants []deliver.Grant
}

func (c *giveBackCommand) run(s *Sequencer) {
	if m := s.loop.machines[c.pair]; m != nil {
		s.perform(m, m.Undelivered(s.loop.now, c.grants))
	}
}
