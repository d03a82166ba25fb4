package deliver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/state/statetest"
)

func init() { panicWhenBroken = true }

// world is a machine with what the sequencer gives it: a log, an index, a durable mark, tokens, a clock.
//
// Messages are named by group and number, "A1": their group is the letters; "_1" has none.
type world struct {
	t       rapid.TB
	group   state.Group
	options Options
	log     []state.Record
	durable int // log[:durable] survives a power loss
	base    []byte
	baseAt  int // log[:baseAt] is in base
	index   *statetest.Index
	names   []string // of entries
	queues  int32
	p       *state.Progress
	m       *Machine
	now     clock.Mono
	epoch   uint64
	counter uint64
	// manual: nothing is synced until sync is called. lazy: dead letters are not made until moveDead is called.
	manual, lazy bool

	nextID  RequestID
	ids     map[RequestID]string
	handles map[string][]Handle // every handle a message was handed out with
	dead    []DeadLetter
	answers []Answer // since last taken
	alarms  []Alarm
	events  []string // since last taken, in the words of the scenarios
	hook    func(r state.Record)
}

const (
	testGroup = state.GroupID(7)
	testTopic = state.TopicID(3)
	deadTopic = state.TopicID(4)
)

func newWorld(t rapid.TB, spec keystrand.GroupSpec) *world {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "g"
	}
	spec, err := state.CompleteGroup(spec)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, group: state.Group{ID: testGroup, Spec: spec}, index: statetest.New(), queues: 4, epoch: 1, now: time.Hour,
		ids: map[RequestID]string{}, handles: map[string][]Handle{},
	}
	w.subscribe("*")
	w.start()
	return w
}

// Next implements Tokens.
func (w *world) Next() uint64 { w.counter++; return w.epoch<<40 | w.counter }

func (w *world) subscribe(expression string) {
	s := &state.Subscribe{Group: testGroup, Topic: testTopic, Expression: expression}
	if w.m != nil {
		s.Cursor = w.p.Cursor
		w.append(s)
		w.perform(w.m.Applied(w.now, s))
		return
	}
	w.append(s)
}

// start folds the log, above the snapshot base, into a new progress and starts a machine on it.
func (w *world) start() {
	w.p = w.fold(w.base, w.log[w.baseAt:])
	o := w.options
	o.Now, o.RecoveredCount = w.now, int64(len(w.index.Entries))
	w.m = New(w.group, state.Topic{ID: testTopic, Name: "t", Type: keystrand.TopicFIFO, Queues: w.queues}, w.p, w.index, w, o)
	w.durable = len(w.log)
	w.perform(w.m.Visible(w.now, int64(len(w.index.Entries))))
}

func (w *world) fold(base []byte, log []state.Record) *state.Progress {
	p := state.NewProgress(testGroup, testTopic, w.group.Spec)
	if base != nil {
		var err error
		if p, err = state.DecodeProgress(base); err != nil {
			w.t.Fatal(err)
		}
	}
	for i, r := range log {
		if err := p.Apply(r, w.index); err != nil {
			w.t.Fatalf("record %d %+v: %v", i, r, err)
		}
	}
	return p
}

// restart ends the process and starts it again. lost records at the end of the log are gone, as after a power loss.
func (w *world) restart(unclean bool, lost int) {
	w.log = w.log[:len(w.log)-lost]
	entries := int64(0)
	for _, r := range w.log {
		if _, ok := r.(*state.Message); ok {
			entries++
		}
	}
	w.index, w.names = w.index.Cut(entries), w.names[:entries]
	w.epoch++
	w.counter = 0
	w.dead, w.ids = nil, map[RequestID]string{}
	w.options.Unclean = unclean
	w.start()
}

func (w *world) append(r state.Record) {
	if w.hook != nil {
		w.hook(r)
	}
	// What goes to disk is what comes back: every record of every test passes through its encoding.
	back, err := state.Decode(r.Kind(), state.Encode(nil, r))
	if err != nil {
		w.t.Fatalf("record %+v: %v", r, err)
	}
	w.log = append(w.log, back)
}

func (w *world) send(names ...string) {
	for _, name := range names {
		name, tag, _ := strings.Cut(name, ":")
		name, queueText, _ := strings.Cut(name, "@")
		queue := int32(0)
		hash := uint64(w.key(groupOf(name)))
		if groupOf(name) == "_" {
			hash = 0
		} else {
			queue = int32(hash % uint64(w.queues))
		}
		if queueText != "" {
			fmt.Sscan(queueText, &queue)
		}
		n := w.index.Append(queue, hash, state.TagHash(tag))
		w.names = append(w.names, name)
		w.append(&state.Message{Topic: testTopic, Queue: queue, Entry: n, GroupHash: hash, TagHash: state.TagHash(tag), ID: name, Tag: tag})
	}
	if !w.manual {
		w.sync()
	}
}

// key is the strand of a group, or of "q2"-like queues.
func (w *world) key(group string) state.StrandKey {
	var q int32
	if n, _ := fmt.Sscanf(group, "q%d", &q); n == 1 {
		return state.QueueStrand(q)
	}
	return state.StrandKey(state.GroupHash(1, 2, group))
}

func groupOf(name string) string { return strings.TrimRight(name, "0123456789") }

