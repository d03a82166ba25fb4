package history

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteJSON writes the report as one JSON object on one line.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText writes the report for people: verdict, what is wrong with its cases, then the table of all checks.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("verdict: %s", r.Verdict)
	for _, why := range r.Unknown {
		p.line("  cannot judge: %s", why)
	}
	for _, c := range r.Checks {
		if c.Verdict == Fail {
			p.cases(c)
		}
	}
	p.line("")
	p.table(r)
	p.summary(r)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) cases(c CheckReport) {
	p.line("\n%s %s: %d violations, the first %d by key and fault", c.ID, c.Name, c.Count, len(c.Cases))
	for i, x := range c.Cases {
		if i == 0 || x.Key != c.Cases[i-1].Key || strings.Join(x.Faults, ",") != strings.Join(c.Cases[i-1].Faults, ",") {
			p.line("\n  key %q, faults active: %s", x.Key, orNone(strings.Join(x.Faults, ", ")))
		}
		p.line("  line %d, group %q, message %s: %s", x.Line, x.Group, orNone(x.ID), x.Text)
		for _, l := range x.Around {
			p.line("      %s", l)
		}
	}
	for _, picture := range c.Pictures {
		p.line("")
		for _, l := range picture.lines() {
			p.line("  %s", l)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (p *printer) table(r *Report) {
	t := tabwriter.NewWriter(p.w, 0, 4, 2, ' ', 0)
	for _, c := range r.Checks {
		count := ""
		if c.Count > 0 {
			count = fmt.Sprint(c.Count)
		}
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.ID, c.Name, c.Verdict, count); err != nil && p.err == nil {
			p.err = err
		}
	}
	if err := t.Flush(); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) summary(r *Report) {
	s := r.Summary
	p.line("\n%d events over %v, %d keys; judged in %v", s.Events, s.Length.Round(time.Millisecond), s.Keys, r.Took.Round(time.Millisecond))
	p.line("sends: %d ok, %d failed, %d unknown", s.SendsOK, s.SendsFailed, s.SendsUnknown)
	p.line("deliveries: %d, of them %d again; acks: %d; effects: %d", s.Deliveries, s.Redeliveries, s.Acks, s.Effects)
	c := s.Causes
	p.line("again because of: retry of a send %d, failure %d, lease end %d, crash %d, lost answer %d, redrive %d, unexplained %d",
		c.SendRetry, c.Failure, c.LeaseEnd, c.Crash, c.LostAnswer, c.Redrive, c.Unexplained)
	p.line("parked: %d strands with %d messages; dead letters: %d; lost: %d; undelivered: %d", s.ParkedStrands, s.Parked, s.DeadLetters, s.Lost, s.Undelivered)
	for _, f := range r.Faults {
		p.line("fault %s: lasted %s, first failed send after %s, first ok after %s, longest silence of a key %s", f.What, short(f.Length),
			short(f.ToFirstFailure), short(f.ToFirstOK), short(f.LongestSilence))
	}
}

func short(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}
