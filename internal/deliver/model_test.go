package deliver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// model is the plain, slow form of Machine: it looks at all messages and all receives at each step and keeps no cursor,
// heap or timer. It predicts every answer, attempt, token and verdict.
type model struct {
	spec    keystrand.GroupSpec
	tag     string // what the filter matches; "": everything
	now     clock.Mono
	visible int
	epoch   uint64
	counter uint64
	msgs    []modelMsg
	strands map[string]*modelStrand
	acked   map[uint64]bool
	buried  map[uint64]bool
	waiters []*modelWaiter
	clients map[string]*modelClient
	answers []string
	dead    []string // strands to bury
}

type modelMsg struct {
	name, strand string
	match, done  bool
}

type modelStrand struct {
	status            string // "", leased, backing, parked, moving
	attempt, failures int
	token             uint64
	entry             int // that token is for
	failed            bool
	until             clock.Mono // end of lease, back-off or hold; 0: none
	length            time.Duration
	delay             time.Duration
	auto              bool
	client, attemptID string
	slot              string // push window
	pending           bool   // what closed it is not durable
}

type modelWaiter struct {
	Receive
	name string
}

type modelClient struct {
	seen, goneAt clock.Mono
	gone         bool
}

func (c *modelClient) end() clock.Mono {
	if c.gone {
		return min(c.goneAt, c.seen+30*time.Second)
	}
	return c.seen + 30*time.Second
}

// clone keeps what the log keeps.
func (d *model) clone() *model {
	c := *d
	c.msgs = slices.Clone(d.msgs)
	c.strands = map[string]*modelStrand{}
	for k, s := range d.strands {
		copied := *s
		c.strands[k] = &copied
	}
	c.acked, c.buried = map[uint64]bool{}, map[uint64]bool{}
	for t := range d.acked {
		c.acked[t] = true
	}
	for t := range d.buried {
		c.buried[t] = true
	}
	c.waiters, c.clients, c.answers, c.dead = nil, map[string]*modelClient{}, nil, nil
	return &c
}

// restart makes a clone the present: leases and back-offs run anew, and after an unclean stop the rest is held.
func (d *model) restart(now clock.Mono, epoch uint64, unclean bool) {
	d.now, d.epoch, d.counter, d.visible = now, epoch, 0, len(d.msgs)
	hold := clock.Mono(0)
	if unclean {
		hold = now + 5*time.Second
	}
	for i := range d.msgs {
		d.strand(d.msgs[i].strand)
	}
	for key, s := range d.strands {
		s.pending, s.failed, s.slot, s.attemptID = false, false, "", ""
		switch s.status {
		case "leased":
			s.until = now + s.length
			if s.auto {
				d.client(s.client).seen = now
			}
		case "backing":
			s.until = max(now+s.delay, hold)
		case "":
			if s.until = 0; d.head(key) >= 0 {
				s.until = hold
			}
		}
	}
	d.step(func() {})
}

func (d *model) strand(key string) *modelStrand {
	if d.strands[key] == nil {
		d.strands[key] = &modelStrand{}
	}
	return d.strands[key]
}

func (d *model) client(id string) *modelClient {
	if d.clients[id] == nil {
		d.clients[id] = &modelClient{seen: d.now}
	}
	return d.clients[id]
}

// head is the strand's first unfinished visible message that the filter matches, or -1.
func (d *model) head(key string) int {
	for i := range d.visible {
		if m := &d.msgs[i]; m.strand == key && m.match && !m.done {
			return i
		}
	}
	return -1
}

func (d *model) sortedKeys() []string {
	keys := make([]string, 0, len(d.strands))
	for k := range d.strands {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(d.head(a), d.head(b)), strings.Compare(a, b)) })
	return keys
}

// step does f after what is due has ended, then serves and ends receives.
func (d *model) step(f func()) {
	d.expire()
	f()
	d.finishStep()
}

func (d *model) finishStep() {
	d.serve()
	slices.SortStableFunc(d.waiters, func(a, b *modelWaiter) int { return cmp.Compare(a.Until, b.Until) })
	for len(d.waiters) > 0 && d.waiters[0].Until <= d.now {
		d.answer(d.waiters[0], nil)
	}
	slices.SortFunc(d.waiters, func(a, b *modelWaiter) int { return cmp.Compare(a.ID, b.ID) })
}