// perform does what the sequencer does with a step's actions.
func (w *world) perform(a Actions) {
	for _, r := range a.Records {
		w.append(r)
		w.note(r)
	}
	for _, answer := range a.Answers {
		w.answers = append(w.answers, answer)
		var got []string
		for _, g := range answer.Grants {
			name := w.names[g.Entry]
			w.handles[name] = append(w.handles[name], Handle{g.Strand, g.Entry, g.Token})
			text := fmt.Sprintf("%s attempt %d", name, g.Attempt)
			got = append(got, text)
		}
		if len(got) == 0 {
			got = []string{"nothing"}
		}
		w.event("%s gets %s", w.ids[answer.ID], strings.Join(got, ", "))
	}
	for _, alarm := range a.Alarms {
		w.alarms = append(w.alarms, alarm)
		w.event("alarm: %s: %s", alarm.What, alarm.Reason)
	}
	w.dead = append(w.dead, a.DeadLetters...)
	if !w.lazy {
		w.moveDead()
	}
	w.m.Appended(uint64(len(w.log)))
	if !w.manual && w.durable < len(w.log) {
		w.sync()
	}
}

func (w *world) moveDead() {
	dead := w.dead
	w.dead = nil
	for _, d := range dead {
		r := &state.DeadLetter{
			Group: testGroup, Topic: testTopic, Strand: d.Strand, Entry: d.Entry, Token: d.Token, Attempt: d.Attempt, Reason: d.Reason,
			Copy: state.Message{Topic: deadTopic, ID: w.names[d.Entry]},
		}
		w.append(r)
		w.note(r)
		w.perform(w.m.Applied(w.now, r))
	}
}

// sync makes everything durable and visible.
func (w *world) sync() {
	for w.durable < len(w.log) {
		w.durable = len(w.log)
		w.perform(w.m.Durable(w.now, uint64(w.durable)))
		w.perform(w.m.Visible(w.now, int64(len(w.index.Entries))))
	}
}

// note tells of the records a reader of a story wants to see.
func (w *world) note(r state.Record) {
	switch r := r.(type) {
	case *state.Park:
		w.event("record: park at %s", w.names[r.Entry])
	case *state.DeadLetter:
		w.event("record: dead letter %s", w.names[r.Entry])
	case *state.Release:
		if r.Counted {
			w.event("record: release %s", w.names[r.Entry])
		} else {
			w.event("record: release %s, attempt not counted", w.names[r.Entry])
		}
	case *state.Fail:
		w.event("record: fail %s, next in %v", w.names[r.Entry], time.Duration(r.DelayMs)*time.Millisecond)
	}
}

func (w *world) event(format string, args ...any) {
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

// advance lets time pass, tick by tick as the machine asks for them.
func (w *world) advance(d time.Duration) {
	end := w.now + d
	for {
		at, ok := w.m.Next()
		if !ok || at > end {
			break
		}
		w.now = max(w.now, at)
		w.perform(w.m.Tick(w.now))
	}
	w.now = end
}

func (w *world) receive(name string, r Receive) RequestID {
	w.nextID++
	r.ID = w.nextID
	w.ids[r.ID] = name
	if r.Max == 0 {
		r.Max = 1
	}
	if r.Until == 0 {
		r.Until = 20 * time.Second
	}
	r.Until += w.now
	w.perform(w.m.Receive(w.now, r))
	return r.ID
}

// get receives at once, without waiting, and returns the grants.
func (w *world) get(r Receive) []Grant {
	w.t.Helper()
	r.Until = -1
	id := w.receive("get", r)
	i := slices.IndexFunc(w.answers, func(a Answer) bool { return a.ID == id })
	if i < 0 {
		w.t.Fatal("a receive without wait was not answered")
	}
	return w.answers[i].Grants
}

// mustGet receives exactly the named messages.
func (w *world) mustGet(r Receive, names ...string) []Grant {
	w.t.Helper()
	r.Max = max(r.Max, len(names), 1)
	grants := w.get(r)
	got := make([]string, 0, len(grants))
	for _, g := range grants {
		got = append(got, w.names[g.Entry])
	}
	if !slices.Equal(got, names) {
		w.t.Fatalf("received %v, want %v", got, names)
	}
	return grants
}

// handle is the newest one of a message; "A1/2" is its second one.
func (w *world) handle(name string) Handle {
	name, number, exact := strings.Cut(name, "/")
	all := w.handles[name]
	n := len(all)
	if exact {
		fmt.Sscan(number, &n)
	}
	if n < 1 || n > len(all) {
		w.t.Fatalf("%s was handed out %d times, want hand-out %d", name, len(all), n)
	}
	return all[n-1]
}

func (w *world) ack(name string) Verdict {
	v, a := w.m.Ack(w.now, w.handle(name))
	w.perform(a)
	return v
}

func (w *world) mustAck(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if v := w.ack(name); v != Done {
			w.t.Fatalf("ack of %s: %v, want done", name, v)
		}
	}
}

func (w *world) fail(name, reason string, delay time.Duration) Verdict {
	v, a := w.m.Fail(w.now, w.handle(name), reason, delay)
	w.perform(a)
	return v
}

func (w *world) change(name string, d time.Duration) Verdict {
	v, a := w.m.Change(w.now, w.handle(name), d)
	w.perform(a)
	return v
}

func (w *world) undelivered(names ...string) {
	var grants []Grant
	for _, name := range names {
		h := w.handle(name)
		grants = append(grants, Grant{Strand: h.Strand, Entry: h.Entry, Token: h.Token})
	}
	w.perform(w.m.Undelivered(w.now, grants))
}

func (w *world) gone(client string, after time.Duration) {
	w.perform(w.m.ClientGone(w.now, client, after))
}

func (w *world) explain(group string) Explain { return w.m.Explain(w.now, w.key(group)) }

func (w *world) takeEvents() []string {
	e := w.events
	w.events = nil
	return e
}

func (w *world) alarmed(what string) bool {
	return slices.ContainsFunc(w.alarms, func(a Alarm) bool { return a.What == what })
}
