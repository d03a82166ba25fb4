package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The judge's own tests: a clean history of two topics is generated, exactly one change is made, and the named check and
// no other must fire.

const (
	broker1  = "00000000000000aa"
	consumer = "g"
)

// script builds a history as a list whose order is the order of time; stamps are given at the end.
type script struct {
	events  []Event
	op      uint64
	token   uint64
	offsets map[string]int64
	log     []Event
	effects []Event
	inboxes []Event
	states  map[string]uint64
}

func (s *script) put(e Event) { s.events = append(s.events, e) }

func (s *script) event(kind Kind, p uint32) Event {
	e := newEvent(kind)
	e.P = p * WorkersPerProcess
	return e
}

// send is a whole send with its outcome; it stores the message at the next offset of the topic's queue 0.
func (s *script) send(p uint32, topic, key string, id ID, version uint64, outcome Kind) Event {
	inv := s.invoke(p, topic, key, id, version)
	return s.outcome(inv, outcome)
}

func (s *script) invoke(p uint32, topic, key string, id ID, version uint64) Event {
	s.op++
	e := s.event(SendInv, p)
	e.Op, e.Topic, e.Key, e.ID, e.Version, e.Sum = s.op, topic, key, id, version, 7000+uint64(id.Counter)
	s.put(e)
	return e
}

func (s *script) outcome(inv Event, outcome Kind) Event {
	e := inv
	e.E, e.Queue, e.Offset = Log, 0, s.offsets[inv.Topic]
	e.P = 9 * WorkersPerProcess
	e.Seq, e.Op = e.Offset, 0
	s.log = append(s.log, e)
	s.offsets[inv.Topic]++
	done := inv
	done.E, done.Sum = outcome, 0
	if outcome == SendOK {
		done.Queue, done.Offset = 0, e.Offset
	}
	s.put(done)
	return e
}

// hand is the hand-out of a stored message, with a new token.
func (s *script) hand(p uint32, m Event, attempt uint32) Event {
	s.token++
	e := m
	e.E, e.P, e.Group, e.Token, e.Broker, e.Attempt, e.Seq, e.Dur = Recv, p*WorkersPerProcess, consumer, s.token, broker1, attempt, -1, int64(1e12)
	s.put(e)
	return e
}

func (s *script) finish(d Event, invoke, outcome Kind) {
	s.op++
	e := d
	e.E, e.Op, e.Sum, e.Dur = invoke, s.op, 0, 0
	s.put(e)
	e.E = outcome
	s.put(e)
}

// apply is a delivery that is handled and acked; with a version it leaves its rows.
func (s *script) apply(p uint32, m Event) {
	d := s.hand(p, m, 1)
	s.row(d)
	s.finish(d, AckInv, AckOK)
}

func (s *script) row(d Event) {
	if d.Version == 0 || d.Version <= s.states[d.Key] {
		return
	}
	e := d
	e.E, e.P, e.Sum, e.Dur, e.Queue, e.Offset = Effect, 9*WorkersPerProcess, 0, 0, -1, -1
	s.effects = append(s.effects, e)
	e.E = Inbox
	s.inboxes = append(s.inboxes, e)
	s.states[d.Key] = d.Version
}

// cleanHistory has in topic "plain": key "a" (six messages of one producer), key "two" (two producers, sends one after the
// other), key "overlap" (two producers, sends at the same time), key "again" (failure, lease end, lost ack answer, a send
// stored twice), key "refused" (a failed send). In "orders": an outbox key with five versions, an early copy of version
// 3, a killed consumer; a parked key; a dead-lettered message.
func cleanHistory() []Event {
	s := &script{offsets: map[string]int64{}, states: map[string]uint64{}}
	var a []Event
	for i := uint32(1); i <= 6; i++ {
		a = append(a, s.send(1, "plain", "a", ID{1, i}, 0, SendOK))
	}
	for i, m := range a {
		s.apply(3+uint32(i)%2, m)
	}
	first := s.send(1, "plain", "two", ID{1, 1}, 0, SendOK)
	second := s.send(2, "plain", "two", ID{2, 1}, 0, SendOK)
	s.apply(3, first)
	s.apply(4, second)
	one, two := s.invoke(1, "plain", "overlap", ID{1, 1}, 0), s.invoke(2, "plain", "overlap", ID{2, 1}, 0)
	first, second = s.outcome(one, SendOK), s.outcome(two, SendOK)
	s.apply(3, first)
	s.apply(3, second)
	s.repeats()
	s.refusedSend()
	s.orders()
	s.readBack()
	return s.events
}

