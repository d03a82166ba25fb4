package deliver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
)

// TestFoldOfTheRecordsEqualsTheLiveProgress replays what a random life recorded, from nothing and from a snapshot taken at
// any moment, and compares with what the live machine has come to: byte for byte, after both cursors stand alike.
func TestFoldOfTheRecordsEqualsTheLiveProgress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		t.Repeat(map[string]func(*rapid.T){
			"send": l.send, "receive": l.receive, "handle": l.handle, "operator": l.operator, "subscribe": l.subscribe,
			"gone":     func(*rapid.T) { l.w.gone("c", 0) },
			"wait":     func(t *rapid.T) { l.w.advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second) },
			"sync":     func(*rapid.T) { l.w.sync() },
			"restart":  l.restart,
			"snapshot": func(*rapid.T) { l.snapshots[len(l.w.log)] = l.w.p.Encode(nil) },
			"":         l.check,
		})
	})
}

// life drives a world at random, with changes of the filter.
type life struct {
	w         *world
	counts    map[string]int
	snapshots map[int][]byte // by log length
}

func newLife(t *rapid.T) *life {
	w := newWorld(t, keystrand.GroupSpec{
		Ordered:     rapid.Bool().Draw(t, "ordered"),
		OrderLevel:  rapid.SampledFrom([]string{state.LevelGroup, state.LevelGroup, state.LevelQueue}).Draw(t, "level"),
		MaxAttempts: rapid.IntRange(1, 3).Draw(t, "max attempts"),
		AtLimit:     rapid.SampledFrom([]keystrand.AtLimit{keystrand.AtLimitPark, keystrand.AtLimitDeadLetter, keystrand.AtLimitBlock}).Draw(t, "at limit"),
	})
	w.manual = rapid.Bool().Draw(t, "manual sync")
	w.options.MaxReady = rapid.IntRange(0, 3).Draw(t, "max ready")
	w.start()
	return &life{w: w, counts: map[string]int{}, snapshots: map[int][]byte{}}
}

func (l *life) send(t *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(t, "count") {
		group := rapid.SampledFrom([]string{"A", "B", "_"}).Draw(t, "group")
		tag := rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "tag")
		l.counts[group]++
		l.w.send(fmt.Sprintf("%s%d@%d:%s", group, l.counts[group], rapid.IntRange(0, 1).Draw(t, "queue"), tag))
	}
}

func (l *life) receive(t *rapid.T) {
	l.w.receive("r", Receive{
		ClientID: "c", Max: rapid.IntRange(1, 3).Draw(t, "max"), AutoRenew: rapid.Bool().Draw(t, "renew"),
		AttemptID: rapid.SampledFrom([]string{"", "a"}).Draw(t, "attempt"), Until: 10 * time.Second,
	})
}

func (l *life) handle(t *rapid.T) {
	w := l.w
	var all []Handle
	for _, a := range w.answers {
		for _, g := range a.Grants {
			if g.Entry < int64(len(w.names)) {
				all = append(all, Handle{g.Strand, g.Entry, g.Token})
			}
		}
	}
	if len(all) == 0 {
		t.Skip("nothing was handed out")
	}
	h := all[len(all)-1-rapid.IntRange(0, min(4, len(all)-1)).Draw(t, "handle")]
	var a Actions
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0, 1:
		_, a = w.m.Ack(w.now, h)
	case 2:
		_, a = w.m.Fail(w.now, h, "boom", -1)
	case 3:
		_, a = w.m.Change(w.now, h, time.Duration(rapid.IntRange(0, 20).Draw(t, "length"))*time.Second)
	case 4:
		a = w.m.Undelivered(w.now, []Grant{{Strand: h.Strand, Entry: h.Entry, Token: h.Token}})
	}
	w.perform(a)
}

func (l *life) operator(t *rapid.T) {
	key := l.w.key(rapid.SampledFrom([]string{"A", "B", "q0", "q1"}).Draw(t, "strand"))
	if !l.w.group.Spec.Ordered {
		key = state.StrandKey(rapid.IntRange(0, 20).Draw(t, "entry"))
	}
	var a Actions
	if rapid.Bool().Draw(t, "park") {
		_, a = l.w.m.Park(l.w.now, key, "by test")
	} else {
		_, a = l.w.m.Resume(l.w.now, key)
	}
	l.w.perform(a)
}

func (l *life) subscribe(t *rapid.T) {
	l.w.subscribe(rapid.SampledFrom([]string{"*", "x", "x || y"}).Draw(t, "filter"))
}

func (l *life) restart(t *rapid.T) {
	unclean := rapid.Bool().Draw(t, "unclean")
	lost := 0
	if unclean {
		lost = rapid.IntRange(0, len(l.w.log)-l.w.durable).Draw(t, "lost")
	}
	// A start takes a snapshot or none; newer ones were torn, and do not come back.
	bases := []int{0}
	for at := range l.snapshots {
		if at <= len(l.w.log)-lost {
			bases = append(bases, at)
		}
	}
	slices.Sort(bases)
	base := rapid.SampledFrom(bases).Draw(t, "base")
	l.w.base, l.w.baseAt = l.snapshots[base], base
	l.w.restart(unclean, lost)
	for at := range l.snapshots {
		if at > base {
			delete(l.snapshots, at)
		}
	}
}

func (l *life) check(t *rapid.T) {
	l.w.t = t
	live, err := state.DecodeProgress(l.w.p.Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := l.settled(t, live)
	if diff := cmp.Diff(l.settled(t, l.w.fold(nil, l.w.log)), want); diff != "" {
		t.Fatalf("fold (-) and live (+):\n%s", diff)
	}
	for at, body := range l.snapshots {
		if diff := cmp.Diff(l.settled(t, l.w.fold(body, l.w.log[at:])), want); diff != "" {
			t.Fatalf("fold from the snapshot at %d (-) and live (+):\n%s", at, diff)
		}
	}
}

// settled brings a progress to the live cursor, and its successor searches to their ends, and encodes it.
func (l *life) settled(t *rapid.T, p *state.Progress) []byte {
	if err := p.AdvanceTo(l.w.p.Cursor, l.w.index); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Strands {
		for s.Seeking && p.Strands[s.Key] == s {
			if _, err := p.Seek(s, l.w.index, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p.Encode(nil)
}
