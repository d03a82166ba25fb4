package history

import "math"

// strand is what the second pass keeps of one (consumer group, topic, key).
//
// Invariant: surely <= maybe; places below surely are finished, places below maybe are finished if every ack whose
// outcome is not known took effect.
type strand struct {
	group int
	named ids // dead-lettered or skipped somewhere in the run (first pass)
	aside ids
	again ids // redriven by an operator, not finished since

	epoch     uint32
	started   bool  // something of this epoch was handed out
	next      int32 // the least place never handed out, and not named
	highest   int32 // the largest place handed out; -1 none
	surely    int32
	maybe     int32
	delivered bits
	acked     bits // ack answered ok
	sure      bits // finished for sure
	perhaps   bits // an ack was invoked and not refused
	ackToken  []uint64
	ackTime   []int64 // only where there are no tokens

	tokens []tokenMark
	sound  tokenMark // the latest hand-out that broke no rule: what the acks of older ones are refused by
	open   grant
	single map[int32]*grant // of unordered groups, by place

	parked   bool
	parkedAt int32

	versions  versions
	effects   map[ID]int32 // of messages without version
	inbox     versions
	inboxIDs  map[ID]int32
	state     uint64
	hasState  bool
	effectTok tokenMark
	dlq       map[ID]bool
}

// tokenMark is the largest token handed out by one broker id.
type tokenMark struct {
	broker string
	token  uint64
	t      int64
}

// grant is the latest hand-out of a strand.
type grant struct {
	valid       bool
	broker      string
	token       uint64
	first, last int32
	p           uint32
	n           uint64
	t           int64
	end         int64 // the earliest moment at which the lease may have ended; MaxInt64: not known
	unfinished  int32 // of the run
	done        bits  // of the run, from first: an ack was invoked and not refused
	nacked      bool
	ended       bool // lease.end
	unknownAck  bool
}

type ids map[ID]struct{}

func (s *ids) add(id ID) {
	if *s == nil {
		*s = ids{}
	}
	(*s)[id] = struct{}{}
}

func (s ids) has(id ID) bool { _, ok := s[id]; return ok }

// versions counts the rows per version of one aggregate; rows come in commit order.
type versions struct {
	count sparse[int32]
	last  uint64
	high  uint64
	rows  int
}

func (v *versions) add(version uint64) int32 {
	c := v.count.at(int64(version))
	*c++
	v.rows++
	v.last, v.high = version, max(v.high, version)
	return *c
}

func (v *versions) of(version uint64) int32 {
	if c := v.count.get(int64(version)); c != nil {
		return *c
	}
	return 0
}

// strand finds or makes the strand of an event.
func (j *judge) strand(e *Event) *strand {
	k := j.truth.topic(e.Topic).key(e.Key)
	return j.strandOf(k, j.truth.group(e.Group))
}

func (j *judge) strandOf(k *key, g int) *strand {
	for len(k.strands) <= g {
		k.strands = append(k.strands, nil)
	}
	if k.strands[g] == nil {
		k.strands[g] = &strand{group: g, highest: -1}
	}
	return k.strands[g]
}

// mark returns the largest token of the broker.
func (s *strand) mark(broker string) *tokenMark {
	for i := range s.tokens {
		if s.tokens[i].broker == broker {
			return &s.tokens[i]
		}
	}
	s.tokens = append(s.tokens, tokenMark{broker: broker})
	return &s.tokens[len(s.tokens)-1]
}

// finish notes that place p is finished for sure and moves the prefixes.
func (s *strand) finish(p int32) {
	s.sure.set(p)
	s.perhaps.set(p)
	s.advance()
}

func (s *strand) advance() {
	for s.sure.has(s.surely) {
		s.surely++
	}
	s.maybe = max(s.maybe, s.surely)
	for s.perhaps.has(s.maybe) {
		s.maybe++
	}
}

// prove: place p was handed out rightly, so everything before it is finished.
func (s *strand) prove(p int32) {
	if p > s.surely {
		s.surely = p
		s.advance()
	}
}

// withdraw: place p came again, so an ack of it whose outcome is not known did not take effect.
func (s *strand) withdraw(p int32) {
	if !s.sure.has(p) {
		s.perhaps.clear(p)
		s.maybe = max(s.surely, min(s.maybe, p))
	}
}

// isNamed reports whether the message at p was dead-lettered or skipped somewhere in the run.
func (s *strand) isNamed(k *key, p int32) bool {
	return len(s.named) > 0 && s.named.has(k.messages[k.places[p].m].id)
}

// deliver notes that place p was handed out.
func (s *strand) deliver(k *key, p int32) {
	s.delivered.set(p)
	s.highest = max(s.highest, p)
	s.pass(k)
}

// pass moves next and the prefixes over what was named as dead-lettered or skipped.
func (s *strand) pass(k *key) {
	for int(s.next) < len(k.places) && (s.delivered.has(s.next) || s.isNamed(k, s.next)) {
		s.next++
	}
	if len(s.named) == 0 {
		return
	}
	for int(s.maybe) < len(k.places) && (s.perhaps.has(s.maybe) || s.isNamed(k, s.maybe)) {
		s.maybe++
	}
}

// reset begins a new epoch: the group's offsets were set anew, nothing of the old one binds.
func (s *strand) reset(epoch uint32) {
	s.epoch, s.started, s.next, s.highest, s.surely, s.maybe = epoch, false, 0, -1, 0, 0
	s.delivered, s.acked, s.sure, s.perhaps, s.ackToken, s.ackTime = nil, nil, nil, nil, nil, nil
	s.open = grant{}
}

// mayHaveEnded reports whether the lease may have ended by t, of itself or with its client or broker.
func (j *judge) mayHaveEnded(g *grant, t int64) bool {
	return g.nacked || g.ended || g.end <= t || j.died(g)
}

// brokerRole is the role in kill and boot events that is every strand's business.
const brokerRole = "broker"

// died reports whether the client or the broker of a hand-out has died since. A kill is noted before the signal, and numbers of
// processes are not reused: a hand-out that a client notes after its own kill was noted is its last. A broker's ends with
// the start of the next.
func (j *judge) died(g *grant) bool {
	return j.dead[g.p/WorkersPerProcess] || j.brokerDied && g.t <= j.brokerBack
}

// set and get of the token under which a place was first acked while it was valid.
func (s *strand) setAck(p int32, token uint64, t int64) {
	for int(p) >= len(s.ackToken) {
		s.ackToken = append(s.ackToken, 0)
	}
	s.ackToken[p] = token
	if token == 0 {
		for int(p) >= len(s.ackTime) {
			s.ackTime = append(s.ackTime, math.MaxInt64)
		}
		s.ackTime[p] = t
	}
}

func (s *strand) ackedUnder(p int32, token uint64) bool {
	return token != 0 && int(p) < len(s.ackToken) && s.ackToken[p] == token
}
