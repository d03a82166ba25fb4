package deliver

import (
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// Machine is the delivery of one topic to one consumer group. All its methods take the monotonic now; none may be called
// concurrently. Every step first ends what is due by now, so a lease that has ended is ended before an ack is honoured.
//
// Invariant: at most one message of a strand is out at a time, under one token; the next one becomes ready only when what
// finished the one before is durable. Ready strands are served oldest head first, waiting receives oldest first.
type Machine struct {
	group    state.Group
	topic    state.Topic
	progress *state.Progress
	index    Index
	tokens   Tokens

	now        clock.Mono
	visible    int64
	recovered  int64
	holdUntil  clock.Mono
	maxReady   int
	maxStrands int

	slots     map[state.StrandKey]*slot
	ready     heap[*slot] // by head
	due       heap[*slot] // by time
	unsettled []unsettled
	marked    int // unsettled[:marked] have a mark
	settled   int // unsettled[:settled] are durable
	counts    [state.StatusParked + 1]int
	held      int
	overdue   int // ready strands whose status is still backing off
	moving    int // strands on their way to the dead letters; their status is still leased

	waiters  map[RequestID]*waiter
	turn     heap[*waiter] // those that can be served, by arrival
	ends     heap[*waiter] // all, by Until
	arrivals int64
	clients  map[string]*client
	silence  heap[*client] // by when the client counts as gone
	attempts map[attemptKey]*attempt

	reader
	broken  error // why nothing is handed out any more
	actions Actions
}

// New makes the machine of a progress that is complete up to the end of the log. Leases recorded before the start run
// their whole length again, and their handles may still ack once. Requires: no entry is visible before Visible says so.
func New(group state.Group, topic state.Topic, p *state.Progress, ix Index, tokens Tokens, o Options) *Machine {
	m := &Machine{
		group: group, topic: topic, progress: p, index: ix, tokens: tokens, now: o.Now, visible: p.Cursor,
		maxReady: defaultMaxReady, maxStrands: defaultMaxStrands,
		slots:   make(map[state.StrandKey]*slot, len(p.Strands)),
		ready:   heap[*slot]{place: func(x *slot) *int32 { return &x.readyAt }},
		due:     heap[*slot]{place: func(x *slot) *int32 { return &x.dueAt }},
		waiters: map[RequestID]*waiter{},
		turn:    heap[*waiter]{place: func(w *waiter) *int32 { return &w.turnAt }},
		ends:    heap[*waiter]{place: func(w *waiter) *int32 { return &w.endAt }},
		clients: map[string]*client{},
		silence: heap[*client]{place: func(c *client) *int32 { return &c.place }}, attempts: map[attemptKey]*attempt{},
	}
	m.group.Spec = completed(group.Spec)
	if o.MaxReady > 0 {
		m.maxReady = o.MaxReady
	}
	if o.MaxStrands > 0 {
		m.maxStrands = o.MaxStrands
	}
	if o.Unclean && o.RestartHold >= 0 {
		hold := o.RestartHold
		if hold == 0 {
			hold = defaultRestartHold
		}
		m.holdUntil, m.recovered = o.Now+hold, o.RecoveredCount
	}
	for _, s := range p.Strands {
		m.restore(s)
	}
	return m
}

// completed fills in the defaults of a spec that was made without state.CompleteGroup.
func completed(spec keystrand.GroupSpec) keystrand.GroupSpec {
	spec, _ = state.CompleteGroup(spec) // its faults are the maker's business; the defaults are what is needed here
	return spec
}

// restore gives a strand from before the start its slot.
func (m *Machine) restore(s *state.Strand) {
	x := &slot{key: s.Key, strand: s, readyAt: -1, dueAt: -1}
	m.slots[s.Key] = x
	m.counts[s.Status]++
	switch s.Status {
	case state.StatusLeased:
		x.lease = &lease{length: clockMs(s.LeaseMs)}
		if s.AutoRenew {
			m.renew(x, m.client(s.ClientID))
		}
		m.until(x, m.now+x.lease.length)
	case state.StatusBackingOff:
		m.until(x, max(m.now+clockMs(s.BackOffMs), m.holdUntil))
	case state.StatusReady:
		if !s.Seeking {
			m.hold(x)
		}
	}
	m.place(x)
}

// begin starts a step: what is due by now ends first.
func (m *Machine) begin(now clock.Mono) {
	m.now = max(m.now, now)
	m.budget, m.more = readBudget, false
	m.expire()
}

// end finishes a step: reads on, serves, and answers the receives whose time is up.
func (m *Machine) end() Actions {
	for m.read(); m.serve(); m.read() {
	}
	for m.ends.len() > 0 && m.ends.first() <= int64(m.now) {
		m.answer(m.ends.min(), nil)
	}
	a := m.actions
	m.actions = Actions{}
	return a
}

// expire ends leases, back-offs, holds and silent clients that are due.
func (m *Machine) expire() {
	for m.due.len() > 0 && m.due.first() <= int64(m.now) {
		x := m.due.min()
		m.undue(x)
		if x.lease != nil {
			m.endLease(x, fmt.Sprintf("its lease of %v ended", x.lease.length))
			continue
		}
		m.place(x)
	}
	m.silenced()
}

// Visible says that entries below n may be handed out.
func (m *Machine) Visible(now clock.Mono, n int64) Actions {
	m.begin(now)
	m.visible = max(m.visible, n)
	return m.end()
}

// Tick does what is due.
func (m *Machine) Tick(now clock.Mono) Actions {
	m.begin(now)
	return m.end()
}

// Next is when the next Tick is due; false: only an event can change anything.
func (m *Machine) Next() (clock.Mono, bool) {
	if m.more {
		return m.now, true
	}
	at, ok := clock.Mono(0), false
	sooner := func(t clock.Mono) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if m.due.len() > 0 {
		sooner(clock.Mono(m.due.first()))
	}
	if m.ends.len() > 0 {
		sooner(clock.Mono(m.ends.first()))
	}
	if m.silence.len() > 0 {
		sooner(clock.Mono(m.silence.first()))
	}
	if m.retryCursor > 0 {
		sooner(m.retryCursor)
	}
	if m.retrySeek > 0 {
		sooner(m.retrySeek)
	}
	return at, ok
}

// SetGroup takes over changed settings. Whether the group is ordered, and at which level, cannot change.
func (m *Machine) SetGroup(now clock.Mono, g state.Group) Actions {
	m.begin(now)
	g.Spec = completed(g.Spec)
	m.group = g
	for _, c := range m.clients {
		for _, w := range c.windows {
			m.unblock(w)
		}
	}
	return m.end()
}

// Applied folds in a record that the sequencer made itself and put into the log: a DeadLetter, an operator's Finish, a
// Subscribe with another filter.
func (m *Machine) Applied(now clock.Mono, r state.Record) Actions {
	m.begin(now)
	x := m.closes(r)
	if x == nil {
		if err := m.progress.Apply(r, m.index); err != nil {
			m.breakDown(nil, err)
		}
		return m.end()
	}
	m.unready(x)
	m.undue(x)
	m.closeLease(x)
	m.move(x, false)
	if m.fold(x, r) {
		m.settleLater(x)
	}
	m.place(x)
	return m.end()
}

// closes returns the slot whose head a record of the sequencer's ends, nil if it ends none (any more).
func (m *Machine) closes(r state.Record) *slot {
	var key state.StrandKey
	var entry int64
	switch r := r.(type) {
	case *state.DeadLetter:
		key, entry = r.Strand, r.Entry
	case *state.Finish:
		key, entry = r.Strand, r.Entry
	default:
		return nil
	}
	if x := m.slots[key]; x != nil && x.strand != nil && x.strand.Head == entry && !x.strand.Seeking {
		return x
	}
	return nil
}

// panicWhenBroken is set by tests.
var panicWhenBroken bool

// breakDown stops this machine: the state refused what the machine decided, so neither can be believed. The rest of the
// broker goes on, and a restart folds the log anew.
func (m *Machine) breakDown(x *slot, err error) {
	if panicWhenBroken {
		panic(fmt.Sprintf("deliver: %v", err))
	}
	alarm := Alarm{What: AlarmBroken, Reason: err.Error()}
	if x != nil {
		alarm.Strand = x.key
	}
	m.broken = err
	m.actions.Alarms = append(m.actions.Alarms, alarm)
}
