package history

import (
	"math"
	"slices"
	"strings"
)

// truth is what the first pass collects: every message sent, where it stands, and what was read back.
type truth struct {
	topics   map[string]*topic
	order    []*topic // as first seen
	groups   map[string]int
	names    []string // of groups, by index
	failed   map[uint64]bool
	infos    map[uint64]bool
	open     map[uint64]openOp
	killed   map[uint32]bool
	readBack map[string]int64 // rows promised, by kind name
	rows     map[string]int64 // rows seen
	drained  bool
	faults   []*fault
	marks    map[string]bool
	wanted   map[string]uint64 // mark -> line
	events   uint64
	firstT   int64
	lastT    int64
}

type openOp struct {
	n   uint64
	p   uint32
	inv int64
	k   *key
	m   int32
}

type topic struct {
	name   string
	keys   map[string]*key
	order  []*key
	queues map[int32]*queue
	logged bool // a log row was read back
	reads  map[int]reading
}

// reading is how a group reads a topic.
type reading struct {
	unordered, latest bool
	subscribed        bool // by name; else because it received something
}

type queue struct {
	slots     sparse[slot]
	low, high int64 // of log rows; high is the last one + 1
}

// slot is one (queue, offset) and the message that stands there.
type slot struct {
	key   *key
	m     int32 // index + 1 into key.messages; 0: nothing known
	place int32 // index + 1 into key.places
	log   bool  // stands in the read-back
	sync  int64 // when its covering sync returned; 0: no trace
	n     uint64
}

type key struct {
	topic     *topic
	name      string
	producers []producer
	messages  []message
	places    []place
	strands   []*strand // by group index
	rows      []outboxRow
	lastT     int64 // of the last sign of progress, for V17
}

type producer struct {
	number uint32
	index  sparse[int32] // counter -> index + 1 into messages
}

type message struct {
	id       ID
	inv, ret int64 // of the earliest attempt; of the earliest ok, else MaxInt64
	n        uint64
	sum      uint64
	version  uint64
	first    int32 // place of the first copy, -1
	may      int32 // attempts that may have been stored: ok, info, open
	copies   int32 // in the read-back
	invoked  bool
	ok       bool
}

type place struct {
	q   int32
	m   int32
	off int64
	seq int64
	n   uint64
}

type outboxRow struct {
	n       uint64
	version uint64
	m       int32
}

func newTruth() *truth {
	return &truth{topics: map[string]*topic{}, groups: map[string]int{}, failed: map[uint64]bool{}, infos: map[uint64]bool{},
		open: map[uint64]openOp{}, killed: map[uint32]bool{}, readBack: map[string]int64{}, rows: map[string]int64{},
		marks: map[string]bool{}, wanted: map[string]uint64{}}
}

func (w *truth) topic(name string) *topic {
	t := w.topics[name]
	if t == nil {
		t = &topic{name: name, keys: map[string]*key{}, queues: map[int32]*queue{}, reads: map[int]reading{}}
		w.topics[name] = t
		w.order = append(w.order, t)
	}
	return t
}

func (t *topic) key(name string) *key {
	k := t.keys[name]
	if k == nil {
		k = &key{topic: t, name: name}
		t.keys[name] = k
		t.order = append(t.order, k)
	}
	return k
}

func (w *truth) group(name string) int {
	g, ok := w.groups[name]
	if !ok {
		g = len(w.names)
		w.groups[name] = g
		w.names = append(w.names, name)
	}
	return g
}

func (t *topic) queue(q int32) *queue {
	x := t.queues[q]
	if x == nil {
		x = &queue{low: math.MaxInt64}
		t.queues[q] = x
	}
	return x
}

// message returns the index of id, made if new. Messages without id are all one: index -1.
func (k *key) message(id ID) int32 {
	if id.IsZero() {
		return -1
	}
	i := slices.IndexFunc(k.producers, func(p producer) bool { return p.number == id.Producer })
	if i < 0 {
		i = len(k.producers)
		k.producers = append(k.producers, producer{number: id.Producer})
	}
	at := k.producers[i].index.at(int64(id.Counter))
	if *at == 0 {
		k.messages = append(k.messages, message{id: id, inv: math.MaxInt64, ret: math.MaxInt64, first: -1})
		*at = int32(len(k.messages))
	}
	return *at - 1
}

