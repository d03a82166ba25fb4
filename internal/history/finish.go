package history

import "math"

// pendingOp is an ack or renewal between invoke and outcome.
type pendingOp struct {
	s        *strand
	k        *key
	p        int32
	token    uint64
	broker   string
	stale    bool   // a larger token was seen before the invoke
	larger   uint64 // that token
	renewEnd int64
}

func (j *judge) grantOf(k *key, s *strand, p int32) *grant {
	if k.name == "" || k.topic.reads[s.group].unordered {
		if g := s.single[p]; g != nil {
			return g
		}
		return &grant{}
	}
	return &s.open
}

func (g *grant) holds(e *Event, p int32) bool {
	return g.valid && g.token == e.Token && g.broker == e.Broker && p >= g.first && p <= g.last
}

func (j *judge) invoked(e *Event) (pendingOp, bool) {
	s, k := j.at(e)
	p := j.place(k, e)
	if p < 0 || e.Epoch != s.epoch {
		return pendingOp{}, false
	}
	op := pendingOp{s: s, k: k, p: p, token: e.Token, broker: e.Broker}
	largest := uint64(0)
	if s.sound.broker == e.Broker {
		largest = s.sound.token
	}
	if k.name == "" || k.topic.reads[s.group].unordered {
		largest = j.grantOf(k, s, p).token
	}
	op.stale, op.larger = e.Token < largest, largest
	return op, true
}

// ackInvoked: unless it is refused in the end, the ack may take effect from here on, and the strand may go on before
// the client reads the answer.
func (j *judge) ackInvoked(e *Event) {
	op, ok := j.invoked(e)
	if !ok || j.truth.failed[e.Op] {
		return
	}
	s, g := op.s, j.grantOf(op.k, op.s, op.p)
	if op.stale && s.ackedUnder(op.p, op.token) {
		op.stale = false // the repeat of an ack that took effect while its token was the largest
	}
	j.pending[e.Op] = op
	if !op.stale {
		s.setAck(op.p, op.token, math.MaxInt64)
	}
	s.perhaps.set(op.p)
	s.advance()
	if g.holds(e, op.p) && !g.done.has(op.p-g.first) {
		g.done.set(op.p - g.first)
		g.unfinished--
	}
	if j.truth.infos[e.Op] || j.truth.openAtEnd(e.Op) {
		g.unknownAck = true
	}
}

func (t *truth) openAtEnd(op uint64) bool { _, ok := t.open[op]; return ok }

func (j *judge) ackOK(e *Event) {
	op, ok := j.pending[e.Op]
	if !ok {
		return
	}
	delete(j.pending, e.Op)
	j.sum.Acks++
	j.refused(e, op, "an ack")
	op.s.acked.set(op.p)
	if op.token == 0 {
		op.s.setAck(op.p, 0, e.T)
	}
	op.s.finish(op.p)
	delete(op.s.single, op.p)
	delete(op.s.again, e.ID)
}

// refused is the rule of V10 for what was answered ok.
func (j *judge) refused(e *Event, op pendingOp, what string) {
	if op.stale && op.token != 0 {
		j.add(V10, e, op.k, "%s under token %d was answered ok after token %d had been handed out", what, op.token, op.larger)
	}
}

func (j *judge) nacked(e *Event) {
	s, k := j.at(e)
	p := j.place(k, e)
	if p < 0 || j.truth.failed[e.Op] {
		return
	}
	if g := j.grantOf(k, s, p); g.holds(e, p) {
		g.nacked = true
	}
}

func (j *judge) renewInvoked(e *Event) {
	op, ok := j.invoked(e)
	if !ok || j.truth.failed[e.Op] {
		return
	}
	op.renewEnd = e.T + e.Dur
	j.pending[e.Op] = op
	// Until it is known to have worked, the lease may end at the old or the new end; a known renewal is set in renewOK.
	if g := j.grantOf(op.k, op.s, op.p); g.holds(e, op.p) {
		g.end = min(g.end, op.renewEnd)
	}
}

func (j *judge) renewOK(e *Event) {
	op, ok := j.pending[e.Op]
	if !ok {
		return
	}
	delete(j.pending, e.Op)
	j.refused(e, op, "a renewal")
	if g := j.grantOf(op.k, op.s, op.p); g.holds(e, op.p) {
		g.end = op.renewEnd
	}
}

func (j *judge) leaseEnded(e *Event) {
	s, k := j.at(e)
	p := j.place(k, e)
	if p < 0 {
		return
	}
	g := j.grantOf(k, s, p)
	if g.valid && p >= g.first && p <= g.last && (e.Token == 0 || e.Token == g.token) {
		g.ended = true
	}
}

func (j *judge) parked(e *Event) {
	s, k := j.at(e)
	s.parked = true
	s.parkedAt = max(j.place(k, e), 0)
	if e.ID.IsZero() {
		s.parkedAt = s.surely
	}
}

// redriven: the message may stand at the head again, whatever became of it before.
func (j *judge) redriven(e *Event) {
	s, k := j.at(e)
	s.again.add(e.ID)
	if p := j.place(k, e); p >= 0 {
		s.acked.clear(p)
	}
	s.open = grant{}
}

func (j *judge) deadLettered(e *Event) {
	j.sum.DeadLetters++
	s, k := j.at(e)
	if s.dlq == nil {
		s.dlq = map[ID]bool{}
	}
	if s.dlq[e.ID] && !s.again.has(e.ID) {
		j.add(V13, e, k, "stands in the dead-letter queue twice")
	}
	s.dlq[e.ID] = true
	if e.Count > 0 && int64(e.Attempt) != e.Count {
		j.add(V13, e, k, "dead-lettered after %d attempts, the limit is %d", e.Attempt, e.Count)
	}
	if p := j.place(k, e); p >= 0 {
		s.finish(p)
	}
}
