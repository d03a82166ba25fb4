package history

import "math"

// replay takes one event of the second pass, in the merged order.
func (j *judge) replay(e *Event) error {
	j.progress(e)
	switch e.E {
	case Recv:
		j.received(e)
	case AckInv:
		j.ackInvoked(e)
	case AckOK:
		j.ackOK(e)
	case AckInfo, NackInfo, RenewInfo:
		delete(j.pending, e.Op)
	case NackInv:
		j.nacked(e)
	case RenewInv:
		j.renewInvoked(e)
	case RenewOK:
		j.renewOK(e)
	case LeaseEnd:
		j.leaseEnded(e)
	case DLQ:
		j.deadLettered(e)
	case Skip:
		s, k := j.at(e)
		if p := j.place(k, e); p >= 0 {
			s.finish(p)
		}
	case Park:
		j.parked(e)
	case Resume:
		s, _ := j.at(e)
		s.parked = false
	case Redrive:
		j.redriven(e)
	case Aside:
		s, _ := j.at(e)
		s.aside.add(e.ID)
	case Effect:
		j.effect(e)
	case Inbox, State:
		j.inboxRow(e)
	case Kill:
		j.dead[e.Who] = true
		if e.What == brokerRole {
			j.brokerDied, j.brokerBack = true, math.MaxInt64
		}
	case Boot:
		if e.What == brokerRole && j.brokerDied && j.brokerBack == math.MaxInt64 {
			j.brokerBack = e.T
		}
	}
	return nil
}

func (j *judge) at(e *Event) (*strand, *key) {
	k := j.truth.topic(e.Topic).key(e.Key)
	return j.strandOf(k, j.truth.group(e.Group)), k
}

// place is where the message of e stands in its key's order of truth; -1 when it stands nowhere.
func (j *judge) place(k *key, e *Event) int32 {
	if e.Queue >= 0 && e.Offset >= 0 {
		if q := k.topic.queues[e.Queue]; q != nil {
			if s := q.slots.get(e.Offset); s != nil && s.key == k && s.place > 0 {
				return s.place - 1
			}
		}
	}
	if i := k.find(e.ID); i >= 0 {
		return k.messages[i].first
	}
	return -1
}

func handOut(e *Event) int64 {
	if e.Since != 0 {
		return e.Since
	}
	return e.T
}

// received judges one hand-out: V10 (tokens), V9, V6, V7, V8 and the cause of a repeat (V18). A hand-out that breaks
// one rule is not judged by the later ones, so that one cause shows as one check.
func (j *judge) received(e *Event) {
	j.sum.Deliveries++
	s, k := j.at(e)
	p := j.place(k, e)
	if p < 0 {
		j.nowhere(e, k)
		return
	}
	j.durable(e, k)
	if e.Epoch != s.epoch {
		if e.Epoch < s.epoch {
			return // seen late: the reset came between hand-out and arrival
		}
		s.reset(e.Epoch)
	}
	repeat := s.delivered.has(p)
	if repeat {
		j.sum.Redeliveries++
	} else if k.places[p].m >= 0 && k.messages[k.places[p].m].first != p {
		j.sum.Causes.SendRetry++
	}
	ordered := k.name != "" && !k.topic.reads[s.group].unordered
	mark := s.mark(e.Broker)
	g := &s.open
	switch {
	case g.valid && e.Token == g.token && e.Token != 0 && e.Broker == g.broker && p >= g.first && p <= g.last && e.P/WorkersPerProcess == g.p/WorkersPerProcess:
		return // the same grant again: a receive repeated under its attempt id
	case e.Token != 0 && e.Token < mark.token && (ordered || repeat):
		j.fell(e, k, s, p, mark)
		return
	case e.Token != 0 && e.Token == mark.token && ordered && !(g.valid && g.token == e.Token && p == g.last+1 && e.P == g.p):
		j.add(V10, e, k, "token %d was handed out before, in line %d, and this is not the next message of that run", e.Token, g.n)
		s.deliver(k, p)
		return
	}
	if e.Token > mark.token {
		mark.token, mark.t = e.Token, e.T
	}
	if ordered {
		j.ordered(e, k, s, p, repeat)
	} else {
		j.unordered(e, k, s, p, repeat)
	}
	s.deliver(k, p)
}

// nowhere: a delivery of something that was not stored, or whose place is not known.
func (j *judge) nowhere(e *Event, k *key) {
	i := k.find(e.ID)
	switch {
	case i < 0 || !k.messages[i].invoked: // judged by V2 at the end of the first pass
	case k.topic.logged:
		j.add(V1, e, k, "delivered, but it does not stand in the read-back")
	default:
		j.unjudged("a delivery without queue and offset (line %d), and no read-back", e.N)
	}
}

// durable is V11, where the store's trace is part of the history.
func (j *judge) durable(e *Event, k *key) {
	if !j.traced || e.Queue < 0 || e.Offset < 0 {
		return
	}
	if q := k.topic.queues[e.Queue]; q != nil {
		if s := q.slots.get(e.Offset); s != nil && (s.sync == 0 || e.T < s.sync) {
			j.add(V11, e, k, "handed out before the sync that covers it returned")
		}
	}
}

