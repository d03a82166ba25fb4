package history

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The model is a broker that does everything right, with clients that are killed, stopped between a hand-out and its note,
// and lose answers. Whatever happens, the judge must not alarm; and with one of three faults in the broker it must.

const (
	modelKeys    = 3
	modelClients = 3
	modelLease   = 60 // in steps
	modelBroker  = 90
)

type modelKey struct {
	log      []Event // stored messages
	head     int
	token    uint64 // of the lease; 0: free
	owner    int
	end      int // of the lease
	attempt  uint32
	finished map[int]uint64 // place -> token of its ack
	sending  *Event         // a send whose outcome is unknown: it is repeated before the next
	counter  uint32
}

type modelClient struct {
	process uint32
	asleep  int     // until this step it does nothing, and finds its leases ended then
	late    []Event // handed out, not noted yet
	held    []Event // noted, not finished
	unsure  []Event // acked without an answer
}

type model struct {
	random  *rand.Rand
	h       []Event
	step    int
	token   uint64
	op      uint64
	next    uint32 // number of the next process
	keys    [modelKeys]modelKey
	clients [modelClients]modelClient
	broken  string
	struck  bool // the fault of a broken broker showed
}

func newModel(seed uint64, broken string) *model {
	m := &model{random: rand.New(rand.NewPCG(seed, 7)), next: 10, broken: broken}
	for i := range m.keys {
		m.keys[i].finished = map[int]uint64{}
	}
	for i := range m.clients {
		m.clients[i].process, m.next = m.next, m.next+1
	}
	return m
}

func (m *model) put(e Event) { m.h = append(m.h, e) }

func (m *model) chance(percent int) bool { return m.random.IntN(100) < percent }

func (m *model) operation(e Event) Event {
	m.op++
	e.Op, e.Sum, e.Dur, e.Since = m.op, 0, 0, 0
	m.put(e)
	return e
}

// send sends the key's next message, or repeats the one that is not sure.
func (m *model) send(k int) {
	key := &m.keys[k]
	e := newEvent(SendInv)
	if key.sending != nil {
		e = *key.sending
	} else {
		key.counter++
		e.P, e.Topic, e.Key, e.ID = 5*WorkersPerProcess, "t", strings.Repeat("k", k+1), ID{5, key.counter}
	}
	e = m.operation(e)
	kind := []Kind{SendOK, SendOK, SendOK, SendInfo, SendFail}[m.random.IntN(5)]
	if kind == SendOK || kind == SendInfo && m.chance(50) {
		stored := e
		stored.E, stored.Op, stored.Queue, stored.Offset = Log, 0, int32(k), int64(len(key.log))
		key.log = append(key.log, stored)
		if kind == SendOK {
			e.Queue, e.Offset = stored.Queue, stored.Offset
		}
	}
	key.sending = nil
	if kind == SendInfo {
		again := e
		again.E = SendInv
		key.sending = &again
	}
	e.E = kind
	m.put(e)
}

// receive hands the head of a free strand to a client.
func (m *model) receive(c int) {
	client := &m.clients[c]
	for _, k := range m.random.Perm(modelKeys) {
		key := &m.keys[k]
		place := key.head
		if key.token != 0 && m.step < key.end {
			if m.broken != "leased" || place+1 >= len(key.log) {
				continue
			}
			m.struck = true
			place++ // the broken broker: the message behind the one that is out
		} else if place >= len(key.log) {
			continue
		} else {
			key.attempt++
			key.owner, key.end = c, m.step+modelLease
		}
		m.token++
		if place == key.head {
			key.token = m.token
		}
		e := key.log[place]
		e.E, e.P, e.Group, e.Token, e.Broker, e.Attempt = Recv, client.process*WorkersPerProcess, "g", m.token, "b", key.attempt
		e.Dur, e.Since = int64(modelLease*stepNs), int64(m.step)
		client.late = append(client.late, e)
		if !m.chance(20) {
			m.note(c)
		}
		return
	}
}

// stepNs is a step on the history's clock; stepsPerLine lines fit one.
const (
	stepNs       = 1000 * linesPerStep
	linesPerStep = 64
)

