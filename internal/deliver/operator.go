package deliver

import (
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// Park sets a strand aside until Resume; an open lease of it ends, and its holder's token is stale. False: nothing
// unfinished of the strand was read yet. Parking a parked strand is true and changes nothing.
func (m *Machine) Park(now clock.Mono, key state.StrandKey, reason string) (bool, Actions) {
	m.begin(now)
	x := m.slots[key]
	if x == nil || x.strand == nil || x.strand.Seeking {
		return false, m.end()
	}
	if x.strand.Status != state.StatusParked {
		m.park(x, reason)
	}
	return true, m.end()
}

func (m *Machine) park(x *slot, reason string) {
	m.unready(x)
	m.undue(x)
	m.closeLease(x)
	m.move(x, false)
	m.apply(x, &state.Park{Group: m.group.ID, Topic: m.topic.ID, Strand: x.key, Entry: x.strand.Head, Reason: reason})
	m.settleLater(x)
	m.alarm(AlarmParked, x, reason)
}

// Resume lets a parked strand go on with its head's attempts at 1. False: it is not parked.
func (m *Machine) Resume(now clock.Mono, key state.StrandKey) (bool, Actions) {
	m.begin(now)
	x := m.slots[key]
	if x == nil || x.strand == nil || x.strand.Status != state.StatusParked {
		return false, m.end()
	}
	m.apply(x, &state.Resume{Group: m.group.ID, Topic: m.topic.ID, Strand: key, Entry: x.strand.Head})
	m.place(x)
	return true, m.end()
}

// Explain tells why a strand does or does not move. It changes nothing.
func (m *Machine) Explain(now clock.Mono, key state.StrandKey) Explain {
	e := Explain{Strand: key, Status: StatusIdle, Cursor: m.progress.Cursor}
	x := m.slots[key]
	if x == nil || x.strand == nil {
		return e
	}
	s := x.strand
	e.Known, e.Head, e.Attempt, e.ClientID, e.Token, e.LastError = true, s.Head, s.Attempt, s.ClientID, s.Token, s.LastError
	left := func(at clock.Mono) clock.Mono { return max(at-now, 0) }
	switch {
	case x.lease != nil:
		e.Status, e.Left = StatusLeased, left(x.at)
		if x.lease.auto {
			e.Left = min(e.Left, left(x.lease.client.end()))
		}
	case s.Status == state.StatusParked:
		e.Status = StatusParked
	case s.Seeking || x.moving:
		e.Status = StatusFinishing
	case x.held:
		e.Status, e.Left = StatusHeld, left(x.at)
	case x.dueAt >= 0:
		e.Status, e.Left = StatusBackingOff, left(x.at)
	case x.unsettled > 0:
		e.Status = StatusFinishing
	default:
		e.Status = StatusReady
	}
	return e
}

// Stats counts. It changes nothing.
func (m *Machine) Stats() Stats {
	p := m.progress
	s := Stats{
		Ready: m.ready.len(), Leased: m.counts[state.StatusLeased] - m.moving, BackingOff: m.counts[state.StatusBackingOff] - m.overdue,
		Parked: m.counts[state.StatusParked], Held: m.held, Waiting: len(m.waiters), Strands: len(p.Strands), Cursor: p.Cursor,
		Finished: p.Finished, DeadLettered: p.DeadLettered, Filtered: p.Filtered,
	}
	s.Finishing = len(p.Strands) - s.Ready - s.Leased - s.BackingOff - s.Parked - s.Held
	return s
}
