package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options of Check. The zero value works.
type Options struct {
	// Cases is how many cases of each check are kept, with the lines around them. 0 means 20.
	Cases int
	// Marks must have been reached (V19), besides those that the history itself wants.
	Marks []string
}

const (
	defaultCases  = 20
	maxUnjudged   = 20 // reasons for "unknown" that are kept
	linesBefore   = 4  // of the same key, around a case
	linesAfter    = 3
	recoveryBound = 10 * time.Second // sends succeed again within it after the last fault (I20)
)

// judge is the state of one Check.
type judge struct {
	options Options
	truth   *truth
	checks  [checkCount]CheckReport
	why     []string // reasons for "unknown"
	whyMore int
	sum     Summary

	traced         bool // the store's sync trace is there (V11)
	pending        map[uint64]pendingOp
	dead           map[uint32]bool   // whose kill was noted by now
	brokerDied     bool              // a broker's was
	brokerBack     int64             // when the next one was started; MaxInt64: not yet
	applied        map[readerOf]bool // who has effect rows
	joined         map[readerOf]bool // who has inbox rows
	brokenVersions map[*key]bool

	lastFaultEnd, firstTryAfterFaults, firstOKAfterFaults, lastAck int64
}

// readerOf is a consumer group on a topic.
type readerOf struct {
	topic *topic
	group int
}

// Check judges the merged history of the files. An error means that they could not be read; what could not be decided
// is the verdict Unknown, with its reasons.
func Check(files []string, options Options) (*Report, error) {
	began := time.Now()
	if len(files) == 0 {
		return nil, errors.New("no history file to judge")
	}
	if options.Cases <= 0 {
		options.Cases = defaultCases
	}
	j := &judge{options: options, truth: newTruth(), pending: map[uint64]pendingOp{}, dead: map[uint32]bool{},
		applied: map[readerOf]bool{}, joined: map[readerOf]bool{}, brokenVersions: map[*key]bool{}}
	for c := V1; c < checkCount; c++ {
		j.checks[c] = CheckReport{ID: c.String(), Name: c.Name()}
	}
	torn, err := Read(files, j.collect)
	if err != nil {
		return nil, err
	}
	j.sum.TornLines = torn
	j.settle()
	j.sendRules()
	for _, f := range j.truth.faults {
		j.lastFaultEnd = max(j.lastFaultEnd, min(f.end, j.truth.lastT))
	}
	if _, err := Read(files, j.replay); err != nil {
		return nil, err
	}
	j.end()
	if err := j.surroundings(files); err != nil {
		return nil, err
	}
	return j.report(time.Since(began)), nil
}

// add notes a violation at e.
func (j *judge) add(c CheckID, e *Event, k *key, format string, args ...any) {
	r := &j.checks[c]
	if r.Count++; len(r.Cases) >= j.options.Cases {
		return
	}
	x := Case{Line: e.N, T: e.T, Topic: e.Topic, Group: e.Group, Key: e.Key, Text: fmt.Sprintf(format, args...)}
	if k != nil {
		x.Topic, x.Key = k.topic.name, k.name
	}
	if !e.ID.IsZero() {
		x.ID = e.ID.String()
	}
	for _, f := range j.truth.faults {
		if e.T >= f.begin && e.T <= f.end {
			x.Faults = append(x.Faults, f.what)
		}
	}
	r.Cases = append(r.Cases, x)
}

// unjudged notes a reason why the run cannot be judged.
func (j *judge) unjudged(format string, args ...any) {
	if len(j.why) >= maxUnjudged {
		j.whyMore++
		return
	}
	j.why = append(j.why, fmt.Sprintf(format, args...))
}

// end makes the judgements that need the whole run.
func (j *judge) end() {
	w := j.truth
	j.completeness()
	for _, t := range w.order {
		for _, k := range t.order {
			for _, s := range k.strands {
				if s == nil {
					continue
				}
				j.effectRules(k, s)
				if s.parked {
					j.sum.ParkedStrands++
				}
			}
			j.outboxRules(k)
			if w.drained {
				j.deliveredAll(t, k)
			}
		}
	}
	for _, name := range slices.Concat(sortedKeys(w.wanted), j.options.Marks) {
		if !w.marks[name] {
			j.add(V19, &Event{N: w.wanted[name]}, nil, "mark %q was never reached: the run did not meet what it is meant to show", name)
		}
	}
	if wait := j.firstOKAfterFaults - j.firstTryAfterFaults; j.lastFaultEnd > 0 && j.firstOKAfterFaults > 0 && wait > int64(recoveryBound) {
		j.add(V17, &Event{T: j.lastFaultEnd}, nil, "sends after the last fault were answered ok only after %v", time.Duration(wait))
	}
}

// completeness is what a run must have to be judged at all.
func (j *judge) completeness() {
	w := j.truth
	for op, o := range w.open {
		// A kill is noted before the signal, so what the process began after the note is excused too; numbers are not reused.
		if !w.killed[o.p/WorkersPerProcess] {
			j.unjudged("operation %d (line %d) has no outcome, and its process %d was not killed", op, o.n, o.p/WorkersPerProcess)
		}
	}
	if !w.drained {
		j.unjudged("not drained: there is no drain.end")
	}
	for _, name := range sortedKeys(w.readBack) {
		if want, got := w.readBack[name], w.rows[name]; want != got {
			j.unjudged("the read-back of %s is not whole: %d rows promised, %d there", name, want, got)
		}
	}
	if j.sum.Causes.NotKnown > 0 {
		j.unjudged("%d repeats of leases whose length is not known", j.sum.Causes.NotKnown)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// noData says whether the history lacks what a check looks at.
func (j *judge) noData(c CheckID) bool {
	w := j.truth
	switch c {
	case V11:
		return !j.traced
	case V12:
		return len(j.applied) == 0
	case V13:
		return j.sum.DeadLetters == 0
	case V14:
		return w.rows[Outbox.String()] == 0
	case V15:
		return len(j.joined) == 0
	case V16:
		return !w.drained
	case V17:
		return len(w.faults) == 0
	case V19:
		return len(w.wanted)+len(j.options.Marks) == 0
	}
	return false
}
