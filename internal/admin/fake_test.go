package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/state"
)

// fakeBackend is a Backend in memory: it remembers what was asked and answers what a test put in.
type fakeBackend struct {
	mu         sync.Mutex // guards all below
	topics     map[string]keystrand.TopicSpec
	groups     map[string]keystrand.GroupSpec
	parked     map[Strand]bool
	sent       []keystrand.Message
	receive    sequencer.Receive
	deliveries []keystrand.Delivery
	returned   []keystrand.Delivery
	acked      []string
	fail       error // every call that changes something answers this
	down       error // what Err answers
	hold       chan struct{}
	changes    int
	panics     bool
	// panicOnMisuse: the fake breaks when a request gets through that breaks a rule of the interface.
	panicOnMisuse bool
}

func newFake() *fakeBackend {
	return &fakeBackend{topics: map[string]keystrand.TopicSpec{}, groups: map[string]keystrand.GroupSpec{}, parked: map[Strand]bool{}}
}

// change begins every call that changes something.
func (f *fakeBackend) change() error {
	f.changes++
	return f.fail
}

func (f *fakeBackend) Topics() []sequencer.TopicInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []sequencer.TopicInfo
	for _, name := range slices.Sorted(maps.Keys(f.topics)) {
		all = append(all, f.topicLocked(name))
	}
	return all
}

func (f *fakeBackend) topicLocked(name string) sequencer.TopicInfo {
	spec := f.topics[name]
	return sequencer.TopicInfo{
		Topic:    state.Topic{Name: name, Type: spec.Type, Queues: int32(spec.Queues)},
		Messages: 3, Offsets: make([]int64, spec.Queues),
	}
}

func (f *fakeBackend) Topic(name string) (sequencer.TopicInfo, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.topics[name]; !ok {
		return sequencer.TopicInfo{}, false
	}
	return f.topicLocked(name), true
}

func (f *fakeBackend) CreateTopic(_ context.Context, spec keystrand.TopicSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	if old, ok := f.topics[spec.Name]; ok && old != spec {
		return fmt.Errorf("topic %q: %w", spec.Name, keystrand.ErrExists)
	}
	f.topics[spec.Name] = spec
	return nil
}

func (f *fakeBackend) Groups() []sequencer.GroupInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []sequencer.GroupInfo
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		all = append(all, f.groupLocked(name))
	}
	return all
}

func (f *fakeBackend) groupLocked(name string) sequencer.GroupInfo {
	return sequencer.GroupInfo{Group: state.Group{Spec: f.groups[name]}, Topics: f.standings()}
}

func (f *fakeBackend) standings() []sequencer.GroupTopic {
	return []sequencer.GroupTopic{{Topic: "orders", Expression: "*", Messages: 3, Unfinished: 2, Parked: 1}}
}

func (f *fakeBackend) Group(name string) (sequencer.GroupInfo, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.groups[name]; !ok {
		return sequencer.GroupInfo{}, false
	}
	return f.groupLocked(name), true
}

func (f *fakeBackend) CreateGroup(_ context.Context, spec keystrand.GroupSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	f.groups[spec.Name] = spec
	return nil
}

func (f *fakeBackend) EnsureGroup(_ context.Context, group, _ string) (sequencer.GroupInfo, error) {
	info, ok := f.Group(group)
	if !ok {
		return info, fmt.Errorf("consumer group %q: %w", group, keystrand.ErrGroupNotFound)
	}
	return info, nil
}

func (f *fakeBackend) Lag(_ context.Context, group string) ([]sequencer.GroupTopic, error) {
	if _, err := f.EnsureGroup(context.Background(), group, ""); err != nil {
		return nil, err
	}
	return f.standings(), nil
}

func (f *fakeBackend) Send(_ context.Context, topic string, messages []keystrand.Message, _ string) ([]keystrand.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return nil, err
	}
	f.sent = append(f.sent, messages...)
	return []keystrand.Receipt{{MessageID: messages[0].ID, Queue: 2, Offset: keystrand.Offset(len(f.sent) - 1)}}, nil
}

func (f *fakeBackend) Receive(ctx context.Context, r sequencer.Receive) ([]keystrand.Delivery, error) {
	f.mu.Lock()
	hold := f.hold
	if f.panics || f.panicOnMisuse && (r.Max < 1 || r.Max > maxReceive || r.Lease < minInvisible || r.Wait > maxWait || r.Group == "" || r.Topic == "") {
		f.mu.Unlock()
		panic("secret")
	}
	f.receive = r
	f.mu.Unlock()
	if hold != nil {
		hold <- struct{}{} // tells the test that it waits
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return nil, err
	}
	return f.deliveries, nil
}

func (f *fakeBackend) Undelivered(deliveries []keystrand.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned = append(f.returned, deliveries...)
}

func (f *fakeBackend) Ack(_ context.Context, _, _ string, handles ...string) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(handles))
	for i, handle := range handles {
		if errs[i] = f.change(); handle == "expired" {
			errs[i] = fmt.Errorf("message m-1: %w", keystrand.ErrLeaseExpired)
		}
	}
	f.acked = append(f.acked, handles...)
	return errs
}

func (f *fakeBackend) Explain(_ context.Context, group, topic, key string) (sequencer.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := "ready"
	if f.parked[Strand{ConsumerGroup: group, Topic: topic, MessageGroup: key}] {
		status = "parked"
	}
	return sequencer.Explanation{Group: group, Topic: topic, Key: key, Status: status, Token: 1<<40 | 7}, nil
}

func (f *fakeBackend) Park(_ context.Context, group, topic, key, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parked[Strand{ConsumerGroup: group, Topic: topic, MessageGroup: key}] = true
	return f.change()
}

func (f *fakeBackend) Resume(_ context.Context, group, topic, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parked, Strand{ConsumerGroup: group, Topic: topic, MessageGroup: key})
	return f.change()
}

func (f *fakeBackend) BrokerID() string { return "00000000000000aa" }

func (f *fakeBackend) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *fakeBackend) changeCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}
