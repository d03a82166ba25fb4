package deliver

import (
	"cmp"
	"slices"
	"time"

	"github.com/keystrand/keystrand/internal/clock"
)

// client is a push client, or one with auto-renewed leases. It is forgotten when it has been silent and holds nothing.
//
// Invariant: leases[i].lease.place == i, and each is auto-renewed.
type client struct {
	id      string
	seen    clock.Mono // its last sign of life
	gone    bool       // its connections closed, or it said good-bye
	goneAt  clock.Mono // when that counts
	leases  []*slot
	windows map[int32]*window
	waiting int        // its receives that wait
	at      clock.Mono // when to look at it again; may be too early, never too late
	place   int32
}

// window bounds the unacked messages of one (push client, assignment entry).
type window struct {
	unacked int
	blocked []*waiter // receives that found no room, oldest first
}

func (m *Machine) client(id string) *client {
	c := m.clients[id]
	if c == nil {
		c = &client{id: id, seen: m.now, at: m.now + clientSilence, place: -1}
		m.clients[id] = c
		m.silence.set(c, int64(c.at), 0)
	}
	return c
}

// maxWindows bounds the windows of a client. Assignments have at most 8 entries; a client that makes up more shares.
const maxWindows = 64

func (c *client) window(slot int32) *window {
	slot &= maxWindows - 1
	w := c.windows[slot]
	if w == nil {
		if c.windows == nil {
			c.windows = map[int32]*window{}
		}
		w = &window{}
		c.windows[slot] = w
	}
	return w
}

func (w *window) drop(x *waiter) {
	if i := slices.Index(w.blocked, x); i >= 0 {
		w.blocked = slices.Delete(w.blocked, i, i+1)
	}
}

// unblock gives receives that found no room another try, in their old turn.
func (m *Machine) unblock(w *window) {
	for _, x := range w.blocked {
		m.turn.set(x, x.arrival, 0)
	}
	clear(w.blocked)
	w.blocked = w.blocked[:0]
}

// end is when the client counts as gone.
func (c *client) end() clock.Mono {
	at := c.seen + clientSilence
	if c.gone {
		at = min(at, c.goneAt)
	}
	return at
}

// sign is a sign of life.
func (m *Machine) sign(c *client) { c.seen, c.gone = m.now, false }

// renew makes x's lease last while c lives. An open receive is a sign of life too.
func (m *Machine) renew(x *slot, c *client) {
	c.seen = max(c.seen, m.now)
	x.lease.client, x.lease.auto, x.lease.place = c, true, int32(len(c.leases))
	c.leases = append(c.leases, x)
}

// unrenew makes x's lease a plain one.
func (m *Machine) unrenew(x *slot) {
	l := x.lease
	if !l.auto {
		return
	}
	c, last := l.client, len(l.client.leases)-1
	moved := c.leases[last]
	c.leases[l.place], moved.lease.place = moved, l.place
	c.leases[last] = nil
	c.leases = c.leases[:last]
	l.auto, l.client = false, nil
}

// ClientSeen notes a sign of life. It comes too late for leases that had ended by now: the next step ends those.
func (m *Machine) ClientSeen(now clock.Mono, clientID string) {
	if c := m.clients[clientID]; c != nil && (c.end() > now || len(c.leases) == 0) {
		c.seen, c.gone = max(c.seen, now), false
	}
}

// ClientGone says that the client's last connection closed, or that it said good-bye (after 0): its auto-renewed leases
// end after that unless it is seen again. Its waiting receives are answered empty: nobody reads their answers.
func (m *Machine) ClientGone(now clock.Mono, clientID string, after time.Duration) Actions {
	m.begin(now)
	if c := m.clients[clientID]; c != nil {
		c.gone, c.goneAt = true, m.now+max(after, 0)
		c.at = min(c.at, c.end())
		m.silence.set(c, int64(c.at), 0)
		m.expire()
	}
	m.dismiss(clientID)
	return m.end()
}

// dismiss answers a client's waiting receives, oldest first.
func (m *Machine) dismiss(clientID string) {
	var gone []*waiter
	for _, w := range m.waiters {
		if w.receive.ClientID == clientID {
			gone = append(gone, w)
		}
	}
	slices.SortFunc(gone, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, w := range gone {
		m.answer(w, nil)
	}
}

// silenced looks at the clients whose time may be up, by id.
func (m *Machine) silenced() {
	var due []*client
	for m.silence.len() > 0 && m.silence.first() <= int64(m.now) {
		c := m.silence.min()
		m.silence.remove(c)
		due = append(due, c)
	}
	slices.SortFunc(due, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	for _, c := range due {
		m.silent(c)
	}
}

// silent looks at a client that was taken out of the silence heap, and puts it back unless it is forgotten.
func (m *Machine) silent(c *client) {
	if c.end() <= m.now {
		reason := "its client gave no sign for " + clientSilence.String()
		if c.gone {
			reason = "its client is gone"
		}
		held := slices.SortedFunc(slices.Values(c.leases), func(a, b *slot) int { return cmp.Compare(a.strand.Head, b.strand.Head) })
		for _, x := range held {
			m.endLease(x, reason)
		}
		if !c.busy() {
			delete(m.clients, c.id)
			return
		}
		c.at = m.now + clientSilence
	} else {
		c.at = c.end()
	}
	m.silence.set(c, int64(c.at), 0)
}

// busy reports whether something still counts on c. Receives that wait hold c too.
func (c *client) busy() bool {
	for _, w := range c.windows {
		if w.unacked > 0 {
			return true
		}
	}
	return len(c.leases) > 0 || c.waiting > 0
}