// note writes down what the client was handed out, perhaps long ago.
func (m *model) note(c int) {
	client := &m.clients[c]
	for _, e := range client.late {
		m.put(e)
		client.held = append(client.held, e)
	}
	client.late = nil
}

// finish acks, nacks, extends or repeats an ack, with or without an answer.
func (m *model) finish(c int) {
	client := &m.clients[c]
	if len(client.unsure) > 0 && m.chance(60) {
		d := client.unsure[0]
		client.unsure = client.unsure[1:]
		m.ack(c, d)
		return
	}
	if len(client.held) == 0 {
		return
	}
	i := m.random.IntN(len(client.held))
	d := client.held[i]
	if m.chance(15) {
		m.extend(d)
		return
	}
	client.held = append(client.held[:i:i], client.held[i+1:]...)
	if m.chance(15) {
		m.nack(d)
		return
	}
	m.ack(c, d)
}

func (m *model) of(d Event) *modelKey { return &m.keys[d.Queue] }

func (m *model) valid(d Event) bool {
	key := m.of(d)
	return key.token == d.Token && m.step < key.end
}

func (m *model) ack(c int, d Event) {
	d.E = AckInv
	e := m.operation(d)
	key := m.of(d)
	arrives := m.chance(90)
	ok := false
	if arrives {
		place := int(d.Offset)
		switch {
		case m.valid(d):
			if m.broken == "forgets" && m.chance(50) {
				m.struck = true // answered ok, not kept
				key.token = 0
			} else {
				key.finished[place] = d.Token
				key.head, key.token, key.attempt = place+1, 0, 0
			}
			ok = true
		case key.finished[place] == d.Token:
			ok = true
		case m.broken == "stale" && d.Token < m.largest(d):
			ok, m.struck = true, true
		}
	}
	switch {
	case !arrives || m.chance(15):
		e.E = AckInfo
		if c >= 0 {
			m.clients[c].unsure = append(m.clients[c].unsure, d)
		}
		if ok && m.broken != "" {
			m.struck = false // nobody saw it
		}
	case ok:
		e.E = AckOK
	default:
		e.E = AckFail
	}
	m.put(e)
}

// largest is the largest token of the strand that a client has noted.
func (m *model) largest(d Event) (token uint64) {
	for _, e := range m.h {
		if e.E == Recv && e.Key == d.Key {
			token = max(token, e.Token)
		}
	}
	return token
}

func (m *model) nack(d Event) {
	d.E = NackInv
	e := m.operation(d)
	e.E = NackFail
	if m.valid(d) {
		m.of(d).token = 0
		e.E = NackOK
	}
	m.put(e)
}

func (m *model) extend(d Event) {
	d.E = RenewInv
	m.op++
	d.Op, d.Sum, d.Since = m.op, 0, 0
	m.put(d)
	e := d
	e.Dur, e.E = 0, RenewFail
	if m.valid(d) {
		m.of(d).end = m.step + modelLease + 1 // the broker works on it after the client asked
		e.E = []Kind{RenewOK, RenewInfo}[m.random.IntN(2)]
	}
	m.put(e)
}

// killClient takes a client away with what it holds, perhaps in the middle of an ack that arrived or did not.
func (m *model) killClient(c int) {
	client := &m.clients[c]
	kill := newEvent(Kill)
	kill.P, kill.Who, kill.What = WorkersPerProcess, client.process, "consumer"
	m.put(kill)
	if len(client.held) > 0 && m.chance(50) {
		d := client.held[0]
		d.E = AckInv
		m.operation(d)
		if m.valid(d) && m.chance(50) {
			key := m.of(d)
			key.finished[int(d.Offset)] = d.Token
			key.head, key.token, key.attempt = int(d.Offset)+1, 0, 0
		}
	}
	if m.chance(50) { // the broker sees that its connection is gone
		for k := range m.keys {
			if m.keys[k].owner == c && m.keys[k].token != 0 {
				m.keys[k].end = m.step
			}
		}
	}
	*client = modelClient{process: m.next}
	m.next++
}

// restart kills the broker: every lease on record runs its whole length again.
func (m *model) restart() {
	e := newEvent(Kill)
	e.P, e.Who, e.What = WorkersPerProcess, modelBroker, "broker"
	m.put(e)
	e.E = Boot
	m.put(e)
	for k := range m.keys {
		m.keys[k].end = m.step + modelLease
	}
}