// bury makes the dead letters that were asked for, each in a step of its own.
func (d *model) bury(auto bool) {
	for len(d.dead) > 0 {
		key := d.dead[0]
		d.dead = d.dead[1:]
		s := d.strands[key]
		d.buried[s.token] = true
		d.msgs[d.head(key)].done = true
		*s = modelStrand{pending: true, token: s.token, entry: s.entry}
		d.finishStep()
		if auto {
			d.sync(len(d.msgs))
		}
	}
}

func (d *model) sync(visible int) {
	for _, s := range d.strands {
		s.pending = false
	}
	d.finishStep()
	d.visible = visible
	for i := range d.msgs {
		d.strand(d.msgs[i].strand)
	}
	d.finishStep()
}

// nextDue is when something ends, at or before limit.
func (d *model) nextDue(limit clock.Mono) (clock.Mono, bool) {
	at, ok := limit, false
	see := func(t clock.Mono) {
		if t <= at {
			at, ok = t, true
		}
	}
	for _, s := range d.strands {
		if s.until > d.now {
			see(s.until)
		}
		if s.status == "leased" && s.auto {
			see(d.client(s.client).end())
		}
	}
	for _, w := range d.waiters {
		see(w.Until)
	}
	return max(at, d.now), ok
}

func (d *model) expire() {
	keys := d.sortedKeys()
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(d.strands[a].until, d.strands[b].until) })
	for _, key := range keys {
		s := d.strands[key]
		if s.until == 0 || s.until > d.now {
			continue
		}
		s.until = 0
		if s.status == "leased" {
			d.endLease(key)
		}
	}
	ids := slices.Sorted(maps.Keys(d.clients))
	keys = d.sortedKeys()
	for _, id := range ids {
		for _, key := range keys {
			if s := d.strands[key]; s.status == "leased" && s.auto && s.client == id && d.clients[id].end() <= d.now {
				d.endLease(key)
			}
		}
	}
}

func (d *model) endLease(key string) {
	s := d.strands[key]
	if d.atLimit(key) {
		return
	}
	s.close("")
}

func (s *modelStrand) close(status string) {
	s.status, s.until, s.auto, s.client, s.slot, s.attemptID, s.pending = status, 0, false, "", "", "", true
}

func (d *model) atLimit(key string) bool {
	s := d.strands[key]
	if s.attempt < d.spec.MaxAttempts || d.spec.AtLimit == keystrand.AtLimitBlock {
		return false
	}
	if d.spec.AtLimit == keystrand.AtLimitPark {
		s.close("parked")
		return true
	}
	s.close("moving")
	s.pending = false
	d.dead = append(d.dead, key)
	return true
}

func (d *model) serve() {
	for {
		served := false
		for _, w := range d.waiters {
			n := w.Max
			if w.Push {
				room := d.spec.PushWindow
				for _, s := range d.strands {
					if s.slot == w.slotName() {
						room--
					}
				}
				if d.spec.Ordered && d.spec.PushBatch == state.PushOne {
					n = 1
				}
				n = min(n, room)
			}
			var grants []string
			for _, key := range d.sortedKeys() {
				s := d.strands[key]
				if len(grants) < n && d.head(key) >= 0 && (s.status == "" || s.status == "backing") && s.until == 0 && !s.pending {
					grants = append(grants, d.grant(key, w))
				}
			}
			if len(grants) > 0 {
				d.answer(w, grants)
				served = true
				break
			}
		}
		if !served {
			return
		}
	}
}

func (w *modelWaiter) slotName() string { return fmt.Sprintf("%s/%d", w.ClientID, w.Slot) }

func (d *model) grant(key string, w *modelWaiter) string {
	s := d.strands[key]
	d.counter++
	s.status, s.attempt, s.token, s.entry, s.failed = "leased", s.attempt+1, d.epoch<<40|d.counter, d.head(key), false
	s.client, s.auto, s.attemptID, s.length = w.ClientID, w.AutoRenew, w.AttemptID, w.Lease
	if s.auto {
		s.length = d.spec.MaxProcessing
		c := d.client(w.ClientID)
		c.seen = max(c.seen, d.now)
	}
	if w.Push {
		s.slot = w.slotName()
	}
	s.until = d.now + s.length
	return d.grantText(key)
}

func (d *model) grantText(key string) string {
	s := d.strands[key]
	return fmt.Sprintf("%s#%d t%x", d.msgs[s.entry].name, s.attempt, s.token)
}