// find is message without making one.
func (k *key) find(id ID) int32 {
	for i := range k.producers {
		if k.producers[i].number == id.Producer {
			if at := k.producers[i].index.get(int64(id.Counter)); at != nil {
				return *at - 1
			}
		}
	}
	return -1
}

// collect takes one event of the first pass; what is wrong by itself goes to the judge at once.
func (j *judge) collect(e *Event) error {
	w := j.truth
	w.events = e.N
	if w.firstT == 0 {
		w.firstT = e.T
	}
	w.lastT = e.T
	switch e.E {
	case SendInv:
		j.sendInvoked(e)
	case SendOK, SendFail, SendInfo:
		j.sendEnded(e)
	case AckInv, NackInv, RenewInv:
		w.open[e.Op] = openOp{n: e.N, p: e.P, inv: e.T, m: -1}
	case AckOK, NackOK, RenewOK:
		j.close(e)
	case AckFail, NackFail, RenewFail:
		j.close(e)
		w.failed[e.Op] = true
	case AckInfo, NackInfo, RenewInfo:
		j.close(e)
		w.infos[e.Op] = true
	case Recv:
		t := w.topic(e.Topic)
		g := w.group(e.Group)
		if _, ok := t.reads[g]; !ok {
			t.reads[g] = reading{}
		}
		j.seen(e, t.key(e.Key), false)
	case Subscribe:
		order, from, _ := strings.Cut(e.What, " ")
		w.topic(e.Topic).reads[w.group(e.Group)] = reading{order == "unordered", from == "latest", true}
	case Log:
		w.rows[Log.String()]++
		t := w.topic(e.Topic)
		t.logged = true
		j.seen(e, t.key(e.Key), true)
	case Durable:
		s := w.topic(e.Topic).queue(e.Queue).slots.at(e.Offset)
		s.sync = e.T
		j.traced = true
	case DLQ, Skip:
		j.strand(e).named.add(e.ID)
	case Effect, Inbox, State, Outbox:
		w.rows[e.E.String()]++
		if e.E == Outbox {
			k := w.topic(e.Topic).key(e.Key)
			k.rows = append(k.rows, outboxRow{n: e.N, version: e.Version, m: k.message(e.ID)})
		}
	case ReadBack:
		w.readBack[e.What] += e.Count
		if e.What == Effect.String() && e.Topic != "" && e.Group != "" {
			j.applied[readerOf{w.topic(e.Topic), w.group(e.Group)}] = true // also when no row is there: all are missing then
		}
	case Kill:
		w.killed[e.Who] = true
	case DrainEnd:
		w.drained = true
	case DrainBegin:
		w.drained = false
	case FaultBegin:
		w.faults = append(w.faults, &fault{what: e.What, begin: e.T, end: math.MaxInt64})
	case FaultEnd:
		j.faultEnded(e)
	case Mark:
		w.marks[e.What] = true
	case WantMark:
		w.wanted[e.What] = e.N
	}
	return nil
}

func (j *judge) sendInvoked(e *Event) {
	k := j.truth.topic(e.Topic).key(e.Key)
	i := k.message(e.ID)
	j.truth.open[e.Op] = openOp{n: e.N, p: e.P, inv: e.T, k: k, m: i}
	if i < 0 {
		j.unjudged("a send without id (line %d)", e.N)
		return
	}
	m := &k.messages[i]
	if !m.invoked {
		m.invoked, m.inv, m.n, m.sum, m.version = true, e.T, e.N, e.Sum, e.Version
	}
	m.may++
}

func (j *judge) sendEnded(e *Event) {
	op, ok := j.close(e)
	if !ok || op.m < 0 {
		return
	}
	m := &op.k.messages[op.m]
	switch e.E {
	case SendOK:
		j.sum.SendsOK++
		if !m.ok {
			m.ok, m.ret = true, e.T
		}
		if e.Offset >= 0 {
			place := *e
			place.ID = m.id
			j.seen(&place, op.k, false)
		}
	case SendFail:
		j.sum.SendsFailed++
		m.may--
	case SendInfo:
		j.sum.SendsUnknown++
	}
}