func (s *script) repeats() {
	m := s.send(1, "plain", "again", ID{1, 1}, 0, SendOK)
	s.finish(s.hand(3, m, 1), NackInv, NackOK)
	d := s.hand(3, m, 2)
	s.finish(d, AckInv, AckOK)
	m = s.send(1, "plain", "again", ID{1, 2}, 0, SendInfo)
	s.send(1, "plain", "again", ID{1, 2}, 0, SendOK) // the retry: a second copy
	copied := s.log[len(s.log)-1]
	d = s.hand(3, m, 1)
	end := d
	end.E = LeaseEnd
	s.put(end)
	late := s.hand(4, m, 2)
	s.finish(d, AckInv, AckFail) // the former owner is refused
	s.finish(late, AckInv, AckInfo)
	d = s.hand(3, copied, 1) // proves that the ack took effect
	s.finish(late, AckInv, AckOK)
	s.finish(d, AckInv, AckOK)
}

func (s *script) refusedSend() {
	m := s.send(1, "plain", "refused", ID{1, 1}, 0, SendOK)
	inv := s.invoke(1, "plain", "refused", ID{1, 2}, 0)
	inv.E, inv.Sum, inv.Err = SendFail, 0, "too large"
	s.put(inv)
	s.apply(4, m)
}

func (s *script) orders() {
	v := func(version uint32) Event { return s.send(5, "orders", "o1", ID{0, version}, uint64(version), SendOK) }
	v1 := v(1)
	early := s.send(6, "orders", "o1", ID{6, 1}, 3, SendOK)
	v2, v3, v4 := v(2), v(3), v(4)
	s.apply(3, v1)
	s.finish(s.hand(3, early, 1), AckInv, AckOK) // waits in the gap buffer
	s.apply(3, v2)
	s.row(v3Of(s, v3))
	s.apply(4, v3)
	s.hand(4, v4, 1) // the consumer dies in its transaction
	kill := s.event(Kill, 9)
	kill.Who, kill.What = 4, "consumer"
	s.put(kill)
	s.row(s.lastHand(v4))
	d := s.hand(7, v4, 2)
	s.finish(d, AckInv, AckOK)
	v5 := v(5)
	s.apply(7, v5)

	poison := s.send(5, "orders", "o2", ID{0, 1}, 1, SendOK)
	s.send(5, "orders", "o2", ID{0, 2}, 2, SendOK)
	s.finish(s.hand(3, poison, 1), NackInv, NackOK)
	d = s.hand(3, poison, 2)
	s.finish(d, NackInv, NackOK)
	d.E = Park
	s.put(d)

	dead := s.send(5, "orders", "o3", ID{0, 1}, 1, SendOK)
	d = s.hand(3, dead, 1)
	s.finish(d, NackInv, NackOK)
	d.E, d.Count = DLQ, 1
	s.put(d)
	fault := s.event(FaultBegin, 9)
	fault.What = "broker killed"
	s.put(fault)
	fault.E = FaultEnd
	s.put(fault)
	s.send(5, "orders", "o4", ID{0, 1}, 1, SendOK)
	s.apply(3, s.log[len(s.log)-1])
}

func v3Of(s *script, v3 Event) Event {
	v3.Group, v3.Token, v3.Broker = consumer, s.token, broker1
	return v3
}

func (s *script) lastHand(m Event) Event {
	m.Group, m.Token, m.Broker = consumer, s.token, broker1
	return m
}

func (s *script) readBack() {
	s.put(s.event(WantMark, 9))
	s.events[len(s.events)-1].What = "stale ack refused"
	s.put(s.event(Mark, 9))
	s.events[len(s.events)-1].What = "stale ack refused"
	s.put(s.event(DrainBegin, 9))
	s.put(s.event(DrainEnd, 9))
	rows := func(kind Kind, list []Event) {
		for _, e := range list {
			e.E = kind
			s.put(e)
		}
		e := s.event(ReadBack, 9)
		e.What, e.Count = kind.String(), int64(len(list))
		s.put(e)
	}
	rows(Log, s.log)
	rows(Effect, s.effects)
	rows(Inbox, s.inboxes)
	var states []Event
	for _, key := range sortedKeys(s.states) {
		e := s.event(State, 9)
		e.Topic, e.Group, e.Key, e.Version = "orders", consumer, key, s.states[key]
		states = append(states, e)
	}
	rows(State, states)
	var outbox []Event
	for _, m := range s.log {
		if m.ID.Producer == 0 {
			m.Queue, m.Offset, m.Seq = -1, -1, -1
			outbox = append(outbox, m)
		}
	}
	rows(Outbox, outbox)
}