func (m *model) drain(stamp func()) {
	for range 50 * modelLease {
		m.step++
		left := false
		for k := range m.keys {
			if m.keys[k].sending != nil {
				m.send(k)
			}
			left = left || m.keys[k].head < len(m.keys[k].log) || m.keys[k].sending != nil
		}
		for c := range m.clients {
			m.note(c)
			m.receive(c)
			m.note(c)
			for len(m.clients[c].held) > 0 {
				d := m.clients[c].held[0]
				m.clients[c].held = m.clients[c].held[1:]
				m.ack(-1, d)
			}
		}
		stamp()
		if !left {
			break
		}
	}
	end := newEvent(DrainEnd)
	end.P = WorkersPerProcess
	m.put(end)
	rows := 0
	for k := range m.keys {
		for _, e := range m.keys[k].log {
			e.P = WorkersPerProcess
			m.put(e)
			rows++
		}
	}
	end.E, end.What, end.Count = ReadBack, Log.String(), int64(rows)
	m.put(end)
}

// run plays and gives each line its stamp: the step it was written in.
func (m *model) run() []Event {
	stamped := 0
	stamp := func() {
		for i := stamped; i < len(m.h); i++ {
			m.h[i].T = int64(m.step)*stepNs + int64(min(i-stamped, linesPerStep-1)+1)
			if m.h[i].E == Recv {
				m.h[i].Since *= stepNs
			}
		}
		stamped = len(m.h)
	}
	for range 50 + m.random.IntN(350) {
		m.step++
		c := m.random.IntN(modelClients)
		if m.step < m.clients[c].asleep {
			continue
		}
		switch n := 1 + m.random.IntN(100); {
		case n <= 25:
			m.send(m.random.IntN(modelKeys))
		case n <= 55:
			m.receive(c)
		case n <= 90:
			m.finish(c)
		case n <= 94:
			m.note(c)
		case n <= 96:
			m.clients[c].asleep = m.step + 2*modelLease
		case n <= 98:
			m.killClient(c)
		default:
			m.restart()
		}
		stamp()
	}
	m.drain(stamp)
	stamp()
	return m.h
}

func TestTheJudgeDoesNotAlarmAboutABrokerThatIsRight(t *testing.T) {
	t.Parallel()
	var sum Causes
	late := 0
	for seed := uint64(1); seed <= modelRuns; seed++ {
		report := judgeStamped(t, newModel(seed, "").run(), stamps{own: true})
		if report.Verdict != Pass {
			t.Fatalf("seed %d: got %s\n%s", seed, report.Verdict, text(t, report))
		}
		c := report.Summary.Causes
		sum.SendRetry, sum.Failure, sum.LeaseEnd, sum.Crash, sum.LostAnswer = sum.SendRetry+c.SendRetry, sum.Failure+c.Failure, sum.LeaseEnd+c.LeaseEnd, sum.Crash+c.Crash, sum.LostAnswer+c.LostAnswer
		late += report.Summary.SeenLate
	}
	t.Logf("repeats in %d runs: %+v; noted late: %d", modelRuns, sum, late)
	if sum.SendRetry*sum.Failure*sum.LeaseEnd*sum.Crash*late == 0 {
		t.Error("something that the judge must not alarm about never happened")
	}
}

// modelRuns is how many seeds are played.
const modelRuns = 150

func TestTheJudgeCatchesABrokerThatIsBroken(t *testing.T) {
	t.Parallel()
	for broken, check := range map[string]string{"leased": "V7", "stale": "V10", "forgets": "V9"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			struck, caught := 0, 0
			for seed := uint64(1); seed <= modelRuns; seed++ {
				m := newModel(seed, broken)
				h := m.run()
				if !m.struck {
					continue
				}
				struck++
				if slices.Contains(judgeStamped(t, h, stamps{own: true}).Violations, check) {
					caught++
				}
			}
			t.Logf("the fault struck in %d runs and was caught in %d", struck, caught)
			// What no client has noted cannot be judged, so not every run is caught.
			if caught == 0 || caught*2 < struck {
				t.Errorf("%s: %s caught %d of %d runs in which it struck", broken, check, caught, struck)
			}
		})
	}
}
