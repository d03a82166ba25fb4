package sequencer_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// verifier judges a recovered broker against what its callers had been told.
type verifier struct {
	ctx   context.Context
	q     *sequencer.Sequencer
	tells []told // before the crash
	asked []told // before or during it: what was invoked may have happened
	wrong []string

	log     map[string][]keystrand.Delivery // read-back of the topic per message group, in its order
	byID    map[string]keystrand.Delivery
	dead    map[string]int // ids in the dead-letter topic of group "dead"
	largest uint64         // token
}

func newVerifier(ctx context.Context, q *sequencer.Sequencer, tells, asked []told) *verifier {
	return &verifier{ctx: ctx, q: q, tells: tells, asked: asked, log: map[string][]keystrand.Delivery{}, byID: map[string]keystrand.Delivery{}, dead: map[string]int{}}
}

func (v *verifier) say(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// told returns the last thing told of one kind about (id, group), if any.
func (v *verifier) told(what, id, group string) (told, bool) {
	tells := v.tells
	if strings.HasSuffix(what, "invoked") {
		tells = v.asked
	}
	for _, t := range slices.Backward(tells) {
		if t.what == what && t.id == id && t.group == group {
			return t, true
		}
	}
	return told{}, false
}

func (v *verifier) check() {
	v.checkNames()
	if _, ok := v.q.Topic(crashTopic); !ok {
		return // nothing was told but names
	}
	v.readBack()
	v.checkSends()
	for _, g := range []string{"dead", "park"} {
		if _, ok := v.q.Group(g); ok {
			v.drain(g)
		}
	}
}

// checkNames: I22, what was created is there.
func (v *verifier) checkNames() {
	for _, t := range v.tells {
		ok := true
		switch t.what {
		case topicOK:
			_, ok = v.q.Topic(t.id)
		case groupOK:
			_, ok = v.q.Group(t.id)
		case delivered:
			v.largest = max(v.largest, t.token)
		}
		if !ok {
			v.say("I22: %s %q is gone", t.what, t.id)
		}
	}
}

func (v *verifier) browse(topic string, f func(d keystrand.Delivery)) {
	for from := int64(0); ; {
		got, err := v.q.Browse(v.ctx, topic, from, 100)
		for _, d := range got {
			f(d)
		}
		if err != nil {
			v.say("read-back of %s: %v", topic, err)
			return
		}
		if len(got) == 0 {
			return
		}
		from += int64(len(got))
	}
}

// readBack reads everything: I2 nothing that was not sent, no id twice; I3 offsets dense; bodies whole.
func (v *verifier) readBack() {
	next := map[int32]keystrand.Offset{}
	v.browse(crashTopic, func(d keystrand.Delivery) {
		if d.Offset != next[d.Queue] {
			v.say("I3: queue %d has offset %d where %d is next", d.Queue, d.Offset, next[d.Queue])
		}
		next[d.Queue] = d.Offset + 1
		if _, twice := v.byID[d.ID]; twice {
			v.say("I2: %s stands twice in the log", d.ID)
		}
		if _, sent := v.told(sendInvoked, d.ID, d.MessageGroup); !sent {
			v.say("I2: %s was never sent", d.ID)
		}
		if string(d.Body) != string(messageBody(d.ID)) {
			v.say("I1: %s has another body", d.ID)
		}
		v.byID[d.ID] = d
		v.log[d.MessageGroup] = append(v.log[d.MessageGroup], d)
	})
	v.readDead()
}

// readDead reads the dead-letter topic: I15, an id stands in it once.
func (v *verifier) readDead() {
	clear(v.dead)
	if _, ok := v.q.Topic("%DLQ%dead"); !ok {
		return
	}
	v.browse("%DLQ%dead", func(d keystrand.Delivery) {
		if v.dead[d.ID]++; v.dead[d.ID] > 1 {
			v.say("I15: %s is %d times in the dead-letter topic", d.ID, v.dead[d.ID])
		}
	})
}

// checkSends: I1 what was answered is at its place; I4 the groups stand in send order; a batch is there whole or not at all
// (P06) because order and places hold.
func (v *verifier) checkSends() {
	for _, t := range v.tells {
		if t.what != sendOK {
			continue
		}
		d, ok := v.byID[t.id]
		switch {
		case !ok:
			v.say("I1: %s was answered and is lost", t.id)
		case d.Queue != t.queue || d.Offset != t.offset:
			v.say("I3: %s was answered as queue %d offset %d, stands at queue %d offset %d", t.id, t.queue, t.offset, d.Queue, d.Offset)
		}
	}
	for group, log := range v.log {
		last := 0
		for _, d := range log {
			_, number, _ := strings.Cut(d.ID, "-")
			n, err := strconv.Atoi(number)
			if err != nil || n <= last {
				v.say("I4: %s of group %s stands behind number %d (%v)", d.ID, group, last, err)
			}
			last = n
		}
	}
}

// drain takes and acks everything, and judges what comes: I5 order, I6 prefix, I7 no resurrection, I9 nothing left out,
// I15 dead letters, V10 tokens.
func (v *verifier) drain(g string) {
	came := map[string][]string{}
	largest := v.largest
	for {
		got, err := v.q.Receive(v.ctx, sequencer.Receive{Group: g, Topic: crashTopic, Max: 32, Wait: 3 * time.Minute, Lease: time.Hour, ClientID: "drain"})
		if err != nil {
			v.say("drain of %s: %v", g, err)
			return
		}
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			v.checkDelivery(g, d)
			if d.Token.Value <= largest {
				v.say("V10: token %d of %s is not above %d", d.Token.Value, d.ID, largest)
			}
			largest = max(largest, d.Token.Value)
			came[d.MessageGroup] = append(came[d.MessageGroup], d.ID)
			if err := v.q.Ack(v.ctx, g, crashTopic, d.ReceiptHandle)[0]; err != nil {
				v.say("drain of %s: ack of %s: %v", g, d.ID, err)
			}
		}
	}
	v.largest = largest
	v.readDead() // a move that the crash interrupted was done meanwhile
	for group := range v.log {
		v.checkGroup(g, group, came[group])
	}
}