// stamp gives times by place in the list and writes one file per process.
func judgeEvents(t testing.TB, events []Event) *Report { return judgeStamped(t, events, stamps{}) }

// stamps are exceptions: the place in the list before which the call of some hand-outs began, and the place from which
// everything is that much later.
type stamps struct {
	since    map[int]int
	laterAt  int
	laterFor time.Duration
	own      bool // the events have stamps of their own
}

func judgeStamped(t testing.TB, events []Event, s stamps) *Report {
	t.Helper()
	dir := t.TempDir()
	content := map[uint32][]byte{}
	for i := range events {
		e := events[i]
		if s.own {
			content[e.P/WorkersPerProcess] = Append(content[e.P/WorkersPerProcess], &e)
			continue
		}
		e.T = int64(i+1) * 1000
		if s.laterFor > 0 && i >= s.laterAt {
			e.T += int64(s.laterFor)
		}
		if e.E == Recv {
			e.Since = e.T - 500
			if from, ok := s.since[i]; ok {
				e.Since = int64(from+1)*1000 - 500
			}
		}
		content[e.P/WorkersPerProcess] = Append(content[e.P/WorkersPerProcess], &e)
	}
	var files []string
	for p, lines := range content {
		path := filepath.Join(dir, fmt.Sprintf("p%d.jsonl", p))
		if err := os.WriteFile(path, lines, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	slices.Sort(files)
	r, err := Check(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t testing.TB, events []Event, kind Kind, topic, key string, id ID, nth int) int {
	t.Helper()
	for i, e := range events {
		if e.E == kind && e.Topic == topic && e.Key == key && e.ID == id {
			if nth--; nth == 0 {
				return i
			}
		}
	}
	t.Fatalf("no %s of %s in %s/%s", kind, id, topic, key)
	return -1
}

// drop removes what f picks, and corrects the counts of the read-back.
func drop(events []Event, f func(Event) bool) []Event {
	removed := map[string]int64{}
	out := slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		if f(e) {
			removed[e.E.String()]++
			return true
		}
		return false
	})
	for i := range out {
		if out[i].E == ReadBack {
			out[i].Count -= removed[out[i].What]
		}
	}
	return out
}

// after puts extra events behind place i.
func after(events []Event, i int, extra ...Event) []Event {
	return slices.Insert(slices.Clone(events), i+1, extra...)
}

// exchange swaps the log places of two messages of a key, and with them what was delivered there.
func exchange(t testing.TB, events []Event, key string, a, b ID) []Event {
	out := slices.Clone(events)
	i, j := find(t, out, SendOK, "plain", key, a, 1), find(t, out, SendOK, "plain", key, b, 1)
	out[i].Offset, out[j].Offset = out[j].Offset, out[i].Offset
	sums := map[ID]uint64{}
	for _, e := range out {
		if e.E == SendInv && e.Key == key {
			sums[e.ID] = e.Sum
		}
	}
	for i := range out {
		e := &out[i]
		if e.Key != key || e.E < Recv || e.E == Outbox {
			continue
		}
		switch e.ID {
		case a:
			e.ID = b
		case b:
			e.ID = a
		}
		if e.Sum != 0 {
			e.Sum = sums[e.ID]
		}
	}
	return out
}

func TestCleanHistoryPasses(t *testing.T) {
	t.Parallel()
	r := judgeEvents(t, cleanHistory())
	if r.Verdict != Pass {
		t.Fatalf("clean history: %s\n%s", r.Verdict, text(t, r))
	}
	for _, c := range r.Checks {
		if c.Verdict == NoData && c.ID != "V11" {
			t.Errorf("the clean history has no data for %s, so its tests prove nothing", c.ID)
		}
	}
	want := Causes{SendRetry: 1, Failure: 2, LeaseEnd: 1, Crash: 1}
	if r.Summary.Causes != want {
		t.Errorf("causes of repeats: got %+v, want %+v", r.Summary.Causes, want)
	}
}
