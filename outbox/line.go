package outbox

import (
	"container/heap"
	"errors"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

// limits bound what a relay holds in memory.
type limits struct {
	batch    int // rows in one send
	perGroup int // rows of one message group in memory
	rows     int // rows in memory
	unmarked int // confirmed rows whose stamp is not written yet
}

// lines decides what a relay sends next: a step machine over the message groups that have unsent rows. It does no I/O and
// has no clock; one goroutine owns it.
//
// Invariant: of a message group at most one row is out at a time, and it is the one after the last confirmed.
type lines struct {
	limits limits
	slots  map[int]int64 // token of each slot that is ours
	away   map[int]bool  // slots being given up: nothing new is sent of them
	groups map[string]*line
	ready  []*line
	held   holds
	marks  []dialect.Sent
	rows   int
	flying map[int]int // sends out per slot, and confirmed rows not yet stamped
	// again: a sweep is due, since rows were left in the database.
	again bool
}

// line is one message group.
//
// Invariant: rows are consecutive versions from sent+1 on; last is the version of the last of them, or sent.
type line struct {
	name       string
	slot       int
	rows       []dialect.OutboxEvent
	sent, last int64
	unmarked   int
	failures   int
	until      clock.Mono // held until then, when inHeap
	inHeap     bool
	out, queue bool // a row is out; the line stands in ready
	alone      bool // its last batch was rejected: it goes by itself, to find the culprit
	more       bool // the database has more rows than were loaded
}

func newLines(l limits) *lines {
	return &lines{limits: l, slots: map[int]int64{}, away: map[int]bool{}, groups: map[string]*line{}, flying: map[int]int{}}
}

// own sets which slots are ours. Lines of lost slots are forgotten; what is out stays out.
func (s *lines) own(slots []dialect.Slot) {
	s.slots = map[int]int64{}
	for _, o := range slots {
		s.slots[o.ID] = o.Token
	}
	for slot := range s.away {
		if _, ours := s.slots[slot]; !ours {
			delete(s.away, slot)
		}
	}
	for _, l := range s.groups {
		if _, ours := s.slots[l.slot]; !ours {
			s.dropRows(l)
			s.forget(l)
		}
	}
	s.again = true
}

// loaded takes rows read from the database, in order of group and version. The read saw every stamp reported by marked.
func (s *lines) loaded(rows []dialect.OutboxEvent) {
	for _, row := range rows {
		if _, ours := s.slots[row.Slot]; !ours {
			continue
		}
		l := s.groups[row.Aggregate]
		if l == nil {
			l = &line{name: row.Aggregate, slot: row.Slot, sent: row.Version - 1, last: row.Version - 1}
			s.groups[row.Aggregate] = l
		}
		if l.inHeap || row.Version <= l.last {
			continue
		}
		if len(l.rows) >= s.limits.perGroup || row.Version != l.last+1 {
			l.more = true
			continue
		}
		l.rows = append(l.rows, row)
		l.last, l.more = row.Version, len(l.rows) >= s.limits.perGroup
		s.rows++
		s.offer(l, false)
	}
}

// full reports whether no more rows should be loaded now.
func (s *lines) full() bool { return s.rows >= s.limits.rows }

// offer puts a line into the ready queue when its head may go.
func (s *lines) offer(l *line, first bool) {
	if l.queue || l.out || l.inHeap || len(l.rows) == 0 || s.away[l.slot] {
		return
	}
	l.queue = true
	if first {
		s.ready = append([]*line{l}, s.ready...)
		return
	}
	s.ready = append(s.ready, l)
}

// batch returns the heads to send together: of one topic, each of another group; nil when there is nothing to send.
func (s *lines) batch() []dialect.OutboxEvent {
	if len(s.marks) >= s.limits.unmarked {
		return nil // let the stamps catch up: a crash now repeats at most this many
	}
	var out []dialect.OutboxEvent
	keep := s.ready[:0]
	for i, l := range s.ready {
		if len(out) == s.limits.batch || (len(out) > 0 && out[0].Topic != l.rows0().Topic) || (len(out) > 0 && l.alone) {
			keep = append(keep, l)
			continue
		}
		l.queue = false
		if len(l.rows) == 0 || s.away[l.slot] {
			continue
		}
		l.out = true
		s.flying[l.slot]++
		out = append(out, l.rows[0])
		if l.alone {
			keep = append(keep, s.ready[i+1:]...)
			break
		}
	}
	clear(s.ready[len(keep):])
	s.ready = keep
	return out
}

func (l *line) rows0() dialect.OutboxEvent {
	if len(l.rows) == 0 {
		return dialect.OutboxEvent{}
	}
	return l.rows[0]
}

// confirmed: the engine has the batch. Its stamps are due; each line's next row may go.
func (s *lines) confirmed(batch []dialect.OutboxEvent) {
	for _, row := range batch {
		token, ours := s.slots[row.Slot]
		if ours {
			s.marks = append(s.marks, dialect.Sent{Slot: row.Slot, Token: token, Aggregate: row.Aggregate, Version: row.Version})
		} else {
			s.flying[row.Slot]--
		}
		l := s.groups[row.Aggregate]
		if l == nil || !l.out {
			continue
		}
		l.out, l.alone, l.failures = false, false, 0
		l.sent = row.Version
		if ours {
			l.unmarked++
		}
		if len(l.rows) > 0 && l.rows[0].Version == row.Version {
			l.rows = l.rows[1:]
			s.rows--
		}
		s.offer(l, false)
		s.forget(l)
	}
}

// Back-offs of a held head: the engine could not take anything, or refuses this message.
const (
	minHold, maxHold                 = 20 * time.Millisecond, 5 * time.Second
	minRejectedHold, maxRejectedHold = time.Second, time.Minute
)

// failed: the batch was not confirmed, and may or may not be stored. It returns the heads that are held now.
func (s *lines) failed(now clock.Mono, batch []dialect.OutboxEvent, err error) (heldRows []dialect.OutboxEvent) {
	rejected := errors.Is(err, keystrand.ErrRejected)
	for _, row := range batch {
		s.flying[row.Slot]--
		l := s.groups[row.Aggregate]
		if l == nil || !l.out {
			continue
		}
		l.out = false
		if rejected && len(batch) > 1 {
			l.alone = true // one of them is the culprit
			s.offer(l, true)
			continue
		}
		s.hold(now, l, rejected)
		heldRows = append(heldRows, row)
	}
	return heldRows
}

func (s *lines) hold(now clock.Mono, l *line, rejected bool) {
	lowest, highest := minHold, maxHold
	if rejected {
		lowest, highest = minRejectedHold, maxRejectedHold
	}
	l.failures++
	l.until = now + min(lowest<<min(l.failures-1, 16), highest)
	s.dropRows(l) // ten thousand held groups must not fill the memory of the others
	l.inHeap = true
	heap.Push(&s.held, l)
}

func (s *lines) dropRows(l *line) {
	s.rows -= len(l.rows)
	l.rows, l.last, l.more = nil, l.sent, false
}

// tick frees the heads whose hold is over; a sweep brings their rows again.
func (s *lines) tick(now clock.Mono) {
	for len(s.held) > 0 && s.held[0].until <= now {
		l := heap.Pop(&s.held).(*line)
		l.inHeap = false
		s.again = true
	}
}

// next is when the next hold ends.
func (s *lines) next() (clock.Mono, bool) {
	if len(s.held) == 0 {
		return 0, false
	}
	return s.held[0].until, true
}

// takeMarks hands over the stamps that are due.
func (s *lines) takeMarks() []dialect.Sent {
	m := s.marks
	s.marks = nil
	return m
}

// marked: the stamps are in the database, or their slots are not ours any more.
func (s *lines) marked(sent []dialect.Sent) {
	for _, m := range sent {
		s.flying[m.Slot]--
		if l := s.groups[m.Aggregate]; l != nil {
			l.unmarked = max(0, l.unmarked-1)
			s.forget(l)
		}
	}
}

// forget drops a line that has nothing left to remember.
func (s *lines) forget(l *line) {
	if l.out || l.unmarked > 0 || len(l.rows) > 0 {
		return
	}
	_, ours := s.slots[l.slot]
	if ours && (l.inHeap || l.failures > 0) {
		return
	}
	if l.inHeap {
		heap.Remove(&s.held, l.index(s.held))
		l.inHeap = false
	}
	s.again = s.again || l.more
	delete(s.groups, l.name)
}

// giveUp sets which slots are being given up: nothing new is sent of them, and they are free when idle says so. A slot that
// was to go and is to stay after all goes on.
func (s *lines) giveUp(slots []int) {
	was := s.away
	s.away = make(map[int]bool, len(slots))
	for _, slot := range slots {
		s.away[slot] = true
	}
	if len(was) == 0 {
		return
	}
	for _, l := range s.groups {
		s.offer(l, false)
	}
}

// idle lists the slots being given up that have nothing out.
func (s *lines) idle() (slots []dialect.Slot) {
	for slot := range s.away {
		if token, ours := s.slots[slot]; ours && s.flying[slot] <= 0 {
			slots = append(slots, dialect.Slot{ID: slot, Token: token})
		}
	}
	return slots
}

// holds is a heap of held lines, the earliest first.
type holds []*line

func (h holds) Len() int           { return len(h) }
func (h holds) Less(i, j int) bool { return h[i].until < h[j].until }
func (h holds) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *holds) Push(x any) { *h = append(*h, x.(*line)) }

// Pop is for container/heap.
func (h *holds) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (l *line) index(h holds) int {
	for i, x := range h {
		if x == l {
			return i
		}
	}
	return -1
}
