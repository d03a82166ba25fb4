package history

import (
	"math"
	"slices"
	"time"
)

// Report is what a run is judged to be.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Violations are the ids of the checks that failed.
	Violations []string `json:"violations"`
	// Unknown says why a verdict could not be given.
	Unknown []string      `json:"unknown,omitempty"`
	Checks  []CheckReport `json:"checks"`
	Summary Summary       `json:"summary"`
	Faults  []FaultReport `json:"faults,omitempty"`
	// Took is how long the judge worked.
	Took time.Duration `json:"took_ns"`
}

// CheckReport is one check's part.
type CheckReport struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Count   int     `json:"count"`
	Cases   []Case  `json:"cases,omitempty"`
	// Pictures are of the first keys among the cases.
	Pictures []Picture `json:"pictures,omitempty"`
}

// Case is one violation.
type Case struct {
	Line   uint64   `json:"line"` // of the merged history
	T      int64    `json:"t"`
	Topic  string   `json:"topic,omitempty"`
	Group  string   `json:"group,omitempty"`
	Key    string   `json:"key,omitempty"`
	ID     string   `json:"id,omitempty"`
	Text   string   `json:"text"`
	Faults []string `json:"faults,omitempty"` // active at that time
	Around []string `json:"around,omitempty"` // lines of the same key, and the last line of every other process
}

// Summary counts what happened.
type Summary struct {
	Events           uint64        `json:"events"`
	Keys             int           `json:"keys"`
	Length           time.Duration `json:"length_ns"`
	SendsOK          int           `json:"sends_ok"`
	SendsFailed      int           `json:"sends_failed"`
	SendsUnknown     int           `json:"sends_unknown"`
	Deliveries       int           `json:"deliveries"`
	Redeliveries     int           `json:"redeliveries"`
	SeenLate         int           `json:"seen_late"` // hand-outs that a client noted after a newer one
	Acks             int           `json:"acks"`
	Effects          int           `json:"effects"`
	DuplicateEffects int           `json:"duplicate_effects"`
	DeadLetters      int           `json:"dead_letters"`
	ParkedStrands    int           `json:"parked_strands"` // at the end
	Parked           int           `json:"parked"`         // messages at and behind their heads
	Lost             int           `json:"lost"`
	Undelivered      int           `json:"undelivered"`
	Inversions       int           `json:"inversions"`
	TornLines        int           `json:"torn_lines"` // of killed processes
	Causes           Causes        `json:"causes"`
	// ToFirstOK and ToDrained run from the end of the last fault; -1: no fault, or it never came.
	ToFirstOK time.Duration `json:"after_faults_to_first_ok_ns"`
	ToDrained time.Duration `json:"after_faults_to_last_ack_ns"`
}

// Causes counts repeats (V18).
type Causes struct {
	SendRetry   int `json:"retry_of_a_send"` // a later copy in the log
	Failure     int `json:"failure_reported"`
	LeaseEnd    int `json:"lease_end"`
	Crash       int `json:"crash"`
	LostAnswer  int `json:"lost_answer"`
	Redrive     int `json:"redrive"`
	NotKnown    int `json:"lease_length_not_known"`
	Unexplained int `json:"unexplained"`
}

func (j *judge) report(took time.Duration) *Report {
	w := j.truth
	r := &Report{Verdict: Pass, Violations: []string{}, Took: took, Summary: j.sum, Unknown: j.why}
	r.Summary.Events, r.Summary.Length = w.events, time.Duration(w.lastT-w.firstT)
	for _, t := range w.order {
		r.Summary.Keys += len(t.order)
	}
	for c := V1; c < checkCount; c++ {
		x := j.checks[c]
		switch {
		case x.Count > 0:
			x.Verdict = Fail
			r.Violations = append(r.Violations, x.ID)
		case j.noData(c):
			x.Verdict = NoData
		default:
			x.Verdict = Pass
		}
		groupByKeyAndFault(x.Cases)
		r.Checks = append(r.Checks, x)
	}
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Fail
	case len(r.Unknown) > 0:
		r.Verdict = Unknown
	}
	j.faultTimes(r)
	return r
}

// groupByKeyAndFault makes one cause show as one group.
func groupByKeyAndFault(cases []Case) {
	slices.SortStableFunc(cases, func(a, b Case) int {
		if a.Key != b.Key {
			return compareText(a.Key, b.Key)
		}
		if c := slices.Compare(a.Faults, b.Faults); c != 0 {
			return c
		}
		return compare(int64(a.Line), int64(b.Line))
	})
}

