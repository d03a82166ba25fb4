package history

import (
	"math"
	"slices"
	"time"
)

// fault is one injected fault and what followed from it (V17).
type fault struct {
	what       string
	begin, end int64
	failed     int64 // first failed or unknown send in it
	ok         int64 // first ok send after that, or after begin
	silence    int64 // longest of any key that overlaps it
}

// FaultReport is V17 for one fault; -1 means that it did not happen.
type FaultReport struct {
	What           string        `json:"what"`
	Length         time.Duration `json:"length_ns"`
	ToFirstFailure time.Duration `json:"to_first_failure_ns"`
	ToFirstOK      time.Duration `json:"to_first_ok_ns"`
	LongestSilence time.Duration `json:"longest_silence_ns"`
}

func (j *judge) faultEnded(e *Event) {
	for _, f := range slices.Backward(j.truth.faults) {
		if f.what == e.What && f.end == math.MaxInt64 {
			f.end = e.T
			return
		}
	}
	j.unjudged("the end of a fault that never began: %q (line %d)", e.What, e.N)
}

// progress keeps the times of V17.
func (j *judge) progress(e *Event) {
	switch e.E {
	case SendOK:
		j.touch(e)
		for _, f := range j.truth.faults {
			if f.ok == 0 && e.T > f.begin && (f.failed != 0 || e.T > f.end) {
				f.ok = e.T
			}
		}
		if j.firstOKAfterFaults == 0 && j.firstTryAfterFaults != 0 {
			j.firstOKAfterFaults = e.T
		}
	case SendInv:
		if j.firstTryAfterFaults == 0 && e.T > j.lastFaultEnd {
			j.firstTryAfterFaults = e.T // nobody may have wanted to send for a while
		}
	case SendFail, SendInfo:
		for _, f := range j.truth.faults {
			if f.failed == 0 && e.T > f.begin && e.T <= f.end {
				f.failed = e.T
			}
		}
	case Recv:
		j.touch(e)
	case AckOK:
		j.lastAck = e.T
	}
}

func (j *judge) touch(e *Event) {
	if len(j.truth.faults) == 0 {
		return
	}
	k := j.truth.topic(e.Topic).key(e.Key)
	last := k.lastT
	k.lastT = e.T
	if last == 0 {
		return
	}
	for _, f := range j.truth.faults {
		if last < f.end && e.T > f.begin {
			f.silence = max(f.silence, e.T-last)
		}
	}
}

// deliveredAll is V16 for one key: every ok send was delivered to each group of the topic, or dead-lettered, or waits at
// or behind a parked head.
func (j *judge) deliveredAll(t *topic, k *key) {
	for g, read := range t.reads {
		if read.latest {
			continue // where it began is not known per key
		}
		var s *strand
		if g < len(k.strands) {
			s = k.strands[g]
		}
		for p := range k.places {
			m := &k.messages[k.places[p].m]
			if m.first != int32(p) || !m.invoked {
				continue
			}
			j.deliveredOne(k, s, g, int32(p), m)
		}
	}
}

func (j *judge) deliveredOne(k *key, s *strand, g int, p int32, m *message) {
	if s != nil {
		if s.parked && p >= s.parkedAt {
			j.sum.Parked++
			return
		}
		if s.delivered.has(p) || s.named.has(m.id) {
			return
		}
		if s.epoch > 0 {
			return // a reset may have gone past it
		}
	}
	j.sum.Undelivered++
	j.add(V16, &Event{N: k.places[p].n, T: m.inv, Topic: k.topic.name, Group: j.truth.names[g], Key: k.name, ID: m.id}, k,
		"stored, and never delivered to group %q", j.truth.names[g])
}
