package sequencer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// catalogView is what callers look names up in, without the loop. It is replaced as a whole, never changed.
type catalogView struct {
	topics map[string]*topicView
	groups map[string]*state.Group
}

type topicView struct {
	state.Topic
	index *store.Index
}

func (s *Sequencer) publishView() {
	l := &s.loop
	v := &catalogView{topics: make(map[string]*topicView, len(l.topics)), groups: map[string]*state.Group{}}
	for _, t := range l.topics {
		v.topics[t.Name] = &topicView{t.Topic, t.index}
	}
	for _, g := range l.catalog.Groups() {
		v.groups[g.Spec.Name] = &g
	}
	s.view.Store(v)
}

// adminCommand runs f in the loop; what it records is durable when the command is done.
type adminCommand struct {
	f    func(s *Sequencer) error
	err  error
	done chan error // capacity 1
}

func (c *adminCommand) run(s *Sequencer) {
	if c.err = c.f(s); c.err != nil {
		c.done <- c.err
		return
	}
	s.loop.turn.synced = append(s.loop.turn.synced, c)
}

func (c *adminCommand) refuse(err error) { c.done <- err }
func (c *adminCommand) synced(err error) { c.done <- err }

// admin runs f in the loop and waits until what it recorded is durable.
func (s *Sequencer) admin(ctx context.Context, f func(s *Sequencer) error) error {
	c := &adminCommand{f: f, done: make(chan error, 1)}
	if err := s.submit(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", keystrand.ErrUnknown, ctx.Err())
	}
}

// CreateTopic makes a topic, or does nothing if it exists with the same settings.
func (s *Sequencer) CreateTopic(ctx context.Context, spec keystrand.TopicSpec) error {
	spec, err := state.CompleteTopic(spec)
	if err == nil {
		err = s.admin(ctx, func(s *Sequencer) error { return s.createTopic(spec) })
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", spec.Name, err)
	}
	return nil
}

func (s *Sequencer) createTopic(spec keystrand.TopicSpec) error {
	l := &s.loop
	if have, ok := l.catalog.TopicByName(spec.Name); ok {
		if have.Type == spec.Type && int(have.Queues) == spec.Queues {
			return nil
		}
		return fmt.Errorf("it is %s with %d queues, asked for %s with %d: %w", have.Type, have.Queues, spec.Type, spec.Queues, keystrand.ErrExists)
	}
	if len(l.topics) >= s.o.MaxTopics {
		return fmt.Errorf("there are %d topics, the bound: %w", s.o.MaxTopics, keystrand.ErrRetryLater)
	}
	_, err := s.addTopic(state.Topic{ID: l.catalog.NextTopicID(), Name: spec.Name, Type: spec.Type, Queues: int32(spec.Queues)})
	return err
}

// addTopic records a new topic and opens its index.
func (s *Sequencer) addTopic(t state.Topic) (*topicState, error) {
	if err := s.loop.catalog.Apply(&t); err != nil {
		return nil, err
	}
	s.record(&t)
	opened, err := s.openTopic(t)
	if err != nil {
		s.fail(fmt.Errorf("broker: index of the new topic %q: %w", t.Name, err))
		return nil, err
	}
	s.publishView()
	return opened, nil
}

// openTopic opens a topic's index and counters.
func (s *Sequencer) openTopic(t state.Topic) (*topicState, error) {
	index, err := store.OpenIndex(s.o.FS, path.Join(s.o.Dir, indexDir), uint32(t.ID))
	if err != nil {
		return nil, err
	}
	// A checkpoint may have gone further than the log's last durable record: entries of what a power loss took must go.
	if err := index.DropFrom(s.log.RecoveredEnd()); err != nil {
		return nil, errors.Join(err, index.Close())
	}
	ts := &topicState{Topic: t, index: index, machines: map[state.GroupID]*machine{}}
	ts.recount()
	s.loop.topics[t.ID] = ts
	return ts, nil
}

// deadLetterTopic finds or makes the dead-letter topic of a group: FIFO with one queue, so that the sequence is kept.
func (s *Sequencer) deadLetterTopic(group string) (*topicState, error) {
	name := state.DeadLetterPrefix + group
	if t, ok := s.loop.catalog.TopicByName(name); ok {
		return s.loop.topics[t.ID], nil
	}
	return s.addTopic(state.Topic{ID: s.loop.catalog.NextTopicID(), Name: name, Type: keystrand.TopicFIFO, Queues: 1})
}

// CreateGroup makes a consumer group, or does nothing if it exists with the same settings.
func (s *Sequencer) CreateGroup(ctx context.Context, spec keystrand.GroupSpec) error {
	spec, err := state.CompleteGroup(spec)
	if err == nil {
		err = s.admin(ctx, func(s *Sequencer) error { return s.createGroup(spec) })
	}
	if err != nil {
		return fmt.Errorf("create group %q: %w", spec.Name, err)
	}
	return nil
}

func (s *Sequencer) createGroup(spec keystrand.GroupSpec) error {
	l := &s.loop
	if have, ok := l.catalog.GroupByName(spec.Name); ok {
		if have.Spec == spec {
			return nil
		}
		return fmt.Errorf("%s: %w", difference(have.Spec, spec), keystrand.ErrExists)
	}
	if len(l.catalog.Groups()) >= s.o.MaxGroups {
		return fmt.Errorf("there are %d groups, the bound: %w", s.o.MaxGroups, keystrand.ErrRetryLater)
	}
	g := state.Group{ID: l.catalog.NextGroupID(), Spec: spec}
	if err := l.catalog.Apply(&g); err != nil {
		return err
	}
	s.record(&g)
	s.publishView()
	return nil
}