// fell: a smaller token than one that was seen. A client that was held up between the hand-out and its note is no fault
// of the broker, and its hand-out lies in the past: nothing else is judged by it.
func (j *judge) fell(e *Event, k *key, s *strand, p int32, mark *tokenMark) {
	if handOut(e) > mark.t {
		j.add(V10, e, k, "token %d is handed out after %d: it must grow", e.Token, mark.token)
	} else {
		j.sum.SeenLate++
		if s.delivered.has(p) {
			j.sum.Causes.LeaseEnd++
		}
	}
	s.deliver(k, p)
}

func (j *judge) ordered(e *Event, k *key, s *strand, p int32, repeat bool) {
	g := &s.open
	if g.valid && g.token == e.Token && e.Token != 0 && p == g.last+1 && e.P == g.p && g.broker == e.Broker {
		g.last, g.unfinished = p, g.unfinished+1 // the run goes on
		s.started = true
		return
	}
	if !s.started {
		s.started = true
		if e.Epoch > 0 || k.topic.reads[s.group].latest {
			s.next, s.surely, s.maybe = p, p, p // the group begins here
		}
	}
	again := s.again.has(e.ID)
	sound := again
	if !again {
		s.pass(k)
		sound = j.orderRules(e, k, s, p, repeat)
	}
	if repeat && sound && g.valid && p >= g.first && p <= g.last {
		j.cause(e, k, s, g, p)
	}
	if sound {
		s.sound = tokenMark{e.Broker, e.Token, e.T}
	}
	if sound && !again {
		s.prove(p)
		s.withdraw(p)
	}
	*g = newGrant(e, p)
}

// orderRules is V9, V6, V7, V8, the first that fires.
func (j *judge) orderRules(e *Event, k *key, s *strand, p int32, repeat bool) bool {
	g := &s.open
	switch {
	case repeat && s.acked.has(p) && j.handedOutAfterAck(e, s, p):
		j.add(V9, e, k, "handed out again after its ack was answered ok")
	case !repeat && p != s.next && !(s.isNamed(k, p) && p > s.highest):
		j.sum.Inversions++
		j.add(V6, e, k, "first hand-out of place %d of its key, but place %d was not handed out yet", p, s.next)
	// An open message that was dead-lettered or skipped at some time of the run was ended by that.
	case g.valid && g.unfinished > 0 && (p < g.first || p > g.last) && !j.mayHaveEnded(g, e.T) && !s.isNamed(k, g.last):
		j.add(V7, e, k, "handed out while place %d of its key is out since line %d and not finished", g.last, g.n)
	case p > s.maybe:
		j.add(V8, e, k, "a run starts at place %d, but place %d is not finished", p, s.maybe)
	case p < s.surely && !s.acked.has(p):
		j.add(V8, e, k, "a run starts at place %d, behind the finished prefix, which ends at %d", p, s.surely)
	case s.sure.has(p) && !s.acked.has(p):
		j.add(V8, e, k, "a run starts at place %d, which is finished", p)
	default:
		return true
	}
	return false
}

// handedOutAfterAck: with tokens a newer grant proves it; without, the call that brought it began after the answer.
func (j *judge) handedOutAfterAck(e *Event, s *strand, p int32) bool {
	if e.Token != 0 {
		return true // older tokens were sorted out before
	}
	return int(p) < len(s.ackTime) && handOut(e) > s.ackTime[p]
}

func newGrant(e *Event, p int32) grant {
	g := grant{valid: true, broker: e.Broker, token: e.Token, first: p, last: p, p: e.P, n: e.N, t: e.T, end: math.MaxInt64, unfinished: 1}
	if e.Dur > 0 {
		g.end = handOut(e) + e.Dur
	}
	return g
}

// unordered: every message is a strand of its own, so only repeats are judged.
func (j *judge) unordered(e *Event, k *key, s *strand, p int32, repeat bool) {
	if s.single == nil {
		s.single = map[int32]*grant{}
	}
	g := s.single[p]
	if repeat {
		if s.acked.has(p) && j.handedOutAfterAck(e, s, p) && !s.again.has(e.ID) {
			j.add(V9, e, k, "handed out again after its ack was answered ok")
		} else if g != nil {
			j.cause(e, k, s, g, p)
		}
	}
	fresh := newGrant(e, p)
	s.single[p] = &fresh
}

// cause names why a message came again (V18).
func (j *judge) cause(e *Event, k *key, s *strand, g *grant, p int32) {
	c := &j.sum.Causes
	switch {
	case s.again.has(e.ID):
		c.Redrive++
	case g.nacked:
		c.Failure++
	case g.ended || g.end <= e.T:
		c.LeaseEnd++
	case j.died(g):
		c.Crash++
	case g.unknownAck || s.perhaps.has(p):
		c.LostAnswer++
	case g.valid && g.end == math.MaxInt64:
		c.NotKnown++
	default:
		c.Unexplained++
		j.add(V18, e, k, "came again while its lease of line %d ran: no failure, crash or lost answer explains it", g.n)
	}
}