func (j *judge) close(e *Event) (openOp, bool) {
	op, ok := j.truth.open[e.Op]
	if !ok {
		j.unjudged("an outcome without its invoke (line %d)", e.N)
		return op, false
	}
	delete(j.truth.open, e.Op)
	return op, true
}

// seen notes that the message of e stands at e's place, and judges V3 (one place, one message) and V2 (its bytes).
func (j *judge) seen(e *Event, k *key, log bool) {
	i := k.message(e.ID)
	if i < 0 {
		if log {
			j.add(V2, e, k, "a message without id stands in the read-back: nobody in this run sent it")
		} else {
			j.unjudged("a delivery without id (line %d)", e.N)
		}
		return
	}
	m := &k.messages[i]
	if m.sum != 0 && e.Sum != 0 && m.sum != e.Sum {
		j.add(V2, e, k, "the body is not the one that was sent (line %d)", m.n)
	}
	if e.Queue < 0 || e.Offset < 0 {
		return
	}
	q := k.topic.queue(e.Queue)
	s := q.slots.at(e.Offset)
	switch {
	case s.m == 0:
		s.key, s.m, s.n = k, i+1, e.N
	case s.key != k || s.m != i+1:
		j.add(V3, e, k, "queue %d offset %d is %s of key %q here and was %s of key %q in line %d", e.Queue, e.Offset, e.ID, k.name,
			s.key.messages[s.m-1].id, s.key.name, s.n)
		if log {
			k.places = append(k.places, place{e.Queue, i, e.Offset, e.Seq, e.N})
		}
		return
	case log && s.log:
		j.add(V3, e, k, "queue %d offset %d was read back twice (line %d)", e.Queue, e.Offset, s.n)
		return
	}
	if log {
		s.log = true
		q.low, q.high = min(q.low, e.Offset), max(q.high, e.Offset+1)
		m.copies++
		k.places = append(k.places, place{e.Queue, i, e.Offset, e.Seq, e.N})
	}
}

// settle ends the first pass: the order of truth of each key, and the place of each slot.
func (j *judge) settle() {
	for _, t := range j.truth.order {
		if !t.logged {
			t.placesFromSlots()
		}
		for _, k := range t.order {
			j.sortPlaces(k)
			for p := range k.places {
				x := &k.places[p]
				if m := &k.messages[x.m]; m.first < 0 {
					m.first = int32(p)
				}
				if s := t.queues[x.q].slots.get(x.off); s != nil && s.key == k && s.m == x.m+1 {
					s.place = int32(p) + 1
				}
			}
		}
	}
}

// placesFromSlots stands in for a read-back that was not made: what was answered or delivered was surely stored.
func (t *topic) placesFromSlots() {
	for number, q := range t.queues {
		for off := range q.slots.near {
			q.slots.near[off].addPlace(number, int64(off))
		}
		for off, s := range q.slots.far {
			s.addPlace(number, off)
		}
	}
}

func (s *slot) addPlace(q int32, off int64) {
	if s.m != 0 {
		s.key.places = append(s.key.places, place{q, s.m - 1, off, -1, s.n})
		s.key.messages[s.m-1].copies++
	}
}

// sortPlaces orders by the broker's own sequence, else by offset. A key in several queues without a sequence has no
// known order.
func (j *judge) sortPlaces(k *key) {
	bySeq, oneQueue := true, true
	for i := range k.places {
		bySeq = bySeq && k.places[i].seq >= 0
		oneQueue = oneQueue && k.places[i].q == k.places[0].q
	}
	if bySeq {
		slices.SortFunc(k.places, func(a, b place) int { return compare(a.seq, b.seq) })
		return
	}
	if !oneQueue && k.name != "" {
		j.unjudged("key %q stands in several queues, and the read-back gives no order across them", k.name)
	}
	slices.SortFunc(k.places, func(a, b place) int {
		if a.q != b.q {
			return compare(int64(a.q), int64(b.q))
		}
		return compare(a.off, b.off)
	})
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
