package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/keystrand/keystrand/internal/history"
)

// Result of a run. How each is counted stands in docs/guarantees.md.
type Result struct {
	Orders              int             `json:"orders"`
	Events              int             `json:"events"`
	Applied             int             `json:"applied"`
	DeliveredDuplicates int             `json:"delivered_duplicates"`
	GapsOpened          int             `json:"gaps_opened"`
	GapsHealed          int             `json:"gaps_healed"`
	Parked              int             `json:"parked"`
	DeadLetters         int             `json:"dead_letters"`
	Kills               int             `json:"kills"`
	Fenced              int             `json:"fenced"`
	Inversions          int             `json:"inversions"`
	Lost                int             `json:"lost"`
	DuplicateEffects    int             `json:"duplicate_effects"`
	Verdict             history.Verdict `json:"verdict"`
	// Violations are the ids of the checks that failed.
	Violations []string       `json:"violations"`
	Faults     map[string]int `json:"faults"`
	Seed       uint64         `json:"seed"`
	Seconds    float64        `json:"seconds"`
	// Problems are what went wrong beside the judge's findings, such as a fault that did not strike.
	Problems []string `json:"problems,omitempty"`

	report      *history.Report
	explanation *admin.Explanation
	options     Options
	dir         string
}

func (r *run) result(report *history.Report, s seen, applied int, explanation *admin.Explanation) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := report.Summary
	out := &Result{
		Orders: r.options.Orders, Events: r.events(), Applied: applied, DeliveredDuplicates: s.duplicates, GapsOpened: s.gapsOpened,
		Parked: sum.Parked, DeadLetters: sum.DeadLetters, Kills: int(r.kills.Load()), Fenced: s.fenced, Inversions: sum.Inversions,
		Lost: sum.Lost + sum.Undelivered, DuplicateEffects: sum.DuplicateEffects, Verdict: report.Verdict, Violations: report.Violations,
		Faults: map[string]int{}, Seed: r.options.Seed, Seconds: time.Since(r.progress.began).Seconds(), Problems: r.problems,
		report: report, explanation: explanation, options: r.options, dir: r.dir,
	}
	out.GapsHealed = r.healed
	for _, f := range faultList {
		out.Faults[f.name] = r.strikes[f.name]
	}
	return out
}

// WriteJSON writes the result as one object on one line.
func (r *Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText writes the result for people.
func (r *Result) WriteText(w io.Writer) error {
	p := &page{w: w}
	p.line("\nWhat happened to %d orders with %d events, in %.1f s:\n", r.Orders, r.Events, r.Seconds)
	p.table(r.amounts())
	if !r.options.NoFaults {
		p.line("\nFaults that struck, and what proves it:\n")
		p.table(r.faults())
	}
	for _, problem := range r.Problems {
		p.line("\nproblem: %s", problem)
	}
	p.line("\nThe judge's verdict: %s", strings.ToUpper(string(r.Verdict)))
	r.findings(p)
	r.explain(p)
	r.further(p)
	return p.err
}

// page writes lines and keeps the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) table(rows [][]string) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, "  "+strings.Join(row, "\t")); err != nil && p.err == nil {
			p.err = err
		}
	}
	if err := t.Flush(); err != nil && p.err == nil {
		p.err = err
	}
}

func (r *Result) amounts() [][]string {
	n := func(v int) string { return fmt.Sprint(v) }
	return [][]string{
		{"applied, in version order, each once", n(r.Applied)},
		{"parked with the poison order", n(r.Parked)},
		{"dead-lettered", n(r.DeadLetters)},
		{"lost", n(r.Lost)},
		{"delivered out of order", n(r.Inversions)},
		{"applied twice", n(r.DuplicateEffects)},
		{"duplicates delivered, recognised, not applied", n(r.DeliveredDuplicates)},
		{"gaps opened by early versions / healed", n(r.GapsOpened) + " / " + n(r.GapsHealed)},
		{"effects refused to owners whose lease was lost", n(r.Fenced)},
		{"processes killed", n(r.Kills)},
	}
}

func (r *Result) faults() [][]string {
	var rows [][]string
	for _, f := range faultList {
		count := fmt.Sprint(r.Faults[f.name])
		if r.Faults[f.name] == 0 {
			count = "NEVER"
		}
		rows = append(rows, []string{f.text, count, f.proof})
	}
	return rows
}

// findings shows the checks that failed with their first cases, or says how many passed.
func (r *Result) findings(p *page) {
	passed := 0
	for _, c := range r.report.Checks {
		switch c.Verdict {
		case history.Pass:
			passed++
		case history.Fail:
			p.line("  %s %s: %d violations; the first: %s", c.ID, c.Name, c.Count, firstCase(c))
		}
	}
	for _, why := range r.report.Unknown {
		p.line("  cannot judge: %s", why)
	}
	p.line("  %d checks passed on %d recorded events of %d deliveries", passed, r.report.Summary.Events, r.report.Summary.Deliveries)
}

func firstCase(c history.CheckReport) string {
	if len(c.Cases) == 0 {
		return "none kept"
	}
	x := c.Cases[0]
	return fmt.Sprintf("order %q, message %s: %s", x.Key, x.ID, x.Text)
}

func (r *Result) explain(p *page) {
	e := r.explanation
	if e == nil {
		return
	}
	p.line("\nWhy the poison order does not move (keystrand explain --group %s --topic %s --key %s):\n", e.ConsumerGroup, e.Topic, e.MessageGroup)
	p.table([][]string{
		{"status", e.Status}, {"why", e.Why}, {"head", fmt.Sprintf("message %s, queue %d offset %d", e.MessageID, e.Queue, e.Offset)},
		{"attempts", fmt.Sprintf("%d of %d", e.DeliveryAttempt, e.MaxAttempts)}, {"behind it", fmt.Sprint(e.Behind)}, {"last error", e.LastError},
	})
}

// further says how to look at what is left, and what to try.
func (r *Result) further(p *page) {
	p.line("\nTo look further:\n")
	if r.options.Keep == "" {
		p.line("  keystrand demo --keep DIR               keeps database, log, histories and the processes' logs")
		p.line("  keystrand demo --history FILE --seed %d  writes the history; keystrand check FILE judges it again", r.Seed)
		return
	}
	if r.options.History == "" {
		p.line("  keystrand check %s/*.jsonl", historyDir(r.dir))
	} else {
		p.line("  keystrand check %s", r.options.History)
	}
	p.line("  sqlite3 %s '%s'   gives %d", filepath.Join(r.dir, "demo.db"), appliedQuery, r.Applied)
	p.line("  keystrand serve --data %s              then explain, group lag, resume", filepath.Join(r.dir, "broker"))
}
