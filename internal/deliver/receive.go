package deliver

import (
	"slices"
	"time"

	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// waiter is a receive that waits for its answer.
//
// Invariant: in the ends heap always; in the turn heap or in its window's blocked list, never in both.
type waiter struct {
	receive Receive
	arrival int64
	turnAt  int32
	endAt   int32
	client  *client // of push and auto-renewed receives
	window  *window // of push receives
	attempt *attempt
}

// attempt joins the receives that carry the same attempt id: while messages of it are out, a repeat gets those again.
type attempt struct {
	key    attemptKey
	waiter *waiter // the receive that waits for this attempt, if any
	slots  []*slot // handed out under it; some may be closed since
	open   int     // of them, those still out
}

type attemptKey struct{ clientID, id string }

// Receive asks for messages. The answer comes in this or a later step's Actions.
func (m *Machine) Receive(now clock.Mono, r Receive) Actions {
	m.begin(now)
	r.Max = min(max(r.Max, 1), maxReceive)
	if r.Lease <= 0 {
		r.Lease = defaultLease
	}
	r.Lease = min(r.Lease, state.MaxLease)
	w := &waiter{receive: r, arrival: m.arrivals, turnAt: -1, endAt: -1}
	m.arrivals++
	if r.Push || r.AutoRenew {
		w.client = m.client(r.ClientID)
		w.client.waiting++
		m.sign(w.client)
	} else if c := m.clients[r.ClientID]; c != nil {
		m.sign(c)
	}
	if r.Push {
		w.window = w.client.window(r.Slot)
	}
	m.waiters[r.ID] = w
	m.ends.set(w, int64(r.Until), w.arrival)
	if r.AttemptID == "" || !m.again(w) {
		m.turn.set(w, w.arrival, 0)
	}
	return m.end()
}

// again answers a repeated receive with what is still out of its attempt. Otherwise it notes w as the attempt's receive.
// A receive of the same attempt that still waits is answered empty: its caller has given up on it.
func (m *Machine) again(w *waiter) bool {
	key := attemptKey{w.receive.ClientID, w.receive.AttemptID}
	a := m.attempts[key]
	if a == nil {
		a = &attempt{key: key}
		m.attempts[key] = a
	}
	if old := a.waiter; old != nil {
		m.answer(old, nil)
		m.attempts[key] = a // answering the old one may have dropped it
	}
	if a.open == 0 {
		a.waiter, w.attempt, a.slots = w, a, nil
		return false
	}
	var grants []Grant
	for _, x := range a.slots {
		if x.lease == nil || x.lease.attempt != a {
			continue
		}
		s := x.strand
		if !x.lease.auto {
			m.apply(x, &state.Lease{Group: m.group.ID, Topic: m.topic.ID, Strand: x.key, Entry: s.Head, Token: s.Token, LeaseMs: state.MsOf(w.receive.Lease)})
			x.lease.length = w.receive.Lease
			m.until(x, m.now+x.lease.length)
		}
		grants = append(grants, Grant{Strand: x.key, Entry: s.Head, Attempt: s.Attempt, Token: s.Token, Lease: x.lease.length})
	}
	m.answer(w, grants)
	return true
}

// Cancel takes a waiting receive back; it gets no answer and nothing is handed out for it.
func (m *Machine) Cancel(now clock.Mono, id RequestID) Actions {
	m.begin(now)
	if w := m.waiters[id]; w != nil {
		m.forget(w)
	}
	return m.end()
}

// serve answers the oldest receive that can be answered; false when none can.
func (m *Machine) serve() bool {
	for m.turn.len() > 0 && m.ready.len() > 0 && m.broken == nil {
		w := m.turn.min()
		n := m.room(w)
		if n <= 0 {
			m.turn.remove(w)
			w.window.blocked = append(w.window.blocked, w)
			continue
		}
		n = min(n, m.ready.len()+int(min(m.visible-m.progress.Cursor, maxReceive)))
		grants := make([]Grant, 0, n)
		m.actions.Records = slices.Grow(m.actions.Records, n)
		for len(grants) < n && m.ready.len() > 0 {
			x := m.ready.min()
			m.unready(x)
			grants = append(grants, m.grant(x, w))
			if handOutLeased && len(grants) < n {
				grants = m.leasedNext(x, grants)
			}
			m.read() // what was granted makes room for the cursor
		}
		m.answer(w, grants)
		return true
	}
	return false
}

// room is how many messages w may get. A FIFO push client gets one: it runs an answer's messages as one chain, so a
// second one would wait for the first although it is of another strand.
func (m *Machine) room(w *waiter) int {
	n := w.receive.Max
	if w.window == nil {
		return n
	}
	if m.group.Spec.Ordered && m.group.Spec.PushBatch != state.PushMany {
		n = 1
	}
	return min(n, m.group.Spec.PushWindow-w.window.unacked)
}

// grant hands x's head out to w.
func (m *Machine) grant(x *slot, w *waiter) Grant {
	s := x.strand
	length := w.receive.Lease
	if w.receive.AutoRenew {
		length = m.group.Spec.MaxProcessing
	}
	r := &state.Grant{
		Group: m.group.ID, Topic: m.topic.ID, Strand: x.key, Entry: s.Head, Count: 1, Attempt: s.Attempt + 1,
		LeaseMs: state.MsOf(length), Token: m.tokens.Next(), ClientID: w.receive.ClientID, AutoRenew: w.receive.AutoRenew,
	}
	m.apply(x, r)
	x.failed = false
	x.lease = &lease{attempt: w.attempt, length: length}
	if w.receive.AutoRenew {
		m.renew(x, w.client)
	}
	if w.window != nil {
		x.lease.window = w.window
		w.window.unacked++
	}
	if a := w.attempt; a != nil {
		a.slots = append(a.slots, x)
		a.open++
	}
	m.until(x, m.now+length)
	return Grant{Strand: x.key, Entry: r.Entry, Attempt: r.Attempt, Token: r.Token, Lease: length}
}

// answer ends w, with messages or without.
func (m *Machine) answer(w *waiter, grants []Grant) {
	m.forget(w)
	m.actions.Answers = append(m.actions.Answers, Answer{ID: w.receive.ID, Grants: grants})
}

func (m *Machine) forget(w *waiter) {
	delete(m.waiters, w.receive.ID)
	m.ends.remove(w)
	if w.client != nil {
		w.client.waiting--
	}
	if w.turnAt >= 0 {
		m.turn.remove(w)
	} else if w.window != nil {
		w.window.drop(w)
	}
	if a := w.attempt; a != nil && a.waiter == w {
		a.waiter = nil
		m.dropAttempt(a)
	}
}

func (m *Machine) dropAttempt(a *attempt) {
	if a.open == 0 && a.waiter == nil {
		a.slots = nil
		delete(m.attempts, a.key)
	}
}

func clockMs(ms int64) clock.Mono { return time.Duration(ms) * time.Millisecond }