func compareText(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

func (j *judge) faultTimes(r *Report) {
	r.Summary.ToFirstOK, r.Summary.ToDrained = -1, -1
	if j.lastFaultEnd > 0 {
		if j.firstOKAfterFaults > 0 {
			r.Summary.ToFirstOK = time.Duration(j.firstOKAfterFaults - j.lastFaultEnd)
		}
		if j.lastAck > j.lastFaultEnd {
			r.Summary.ToDrained = time.Duration(j.lastAck - j.lastFaultEnd)
		}
	}
	for _, f := range j.truth.faults {
		x := FaultReport{What: f.what, Length: -1, ToFirstFailure: -1, ToFirstOK: -1, LongestSilence: time.Duration(f.silence)}
		if f.end != math.MaxInt64 {
			x.Length = time.Duration(f.end - f.begin)
		}
		if f.failed != 0 {
			x.ToFirstFailure = time.Duration(f.failed - f.begin)
		}
		if f.ok != 0 {
			x.ToFirstOK = time.Duration(f.ok - f.begin)
		}
		r.Faults = append(r.Faults, x)
	}
}

// surroundings reads the files once more for the lines around the cases: of the same key, and the line before the case
// of every other process.
func (j *judge) surroundings(files []string) error {
	type wish struct {
		c    *Case
		last []Event // of the same key, before the case
		left int
	}
	var wishes []*wish
	for c := V1; c < checkCount; c++ {
		for i := range j.checks[c].Cases {
			if x := &j.checks[c].Cases[i]; x.Line > 0 {
				wishes = append(wishes, &wish{c: x, left: linesAfter})
			}
		}
	}
	if len(wishes) == 0 {
		return nil
	}
	pictures := j.wantedPictures()
	processes := map[uint32]*Event{}
	_, err := Read(files, func(e *Event) error {
		for _, p := range pictures {
			p.take(e)
		}
		for _, w := range wishes {
			sameKey := e.Key == w.c.Key && e.Topic == w.c.Topic
			switch {
			case e.N < w.c.Line && sameKey:
				if w.last = append(w.last, *e); len(w.last) > linesBefore {
					w.last = w.last[1:]
				}
			case e.N == w.c.Line:
				for _, p := range sortedProcesses(processes) {
					w.c.Around = append(w.c.Around, "  "+lineOf(processes[p]))
				}
				for i := range w.last {
					w.c.Around = append(w.c.Around, "  "+lineOf(&w.last[i]))
				}
				w.c.Around = append(w.c.Around, "> "+lineOf(e))
			case e.N > w.c.Line && sameKey && w.left > 0:
				w.left--
				w.c.Around = append(w.c.Around, "  "+lineOf(e))
			}
		}
		last := processes[e.P/WorkersPerProcess]
		if last == nil {
			last = new(Event)
			processes[e.P/WorkersPerProcess] = last
		}
		*last = *e
		return nil
	})
	for c := V1; c < checkCount; c++ {
		drawn := map[string]bool{}
		for _, x := range j.checks[c].Cases {
			if p := pictures[x.Topic+"\x00"+x.Key]; p != nil && !drawn[x.Key] && len(drawn) < picturesPerCheck && len(p.bars) > 0 {
				drawn[x.Key] = true
				j.checks[c].Pictures = append(j.checks[c].Pictures, p.picture(j.truth.faults, j.truth.lastT))
			}
		}
	}
	return err
}

// wantedPictures makes a collector for each key that a picture may be drawn of.
func (j *judge) wantedPictures() map[string]*collector {
	out := map[string]*collector{}
	for c := V1; c < checkCount; c++ {
		keys := map[string]bool{}
		for _, x := range j.checks[c].Cases {
			name := x.Topic + "\x00" + x.Key
			if x.Key == "" || len(keys) >= picturesPerCheck && !keys[name] {
				continue
			}
			keys[name] = true
			if out[name] == nil {
				out[name] = &collector{topic: x.Topic, key: x.Key, around: x.T, open: map[uint64]int{}}
			}
		}
	}
	return out
}

func lineOf(e *Event) string {
	line := Append(nil, e)
	return string(line[:len(line)-1])
}

func sortedProcesses(m map[uint32]*Event) []uint32 {
	out := make([]uint32, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}
