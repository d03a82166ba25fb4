package sequencer

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// maxCounted bounds how many messages a question may walk over.
const maxCounted = 10_000

func sortedKeys(keys iter.Seq[string]) []string { return slices.Sorted(keys) }

// strandOf names a strand by the text a person gives: a message group; "queue:N" for messages without one and at order
// level queue; in an unordered group "entry:N".
func (s *Sequencer) strandOf(g *state.Group, key string) (state.StrandKey, error) {
	number := func(prefix string) (int64, bool) {
		n, err := strconv.ParseInt(strings.TrimPrefix(key, prefix), 10, 64)
		return n, strings.HasPrefix(key, prefix) && err == nil && n >= 0
	}
	if !g.Spec.Ordered {
		n, ok := number("entry:")
		if !ok {
			return 0, fmt.Errorf("key %q: in an unordered group each message is a strand of its own, named entry:N: %w", key, keystrand.ErrRejected)
		}
		return state.StrandKey(n), nil
	}
	if n, ok := number("queue:"); ok {
		return state.QueueStrand(int32(n)), nil
	}
	if g.Spec.OrderLevel == state.LevelQueue {
		return 0, fmt.Errorf("key %q: at order level queue a strand is a queue, named queue:N: %w", key, keystrand.ErrRejected)
	}
	return state.StrandKey(s.codec.groupHash(key)), nil
}

// found is a pair looked up by names.
type found struct {
	pair  pair
	group *state.Group
	topic *topicView
}

func (s *Sequencer) find(group, topic string) (found, error) {
	v := s.view.Load()
	g, t := v.groups[group], v.topics[topic]
	switch {
	case g == nil:
		return found{}, fmt.Errorf("group %q: %w", group, keystrand.ErrGroupNotFound)
	case t == nil:
		return found{}, fmt.Errorf("topic %q: %w", topic, keystrand.ErrTopicNotFound)
	}
	return found{pair{g.ID, t.ID}, g, t}, nil
}

// Explain says why a strand does or does not move.
func (s *Sequencer) Explain(ctx context.Context, group, topic, key string) (Explanation, error) {
	f, err := s.find(group, topic)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	strand, err := s.strandOf(f.group, key)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	var e deliver.Explain
	subscribed := false
	err = s.admin(ctx, func(s *Sequencer) error {
		if m := s.loop.machines[f.pair]; m != nil {
			subscribed, e = true, m.Explain(s.loop.now, strand)
		}
		return nil
	})
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w", err)
	}
	x := Explanation{
		Group: group, Topic: topic, Key: key, Status: e.Status, MaxAttempts: f.group.Spec.MaxAttempts,
		Attempt: int(e.Attempt), Owner: e.ClientID, Left: e.Left, LastError: e.LastError, Token: e.Token,
	}
	if !subscribed {
		x.Status = "not subscribed"
	}
	if e.Known {
		if err := s.explainHead(&x, f.topic.index, e, chainOf(f.group)); err != nil {
			return x, fmt.Errorf("explain: %w", err)
		}
	}
	x.Why = why(&x, e.Known, subscribed)
	return x, nil
}

func (s *Sequencer) explainHead(x *Explanation, index *store.Index, e deliver.Explain, chain func(store.Entry) int64) error {
	m, err := s.readEntry(index, e.Head)
	if err != nil {
		return fmt.Errorf("head, entry %d: %w", e.Head, err)
	}
	x.HeadID, x.HeadQueue, x.HeadOffset = m.ID, m.Queue, keystrand.Offset(m.Offset)
	for n := e.Head; x.Behind < maxCounted; x.Behind++ {
		entry, err := index.Entry(n)
		if err != nil {
			return err
		}
		if n = chain(entry); n == store.NoEntry {
			break
		}
	}
	return nil
}

// chainOf is how a strand of the group goes from one message to the next.
func chainOf(g *state.Group) func(store.Entry) int64 {
	switch {
	case !g.Spec.Ordered:
		return func(store.Entry) int64 { return store.NoEntry }
	case g.Spec.OrderLevel == state.LevelQueue:
		return func(e store.Entry) int64 { return e.QueueNext }
	default:
		return func(e store.Entry) int64 { return e.Next }
	}
}