func (d *model) answer(w *modelWaiter, grants []string) {
	d.waiters = slices.DeleteFunc(d.waiters, func(x *modelWaiter) bool { return x == w })
	d.answers = append(d.answers, w.name+": "+strings.Join(grants, " "))
}

// receive mirrors Machine.Receive.
func (d *model) receive(name string, r Receive) {
	d.step(func() {
		if r.Push || r.AutoRenew || d.clients[r.ClientID] != nil {
			*d.client(r.ClientID) = modelClient{seen: d.now}
		}
		w := &modelWaiter{r, name}
		if r.AttemptID != "" {
			for _, old := range d.waiters {
				if old.AttemptID == r.AttemptID && old.ClientID == r.ClientID {
					d.answer(old, nil)
					break
				}
			}
			var open []string
			for key, s := range d.strands {
				if s.status == "leased" && s.attemptID == r.AttemptID && s.client == r.ClientID {
					open = append(open, key)
				}
			}
			if len(open) > 0 {
				slices.SortFunc(open, func(a, b string) int { return cmp.Compare(d.strands[a].token, d.strands[b].token) })
				var grants []string
				for _, key := range open {
					if s := d.strands[key]; !s.auto {
						s.length, s.until = r.Lease, d.now+r.Lease
					}
					grants = append(grants, d.grantText(key))
				}
				d.answer(w, grants)
				return
			}
		}
		d.waiters = append(d.waiters, w)
	})
}

// open is the strand whose lease h is.
func (d *model) open(h Handle) (string, *modelStrand) {
	for key, s := range d.strands {
		if s.status == "leased" && s.token == h.Token && int64(s.entry) == h.Entry {
			return key, s
		}
	}
	return "", nil
}

func (d *model) signed(s *modelStrand) {
	if s.auto {
		*d.client(s.client) = modelClient{seen: d.now}
	}
}

func (d *model) ack(h Handle) (v Verdict) {
	d.step(func() {
		_, s := d.open(h)
		switch {
		case s != nil:
			d.signed(s)
			d.acked[h.Token] = true
			d.msgs[h.Entry].done = true
			*s = modelStrand{pending: true, token: s.token, entry: s.entry}
			v = Done
		case d.acked[h.Token]:
			v = Already
		default:
			v = Stale
		}
	})
	return v
}

func (d *model) fail(h Handle, delay time.Duration) (v Verdict) {
	d.step(func() {
		key, s := d.open(h)
		if s == nil {
			v = Stale
			for _, s := range d.strands {
				if s.failed && s.token == h.Token {
					v = Already
				}
			}
			if d.acked[h.Token] || d.buried[h.Token] {
				v = Already
			}
			return
		}
		v = Done
		d.signed(s)
		s.failed = true
		if d.atLimit(key) {
			return
		}
		if delay < 0 {
			delay = d.spec.BackOffMin << min(s.failures, 20)
			delay = min(delay, d.spec.BackOffMax)
		}
		s.failures++
		s.close("backing")
		s.delay = delay
		if delay > 0 {
			s.until = d.now + delay
		}
	})
	return v
}

func (d *model) change(h Handle, length time.Duration) (v Verdict) {
	d.step(func() {
		_, s := d.open(h)
		switch {
		case s != nil:
			d.signed(s)
			s.auto, s.length, s.until = false, length, d.now+length
			d.expire()
			v = Done
		case d.acked[h.Token]:
			v = Already
		default:
			v = Stale
		}
	})
	return v
}

func (d *model) undelivered(hs []Handle) {
	d.step(func() {
		for _, h := range hs {
			if _, s := d.open(h); s != nil {
				s.close("")
				s.attempt--
			}
		}
	})
}

func (d *model) gone(id string, after time.Duration) {
	d.step(func() {
		if c := d.clients[id]; c != nil {
			c.gone, c.goneAt = true, d.now+after
			d.expire()
		}
		for _, w := range slices.Clone(d.waiters) {
			if w.ClientID == id {
				d.answer(w, nil)
			}
		}
	})
}

func (d *model) park(key string) {
	d.step(func() {
		if s := d.strand(key); s.status != "parked" {
			s.close("parked")
		}
	})
}

func (d *model) resume(key string) (ok bool) {
	d.step(func() {
		if s := d.strand(key); s.status == "parked" {
			s.status, s.attempt, s.failures, ok = "", 0, 0, true
		}
	})
	return ok
}