func (v *verifier) checkDelivery(g string, d keystrand.Delivery) {
	if _, done := v.told(ackOK, d.ID, g); done {
		v.say("I7: %s was acked for %s and comes again", d.ID, g)
	}
	if g == "dead" && v.dead[d.ID] > 0 {
		v.say("I15: %s is in the dead-letter topic and comes again", d.ID)
	}
	if t, failed := v.told(failOK, d.ID, g); failed && d.Attempt <= t.n {
		if _, restarted := v.told(resumed, d.MessageGroup, g); !restarted {
			v.say("I11: %s failed as attempt %d for %s and comes as attempt %d", d.ID, t.n, g, d.Attempt)
		}
	}
}

// checkGroup compares what came of one message group with its log: a finished prefix, then what came, in order and without
// a hole, then, only if the strand is parked, a rest.
func (v *verifier) checkGroup(g, group string, came []string) {
	x, err := v.q.Explain(v.ctx, g, crashTopic, group)
	if err != nil {
		v.say("explain of %s for %s: %v", group, g, err)
		return
	}
	log := v.log[group]
	i := 0
	for ; i < len(log) && (len(came) == 0 || log[i].ID != came[0]) && !(x.Status == "parked" && x.HeadID == log[i].ID); i++ {
		if !v.mayBeAcked(g, log[i].ID) && !(g == "dead" && v.dead[log[i].ID] > 0) {
			v.say("I9: %s of %s was passed over for %s", log[i].ID, group, g)
		}
	}
	for _, id := range came {
		if i == len(log) || log[i].ID != id {
			v.say("I5: group %s for %s: %v came, the log is %v", group, g, came, idsOf(log))
			return
		}
		i++
	}
	parkTold, _ := v.told(parkInvoked, group, g)
	mayPark := parkTold.what != "" || g == "park" // by the operator, or at the limit
	if i < len(log) && (x.Status != "parked" || x.HeadID != log[i].ID || !mayPark) {
		v.say("I9: group %s for %s stops before %s, its strand is %s at %q", group, g, log[i].ID, x.Status, x.HeadID)
	}
	if _, was := v.told(parkOK, group, g); was && x.Status != "parked" {
		if _, again := v.told(resumed, group, g); !again {
			v.say("I6: group %s was parked for %s and is %s", group, g, x.Status)
		}
	}
}

// mayBeAcked: an ack of it was asked for and not refused.
func (v *verifier) mayBeAcked(g, id string) bool {
	asked := false
	for _, t := range v.asked {
		if t.id == id && t.group == g {
			asked = asked && t.what != ackRefused || t.what == ackInvoked
		}
	}
	return asked
}

func idsOf(deliveries []keystrand.Delivery) (out []string) {
	for _, d := range deliveries {
		out = append(out, d.ID)
	}
	return out
}
