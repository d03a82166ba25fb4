package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/keystrand/keystrand"
)

// Catalog holds topics, consumer groups and subscriptions. Not safe for concurrent changes; Clone makes a copy that
// other goroutines may read. What the lookups return is shared and must not be changed.
//
// Invariant: ids are given once, from 1 upwards; names are unique among topics and among groups.
type Catalog struct {
	topics      map[TopicID]*Topic
	groups      map[GroupID]*Group
	topicNames  map[string]*Topic
	groupNames  map[string]*Group
	subscribed  map[pair]*Subscribe
	nextTopicID TopicID
	nextGroupID GroupID
}

type pair struct {
	group GroupID
	topic TopicID
}

// NewCatalog returns an empty one.
func NewCatalog() *Catalog {
	return &Catalog{
		topics: map[TopicID]*Topic{}, groups: map[GroupID]*Group{}, topicNames: map[string]*Topic{}, groupNames: map[string]*Group{},
		subscribed: map[pair]*Subscribe{}, nextTopicID: 1, nextGroupID: 1,
	}
}

// Apply folds a Topic, Group or Subscribe in; other records change nothing. It copies what it keeps.
func (c *Catalog) Apply(r Record) error {
	switch r := r.(type) {
	case *Topic:
		if named, known := c.topicNames[r.Name], c.topics[r.ID]; named != known || r.ID == 0 {
			return fmt.Errorf("topic %q with id %d: the name or the id belongs to another: %w", r.Name, r.ID, keystrand.ErrCorrupt)
		}
		t := *r
		c.topics[t.ID], c.topicNames[t.Name] = &t, &t
		c.nextTopicID = max(c.nextTopicID, t.ID+1)
	case *Group:
		if named, known := c.groupNames[r.Spec.Name], c.groups[r.ID]; named != known || r.ID == 0 {
			return fmt.Errorf("consumer group %q with id %d: the name or the id belongs to another: %w", r.Spec.Name, r.ID, keystrand.ErrCorrupt)
		}
		g := *r
		c.groups[g.ID], c.groupNames[g.Spec.Name] = &g, &g
		c.nextGroupID = max(c.nextGroupID, g.ID+1)
	case *Subscribe:
		if c.topics[r.Topic] == nil || c.groups[r.Group] == nil {
			return fmt.Errorf("subscription of consumer group %d to topic %d, one of which does not exist: %w", r.Group, r.Topic, keystrand.ErrCorrupt)
		}
		s := *r
		if old := c.subscribed[pair{r.Group, r.Topic}]; old != nil {
			s.Start = old.Start
		}
		c.subscribed[pair{r.Group, r.Topic}] = &s
	}
	return nil
}

// Clone returns an independent copy. It costs the maps; the values are shared, since they are never changed.
func (c *Catalog) Clone() *Catalog {
	return &Catalog{
		topics: maps.Clone(c.topics), groups: maps.Clone(c.groups), topicNames: maps.Clone(c.topicNames), groupNames: maps.Clone(c.groupNames),
		subscribed: maps.Clone(c.subscribed), nextTopicID: c.nextTopicID, nextGroupID: c.nextGroupID,
	}
}

// TopicByID and GroupByID return nil for what does not exist; what they return is shared.
func (c *Catalog) TopicByID(id TopicID) *Topic { return c.topics[id] }
func (c *Catalog) GroupByID(id GroupID) *Group { return c.groups[id] }

// NextTopicID and NextGroupID are the ids to give next.
func (c *Catalog) NextTopicID() TopicID { return c.nextTopicID }
func (c *Catalog) NextGroupID() GroupID { return c.nextGroupID }

// TopicByName looks a topic up.
func (c *Catalog) TopicByName(name string) (Topic, bool) { return valueOf(c.topicNames[name]) }

// GroupByName looks a consumer group up.
func (c *Catalog) GroupByName(name string) (Group, bool) { return valueOf(c.groupNames[name]) }

// Subscription looks up what a group reads of a topic.
func (c *Catalog) Subscription(g GroupID, t TopicID) (Subscribe, bool) {
	return valueOf(c.subscribed[pair{g, t}])
}

func valueOf[T any](p *T) (T, bool) {
	if p == nil {
		var zero T
		return zero, false
	}
	return *p, true
}

// Topics returns all, by name.
func (c *Catalog) Topics() []Topic {
	return sortedValues(c.topics, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
}

// Groups returns all, by name.
func (c *Catalog) Groups() []Group {
	return sortedValues(c.groups, func(a, b Group) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
}

// Subscriptions returns all, by group id and topic id.
func (c *Catalog) Subscriptions() []Subscribe {
	return sortedValues(c.subscribed, func(a, b Subscribe) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic))
	})
}

func sortedValues[K comparable, V any](m map[K]*V, compare func(a, b V) int) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, *v)
	}
	slices.SortFunc(out, compare)
	return out
}

// Encode appends the catalog as a snapshot piece's body; equal catalogs have equal bytes.
func (c *Catalog) Encode(buf []byte) []byte {
	b := append(buf, bodyVersion)
	b = putUvarint(b, uint64(c.nextTopicID))
	b = putUvarint(b, uint64(c.nextGroupID))
	b = putUvarint(b, uint64(len(c.topics)))
	for _, id := range slices.Sorted(maps.Keys(c.topics)) {
		b = putTopic(b, c.topics[id])
	}
	b = putUvarint(b, uint64(len(c.groups)))
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		b = putUvarint(b, uint64(id))
		b = putGroupSpec(b, &c.groups[id].Spec)
	}
	b = putUvarint(b, uint64(len(c.subscribed)))
	for _, s := range c.Subscriptions() {
		b = putSubscribe(b, &s)
	}
	return b
}

// DecodeCatalog reads what Encode made; its error wraps keystrand.ErrCorrupt.
func DecodeCatalog(body []byte) (*Catalog, error) {
	r := &reader{b: body}
	c := NewCatalog()
	r.version()
	nextTopic, nextGroup := TopicID(r.uint32v()), GroupID(r.uint32v())
	var err error
	apply := func(rec Record, place, last uint64) uint64 {
		if place <= last {
			r.fail("entries not in rising order")
		}
		if err == nil && r.fault == "" {
			err = c.Apply(rec)
		}
		return place
	}
	last := uint64(0)
	for range r.count(4) {
		t := r.topic()
		last = apply(&t, uint64(t.ID), last)
	}
	last = 0
	for range r.count(12) {
		g := &Group{ID: GroupID(r.uint32v()), Spec: r.groupSpec()}
		last = apply(g, uint64(g.ID), last)
	}
	last = 0
	for range r.count(5) {
		s := r.subscribe()
		last = apply(&s, uint64(s.Group)<<32|uint64(s.Topic), last)
	}
	if fault := r.end(); fault != "" {
		return nil, fmt.Errorf("catalog: %s: %w", fault, keystrand.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	if nextTopic < c.nextTopicID || nextGroup < c.nextGroupID {
		return nil, fmt.Errorf("catalog: next ids %d and %d are in use: %w", nextTopic, nextGroup, keystrand.ErrCorrupt)
	}
	c.nextTopicID, c.nextGroupID = nextTopic, nextGroup
	return c, nil
}