// difference names the settings that differ, for people.
func difference(is, asked keystrand.GroupSpec) string {
	var out []string
	a, b := reflect.ValueOf(is), reflect.ValueOf(asked)
	for i := range a.NumField() {
		if !a.Field(i).Equal(b.Field(i)) {
			out = append(out, fmt.Sprintf("%s is %v, asked for %v", a.Type().Field(i).Name, a.Field(i), b.Field(i)))
		}
	}
	return strings.Join(out, "; ")
}

// EnsureGroup looks a group up for a client that wants to receive from topic. With AutoCreate an unknown group comes into
// being: ordered on a FIFO topic, with the dead-letter policy that the clients' tools expect.
func (s *Sequencer) EnsureGroup(ctx context.Context, group, topic string) (GroupInfo, error) {
	v := s.view.Load()
	if g, ok := v.groups[group]; ok {
		return GroupInfo{Group: *g}, nil
	}
	t, ok := v.topics[topic]
	switch {
	case !ok:
		return GroupInfo{}, fmt.Errorf("topic %q: %w; create it first (keystrand topic create)", topic, keystrand.ErrTopicNotFound)
	case !s.o.AutoCreate:
		return GroupInfo{}, fmt.Errorf("group %q: %w; create it first (keystrand group create), or start the broker with auto-create", group, keystrand.ErrGroupNotFound)
	}
	err := s.CreateGroup(ctx, keystrand.GroupSpec{Name: group, Ordered: t.Type == keystrand.TopicFIFO, AtLimit: keystrand.AtLimitDeadLetter})
	if err != nil {
		return GroupInfo{}, err
	}
	return GroupInfo{Group: *s.view.Load().groups[group]}, nil
}

// subscribed returns the machine of a pair, making or changing the subscription that the expression asks for.
func (s *Sequencer) subscribed(p pair, expression string) (*machine, error) {
	l := &s.loop
	m := l.machines[p]
	if m != nil && m.expression == expression {
		return m, nil
	}
	group, topic := l.catalog.GroupByID(p.group), l.topics[p.topic]
	sub := &state.Subscribe{Group: p.group, Topic: p.topic, Expression: expression}
	switch {
	case m != nil:
		sub.Cursor = m.progress.Cursor
	case group.Spec.From == state.FromLatest:
		sub.Start = topic.next
	}
	if err := l.catalog.Apply(sub); err != nil {
		return nil, err
	}
	s.record(sub)
	if m != nil {
		m.expression = expression
		s.perform(m, m.Applied(l.now, sub))
		return m, nil
	}
	progress := state.NewProgress(p.group, p.topic, group.Spec)
	if err := progress.Apply(sub, topic.index); err != nil {
		return nil, err
	}
	return s.addMachine(p, progress, expression), nil
}

// addMachine starts delivery for a pair. While the restart hold runs, a pair that subscribes anew is held too: the record of
// its former subscription may be among what a power loss took.
func (s *Sequencer) addMachine(p pair, progress *state.Progress, expression string) *machine {
	l := &s.loop
	topic := l.topics[p.topic]
	o := deliver.Options{Now: l.now}
	if l.now < s.holdUntil {
		o.Unclean, o.RestartHold, o.RecoveredCount = true, s.holdUntil-l.now, topic.recovered
	}
	m := &machine{group: p.group, topic: topic, progress: progress, expression: expression, heapAt: -1}
	m.Machine = deliver.New(*l.catalog.GroupByID(p.group), topic.Topic, progress, topic.index, l.tokens, o)
	l.machines[p] = m
	topic.machines[p.group] = m
	s.perform(m, m.Visible(l.now, topic.visible))
	return m
}

// Topic tells of one topic.
func (s *Sequencer) Topic(name string) (TopicInfo, bool) {
	t, ok := s.view.Load().topics[name]
	if !ok {
		return TopicInfo{}, false
	}
	return t.info(), true
}

// Topics lists the topics by name.
func (s *Sequencer) Topics() []TopicInfo {
	v := s.view.Load()
	out := make([]TopicInfo, 0, len(v.topics))
	for _, name := range sortedKeys(maps.Keys(v.topics)) {
		out = append(out, v.topics[name].info())
	}
	return out
}

func (t *topicView) info() TopicInfo {
	i := TopicInfo{Topic: t.Topic, Messages: t.index.Count(), Offsets: make([]int64, t.Queues)}
	for q := range i.Offsets {
		i.Offsets[q] = t.index.QueueCount(int32(q))
	}
	return i
}

// Group tells of one consumer group, without its standing on topics (see Lag).
func (s *Sequencer) Group(name string) (GroupInfo, bool) {
	g, ok := s.view.Load().groups[name]
	if !ok {
		return GroupInfo{}, false
	}
	return GroupInfo{Group: *g}, true
}

// Groups lists the consumer groups by name.
func (s *Sequencer) Groups() []GroupInfo {
	v := s.view.Load()
	out := make([]GroupInfo, 0, len(v.groups))
	for _, name := range sortedKeys(maps.Keys(v.groups)) {
		out = append(out, GroupInfo{Group: *v.groups[name]})
	}
	return out
}
