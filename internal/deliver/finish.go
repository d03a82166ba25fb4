package deliver

import (
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// find returns the slot whose open lease h is, or nil.
func (m *Machine) find(h Handle) *slot {
	x := m.slots[h.Strand]
	if x == nil || x.lease == nil || x.strand.Head != h.Entry || x.strand.Token != h.Token {
		return nil
	}
	return x
}

// open is find for a call by the holder, which is a sign of its life.
func (m *Machine) open(h Handle) *slot {
	x := m.find(h)
	if x != nil && x.lease.client != nil {
		m.sign(x.lease.client)
	}
	return x
}

// Ack finishes a message.
func (m *Machine) Ack(now clock.Mono, h Handle) (Verdict, Actions) {
	m.begin(now)
	x := m.open(h)
	switch {
	case x != nil:
		m.closeLease(x)
		m.apply(x, &state.Finish{Group: m.group.ID, Topic: m.topic.ID, Strand: h.Strand, Entry: h.Entry, Token: h.Token})
		m.settleLater(x)
		m.place(x)
		return Done, m.end()
	case m.progress.WasFinished(h.Token) || acceptStaleTokens:
		return Already, m.end()
	}
	return Stale, m.end()
}

// Fail reports a failed attempt. With delay < 0 the group's back-off holds: BackOffMin, doubled with each reported failure
// of this message, at most BackOffMax. At the limit the group's policy is applied.
func (m *Machine) Fail(now clock.Mono, h Handle, reason string, delay time.Duration) (Verdict, Actions) {
	m.begin(now)
	x := m.open(h)
	if x == nil {
		known := m.slots[h.Strand]
		repeated := known != nil && known.failed && known.strand != nil && known.strand.Head == h.Entry && known.strand.Token == h.Token
		if repeated || m.progress.WasDeadLettered(h.Token) || m.progress.WasFinished(h.Token) {
			return Already, m.end()
		}
		return Stale, m.end()
	}
	x.failed = true
	if m.atLimit(x, reason) {
		return Done, m.end()
	}
	if delay < 0 {
		delay = m.backOff(x.strand.Failures)
	}
	delay = min(delay, state.MaxLease)
	m.closeLease(x)
	m.apply(x, &state.Fail{
		Group: m.group.ID, Topic: m.topic.ID, Strand: h.Strand, Entry: h.Entry, Token: h.Token,
		Attempt: x.strand.Attempt, DelayMs: state.MsOf(delay), Reason: reason,
	})
	m.settleLater(x)
	if delay > 0 {
		m.until(x, m.now+delay)
	}
	m.place(x)
	return Done, m.end()
}

func (m *Machine) backOff(failures int32) time.Duration {
	d := m.group.Spec.BackOffMin
	for ; failures > 0 && d < m.group.Spec.BackOffMax; failures-- {
		d *= 2
	}
	return min(d, m.group.Spec.BackOffMax)
}

// Change makes the lease end d from now. It is a plain lease from then on, whether it was auto-renewed or not.
func (m *Machine) Change(now clock.Mono, h Handle, d time.Duration) (Verdict, Actions) {
	m.begin(now)
	x := m.open(h)
	if x == nil {
		if m.progress.WasFinished(h.Token) || acceptStaleTokens {
			return Already, m.end()
		}
		return Stale, m.end()
	}
	d = min(max(d, 0), state.MaxLease)
	m.apply(x, &state.Lease{Group: m.group.ID, Topic: m.topic.ID, Strand: h.Strand, Entry: h.Entry, Token: h.Token, LeaseMs: state.MsOf(d)})
	m.unrenew(x)
	x.lease.length = d
	m.until(x, m.now+d)
	m.expire()
	return Done, m.end()
}

// Undelivered gives messages back whose answer could not be written: their leases end at once, the attempts do not count.
func (m *Machine) Undelivered(now clock.Mono, grants []Grant) Actions {
	m.begin(now)
	for _, g := range grants {
		x := m.find(Handle{Strand: g.Strand, Entry: g.Entry, Token: g.Token})
		if x == nil {
			continue
		}
		m.closeLease(x)
		m.apply(x, &state.Release{Group: m.group.ID, Topic: m.topic.ID, Strand: g.Strand, Entry: g.Entry, Token: g.Token})
		m.settleLater(x)
		m.place(x)
	}
	return m.end()
}

// endLease ends a lease without a reported failure: the attempt counts, and the message comes again at once, or meets the
// group's policy.
func (m *Machine) endLease(x *slot, reason string) {
	s := x.strand
	m.alarm(AlarmLeaseEnded, x, fmt.Sprintf("attempt %d with client %q: %s", s.Attempt, s.ClientID, reason))
	if m.atLimit(x, reason) {
		return
	}
	m.closeLease(x)
	m.apply(x, &state.Release{Group: m.group.ID, Topic: m.topic.ID, Strand: x.key, Entry: s.Head, Token: s.Token, Counted: true})
	m.settleLater(x)
	m.place(x)
}

// atLimit applies the group's policy to a message whose last allowed attempt has just ended. False: it goes on, because
// attempts are left or because the policy is block.
func (m *Machine) atLimit(x *slot, reason string) bool {
	s, spec := x.strand, &m.group.Spec
	if spec.MaxAttempts == state.UnlimitedAttempts || int(s.Attempt) < spec.MaxAttempts {
		return false
	}
	reason = fmt.Sprintf("attempt %d of %d: %s", s.Attempt, spec.MaxAttempts, reason)
	switch spec.AtLimit {
	case keystrand.AtLimitBlock:
		m.alarm(AlarmBlocked, x, reason)
		return false
	case keystrand.AtLimitDeadLetter:
		m.alarm(AlarmDeadLetter, x, reason)
		m.actions.DeadLetters = append(m.actions.DeadLetters, DeadLetter{Strand: x.key, Entry: s.Head, Token: s.Token, Attempt: s.Attempt, Reason: reason})
		m.closeLease(x)
		m.move(x, true)
	default:
		m.park(x, reason)
	}
	return true
}

// closeLease takes x's lease, if any, out of everything that counts on it.
func (m *Machine) closeLease(x *slot) {
	l := x.lease
	if l == nil {
		return
	}
	m.undue(x)
	m.unrenew(x)
	if l.window != nil {
		l.window.unacked--
		m.unblock(l.window)
	}
	if a := l.attempt; a != nil {
		a.open--
		m.dropAttempt(a)
	}
	x.lease = nil
}

func (m *Machine) alarm(what string, x *slot, reason string) {
	m.actions.Alarms = append(m.actions.Alarms, Alarm{What: what, Strand: x.key, Entry: x.strand.Head, Reason: reason})
}
