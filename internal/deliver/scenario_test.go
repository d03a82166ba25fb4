package deliver

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

var update = flag.Bool("update", false, "write the scenarios' outcomes anew")

// TestScenariosGoAsTold runs testdata/*.txt. A line is an act; the indented lines below it are what follows from it.
// Lines with '#' tell the story. The acts are the methods of player.
func TestScenariosGoAsTold(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(content))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareStory(t, got, string(content))
		})
	}
}

func compareStory(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d: got %q, want %q\nwhole story:\n%s", i+1, g[i], w[i], got)
		}
	}
	if len(g) != len(w) {
		t.Fatalf("got %d lines, want %d:\n%s", len(g), len(w), got)
	}
}

// player performs the acts of a scenario.
type player struct {
	t *testing.T
	w *world
}

func play(t *testing.T, script string) string {
	p := &player{t: t}
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue // an outcome of the former run
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, outcome := range p.act(strings.Fields(line)) {
			fmt.Fprintf(&out, "  %s\n", outcome)
		}
	}
	return out.String()
}

// options are the name=value words of a line.
type options struct {
	t      *testing.T
	values map[string]string
	rest   []string
}

func optionsOf(t *testing.T, words []string) options {
	o := options{t: t, values: map[string]string{}}
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			o.values[name] = value
		} else {
			o.rest = append(o.rest, word)
		}
	}
	return o
}

func (o options) number(name string) int {
	if o.values[name] == "" {
		return 0
	}
	n, err := strconv.Atoi(o.values[name])
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

func (o options) duration(name string) time.Duration {
	if o.values[name] == "" {
		return 0
	}
	return parseDuration(o.t, o.values[name])
}

func (o options) has(word string) bool { return slices.Contains(o.rest, word) }

func parseDuration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (p *player) act(words []string) []string {
	w, o := p.w, optionsOf(p.t, words[1:])
	var verdict fmt.Stringer
	switch words[0] {
	case "group":
		p.w = newWorld(p.t, specOf(o))
		p.w.options.MaxReady = o.number("max-ready")
		p.w.start()
		return nil
	case "manual-sync":
		w.manual = true
	case "sync":
		w.sync()
	case "send":
		w.send(words[1:]...)
	case "receive":
		w.receive(words[1], receiveOf(o))
	case "cancel":
		for id, name := range w.ids {
			if name == words[1] {
				w.perform(w.m.Cancel(w.now, id))
			}
		}
	case "ack":
		verdict = w.ack(words[1])
	case "fail":
		delay := time.Duration(-1)
		if o.values["delay"] != "" {
			delay = o.duration("delay")
		}
		verdict = w.fail(words[1], o.values["reason"], delay)
	case "change":
		verdict = w.change(words[1], parseDuration(p.t, words[2]))
	case "undelivered":
		w.undelivered(words[1:]...)
	case "seen":
		w.m.ClientSeen(w.now, words[1])
	case "gone":
		w.gone(words[1], parseDuration(p.t, words[2]))
	case "park":
		ok, a := w.m.Park(w.now, w.key(words[1]), "by an operator")
		w.perform(a)
		w.event("parked: %v", ok)
	case "resume":
		ok, a := w.m.Resume(w.now, w.key(words[1]))
		w.perform(a)
		w.event("resumed: %v", ok)
	case "subscribe":
		w.subscribe(strings.Join(words[1:], " "))
	case "wait":
		w.advance(parseDuration(p.t, words[1]))
	case "restart":
		lost := 0
		if o.has("power-loss") {
			lost = len(w.log) - w.durable
		}
		w.restart(!o.has("clean"), lost)
	case "explain":
		return []string{p.explain(words[1])}
	case "stats":
		return []string{fmt.Sprintf("%+v", w.m.Stats())}
	default:
		p.t.Fatalf("unknown act %q", words[0])
	}
	events := w.takeEvents()
	if verdict != nil {
		events = append([]string{verdict.String()}, events...)
	}
	return events
}

func specOf(o options) keystrand.GroupSpec {
	return keystrand.GroupSpec{
		Ordered: o.has("ordered"), MaxAttempts: o.number("max-attempts"), AtLimit: keystrand.AtLimit(o.values["at-limit"]),
		OrderLevel: o.values["order-level"], PushBatch: o.values["push-batch"], PushWindow: o.number("push-window"),
		MaxProcessing: o.duration("max-processing"), BackOffMin: o.duration("back-off-min"), BackOffMax: o.duration("back-off-max"),
	}
}

func receiveOf(o options) Receive {
	wait := 20 * time.Second
	if o.values["wait"] != "" {
		wait = o.duration("wait")
	}
	if wait == 0 {
		wait = -1
	}
	return Receive{
		ClientID: o.values["client"], Max: o.number("max"), Lease: o.duration("lease"), AutoRenew: o.has("auto-renew"), Until: wait,
		AttemptID: o.values["attempt-id"], Push: o.has("push"), Slot: int32(o.number("slot")),
	}
}

func (p *player) explain(group string) string {
	e := p.w.explain(group)
	if !e.Known {
		return e.Status
	}
	text := fmt.Sprintf("%s: head %s, attempt %d", e.Status, p.w.names[e.Head], e.Attempt)
	if e.ClientID != "" {
		text += ", with " + e.ClientID
	}
	if e.Left > 0 {
		text += fmt.Sprintf(", %v left", e.Left)
	}
	if e.LastError != "" {
		text += fmt.Sprintf(", last error %q", e.LastError)
	}
	return text
}
