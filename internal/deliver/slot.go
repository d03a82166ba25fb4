package deliver

import (
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// slot is what the machine knows of a strand beyond its state: whether it can be handed out, and when it will.
//
// Invariant: a slot is in the ready heap if and only if its strand has an unfinished head, no lease, no back-off or hold
// running, is not parked, is not on its way to the dead letters, and nothing that closed its last hand-out is still on its
// way to the disk. It is in the due heap while a lease, a back-off or a hold runs, and ends at `at`.
type slot struct {
	key     state.StrandKey
	strand  *state.Strand // nil: gone from memory, kept only until unsettled is 0
	lease   *lease        // nil: not leased
	at      clock.Mono
	readyAt int32 // place in the ready heap, -1: not in it
	dueAt   int32 // place in the due heap, -1: not in it
	// unsettled counts records that closed a hand-out of this strand and are not durable yet.
	unsettled int32
	held      bool // at is the end of the restart hold
	moving    bool // a dead letter was asked for
	seeking   bool // in the machine's seeking queue
	failed    bool // the last hand-out was closed by a reported failure
}

// lease is the open hand-out of a strand.
type lease struct {
	client  *client  // nil: nobody's business but the timer's
	window  *window  // of a push client
	attempt *attempt // of a receive with an attempt id
	place   int32    // in client.leases while auto
	auto    bool
	length  clock.Mono // as told to the receiver
}

// unsettled is a slot that waits for the log's durable mark; mark 0: not appended yet.
type unsettled struct {
	slot *slot
	mark uint64
}

// settleLater keeps x from being handed out until what this step records is durable. Otherwise a power loss could undo
// the record while somebody works on what it made possible: an earlier message of the strand would come again after a
// later one, or an old token would be good again beside a newer one.
func (m *Machine) settleLater(x *slot) {
	x.unsettled++
	m.unsettled = append(m.unsettled, unsettled{slot: x})
}

// Appended says that everything returned so far is in the log below end.
func (m *Machine) Appended(end uint64) {
	for i := m.marked; i < len(m.unsettled); i++ {
		m.unsettled[i].mark = end
	}
	m.marked = len(m.unsettled)
}

// keepSettled is how many settled entries the queue may carry at its front before it is moved up.
const keepSettled = 1024

// Durable says that the log is durable below mark: successors of finished messages become ready.
func (m *Machine) Durable(now clock.Mono, mark uint64) Actions {
	m.begin(now)
	for m.settled < m.marked && m.unsettled[m.settled].mark <= mark {
		x := m.unsettled[m.settled].slot
		m.unsettled[m.settled].slot = nil
		m.settled++
		x.unsettled--
		m.place(x)
	}
	if m.settled == len(m.unsettled) || m.settled > max(keepSettled, len(m.unsettled)/2) {
		left := copy(m.unsettled, m.unsettled[m.settled:])
		clear(m.unsettled[left:])
		m.unsettled, m.marked, m.settled = m.unsettled[:left], m.marked-m.settled, 0
	}
	return m.end()
}

// place puts x where the invariant of slot wants it. It never takes x out of the due heap.
func (m *Machine) place(x *slot) {
	s := x.strand
	switch {
	case s == nil:
		if x.unsettled == 0 && m.slots[x.key] == x {
			delete(m.slots, x.key)
		}
	case s.Seeking:
		if !x.seeking {
			x.seeking = true
			m.seeking = append(m.seeking, x)
		}
	case x.unsettled > 0 || x.lease != nil || x.moving || x.dueAt >= 0 || s.Status == state.StatusParked:
	case x.readyAt < 0:
		m.ready.set(x, s.Head, 0)
		if s.Status == state.StatusBackingOff {
			m.overdue++
		}
	}
}

// unready takes x out of the ready heap.
func (m *Machine) unready(x *slot) {
	if x.readyAt < 0 {
		return
	}
	m.ready.remove(x)
	if x.strand.Status == state.StatusBackingOff {
		m.overdue--
	}
}

// move notes that x is, or is no longer, on its way to the dead letters.
func (m *Machine) move(x *slot, moving bool) {
	if x.moving == moving {
		return
	}
	x.moving = moving
	if moving {
		m.moving++
	} else {
		m.moving--
	}
}

// until makes x wait for at: the end of a lease, a back-off or a hold.
func (m *Machine) until(x *slot, at clock.Mono) {
	x.at = at
	m.due.set(x, int64(at), x.strand.Head)
}

// undue ends whatever time runs for x.
func (m *Machine) undue(x *slot) {
	m.due.remove(x)
	if x.held {
		x.held = false
		m.held--
	}
}

// hold makes a strand from before an unclean stop wait: its owner from then may still be at work under a grant that was lost.
func (m *Machine) hold(x *slot) {
	if m.now < m.holdUntil && x.strand.Head < m.recovered {
		x.held = true
		m.held++
		m.until(x, m.holdUntil)
	}
}

// apply folds a record of x's strand in, puts it into the step's actions, and keeps the counts.
func (m *Machine) apply(x *slot, r state.Record) bool {
	if !m.fold(x, r) {
		return false
	}
	m.actions.Records = append(m.actions.Records, r)
	return true
}

func (m *Machine) fold(x *slot, r state.Record) bool {
	old := statusOf(x.strand)
	if err := m.progress.Apply(r, m.index); err != nil {
		m.breakDown(x, err)
		return false
	}
	m.follow(x, old)
	return true
}

// follow takes over what the progress now has for x.
func (m *Machine) follow(x *slot, old state.Status) {
	x.strand = m.progress.Strands[x.key]
	m.counts[old]--
	m.counts[statusOf(x.strand)]++
}

// statusOf is 0 for a strand that is gone.
func statusOf(s *state.Strand) state.Status {
	if s == nil {
		return 0
	}
	return s.Status
}