// why puts the state in one sentence that says what to do.
func why(x *Explanation, known, subscribed bool) string {
	left := x.Left.Round(100 * time.Millisecond)
	switch {
	case !subscribed:
		return fmt.Sprintf("group %q has never received from topic %q; start a consumer", x.Group, x.Topic)
	case !known:
		return "nothing unfinished of this key was reached yet: it is done, was never sent, or waits above the group's cursor"
	}
	switch x.Status {
	case "parked":
		return fmt.Sprintf("parked (%s); %d messages wait behind it; mend the cause, then: keystrand resume --group %s --topic %s --key %s",
			x.LastError, x.Behind, x.Group, x.Topic, x.Key)
	case "backing off":
		return fmt.Sprintf("attempt %d failed (%s); the next one is due in %v", x.Attempt, x.LastError, left)
	case "leased":
		return fmt.Sprintf("attempt %d is with %q, whose lease lasts %v more", x.Attempt, x.Owner, left)
	case "ready":
		return "waits for a consumer to ask; if consumers run, they are busy with older heads"
	}
	return fmt.Sprintf("%s, %v left", x.Status, left)
}

// Park sets a strand aside until Resume.
func (s *Sequencer) Park(ctx context.Context, group, topic, key, reason string) error {
	return s.operator(ctx, "park", group, topic, key, func(m *machine, strand state.StrandKey) (bool, deliver.Actions) {
		return m.Park(s.loop.now, strand, reason)
	})
}

// Resume lets a parked strand go on; its head's attempts start again.
func (s *Sequencer) Resume(ctx context.Context, group, topic, key string) error {
	return s.operator(ctx, "resume", group, topic, key, func(m *machine, strand state.StrandKey) (bool, deliver.Actions) {
		return m.Resume(s.loop.now, strand)
	})
}

func (s *Sequencer) operator(ctx context.Context, verb, group, topic, key string, act func(*machine, state.StrandKey) (bool, deliver.Actions)) error {
	f, err := s.find(group, topic)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	strand, err := s.strandOf(f.group, key)
	if err == nil {
		err = s.admin(ctx, func(s *Sequencer) error {
			m := s.loop.machines[f.pair]
			if m == nil {
				return fmt.Errorf("the group has not received from this topic: %w", keystrand.ErrRejected)
			}
			ok, actions := act(m, strand)
			s.perform(m, actions)
			if !ok {
				return fmt.Errorf("the strand is %s, so there is nothing to %s: %w", m.Explain(s.loop.now, strand).Status, verb, keystrand.ErrRejected)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("%s of key %q for group %q of topic %q: %w", verb, key, group, topic, err)
	}
	return nil
}

// Lag tells a group's standing on each of its topics.
func (s *Sequencer) Lag(ctx context.Context, group string) ([]GroupTopic, error) {
	g := s.view.Load().groups[group]
	if g == nil {
		return nil, fmt.Errorf("lag of group %q: %w", group, keystrand.ErrGroupNotFound)
	}
	var out []GroupTopic
	err := s.admin(ctx, func(s *Sequencer) error {
		for p, m := range s.loop.machines {
			if p.group == g.ID {
				out = append(out, m.standing())
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lag of group %q: %w", group, err)
	}
	slices.SortFunc(out, func(a, b GroupTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return out, nil
}

func (m *machine) standing() GroupTopic {
	st := m.Stats()
	return GroupTopic{
		Topic: m.topic.Name, Expression: m.expression, Cursor: m.progress.Cursor, Messages: m.topic.visible,
		Unfinished: m.progress.Unfinished(m.topic.visible),
		Ready:      int64(st.Ready), Leased: int64(st.Leased), BackingOff: int64(st.BackingOff), Parked: int64(st.Parked),
		DeadLettered: m.progress.DeadLettered, WaitingReceives: st.Waiting,
	}
}

// Stats tells counts since the start.
func (s *Sequencer) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	err := s.admin(ctx, func(s *Sequencer) error {
		out = s.loop.stats
		out.Waiting, out.Machines = len(s.loop.waiting), len(s.loop.machines)
		return nil
	})
	return out, err
}
