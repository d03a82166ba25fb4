package outbox

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

func row(group string, version int64) dialect.OutboxEvent {
	return dialect.OutboxEvent{Topic: "t", Slot: 1, Event: keystrand.Event{Aggregate: group, Version: version}}
}

func ownedLines() *lines {
	s := newLines(limits{batch: 4, perGroup: 3, rows: 100, unmarked: 50})
	s.own([]dialect.Slot{{ID: 1, Owner: "me", Token: 9}})
	return s
}

func texts(rows []dialect.OutboxEvent) (out []string) {
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s%d", r.Aggregate, r.Version))
	}
	return out
}

func TestNextVersionGoesOnlyAfterTheOneBeforeWasConfirmed(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("a", 2), row("b", 7)})
	first := s.batch()
	if got := texts(first); !slices.Equal(got, []string{"a1", "b7"}) {
		t.Fatalf("first batch %v", got)
	}
	if got := s.batch(); got != nil {
		t.Fatalf("while they are out: %v", texts(got))
	}
	s.confirmed(first)
	if got := texts(s.batch()); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("second batch %v", got)
	}
}

func TestFailedHeadHoldsItsOwnGroupAndGoesAgain(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("a", 2)})
	s.failed(0, s.batch(), errors.Join(keystrand.ErrUnknown))
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("a", 2), row("b", 1)})
	if got := texts(s.batch()); !slices.Equal(got, []string{"b1"}) {
		t.Fatalf("while a is held: %v", got)
	}
	at, ok := s.next()
	if !ok || at != minHold {
		t.Fatalf("hold ends at %v, %v", at, ok)
	}
	s.again = false
	s.tick(at)
	if !s.again {
		t.Fatal("no sweep after the hold")
	}
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("a", 2)})
	if got := texts(s.batch()); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("after the hold: %v", got)
	}
}

func TestRejectedBatchIsSplitUntilTheCulpritIsAlone(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("b", 1), row("c", 1)})
	if held := s.failed(0, s.batch(), keystrand.ErrTooLarge); len(held) != 0 {
		t.Fatalf("held the innocent: %v", texts(held))
	}
	var sent, held []string
	for b := s.batch(); b != nil; b = s.batch() {
		if len(b) != 1 {
			t.Fatalf("a batch of %d after a rejection", len(b))
		}
		if b[0].Aggregate == "b" {
			held = append(held, texts(s.failed(0, b, keystrand.ErrTooLarge))...)
			continue
		}
		s.confirmed(b)
		sent = append(sent, texts(b)...)
	}
	slices.Sort(sent)
	if !slices.Equal(sent, []string{"a1", "c1"}) || !slices.Equal(held, []string{"b1"}) {
		t.Errorf("sent %v, held %v", sent, held)
	}
}

func TestConfirmedRowIsNotSentAgainBeforeItsStampIsWritten(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1)})
	s.confirmed(s.batch())
	s.loaded([]dialect.OutboxEvent{row("a", 1)}) // read before the stamp
	if got := s.batch(); got != nil {
		t.Fatalf("sent again: %v", texts(got))
	}
	s.marked(s.takeMarks())
	if len(s.groups) != 0 || s.rows != 0 {
		t.Errorf("%d groups and %d rows are remembered for nothing", len(s.groups), s.rows)
	}
}

func TestSlotBeingGivenUpSendsNothingNewAndIsIdleWhenAllIsStamped(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1), row("a", 2)})
	out := s.batch()
	s.giveUp([]int{1})
	if len(s.idle()) != 0 {
		t.Error("idle while a row is out")
	}
	s.confirmed(out)
	if s.batch() != nil || len(s.idle()) != 0 {
		t.Error("sent, or idle, before the stamp")
	}
	s.marked(s.takeMarks())
	if got := s.idle(); len(got) != 1 || got[0].Token != 9 {
		t.Errorf("idle %v", got)
	}
}

func TestSlotThatStaysAfterAllGoesOn(t *testing.T) {
	t.Parallel()
	s := ownedLines()
	s.loaded([]dialect.OutboxEvent{row("a", 1)})
	s.giveUp([]int{1})
	if s.batch() != nil {
		t.Fatal("sent although the slot is to go")
	}
	s.own([]dialect.Slot{{ID: 1, Owner: "me", Token: 11}}) // released and taken again in one survey
	s.giveUp(nil)
	if got := texts(s.batch()); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("after the slot stayed: %v", got)
	}
}

// The lines against a plain table of rows: whatever is confirmed, fails, is stamped late or read early, each group's rows
// are confirmed in order, each once while the relay keeps its slot, and in the end all of them.
func TestAnyHistoryConfirmsEachRowOnceInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, now := ownedLines(), clock.Mono(0)
		table := map[string]int64{} // rows per group
		sentTo, stamped := map[string]int64{}, map[string]int64{}
		var out [][]dialect.OutboxEvent
		load := func() {
			var rows []dialect.OutboxEvent
			for _, g := range []string{"a", "b", "c"} {
				for v := stamped[g] + 1; v <= min(table[g], stamped[g]+3); v++ {
					rows = append(rows, row(g, v))
				}
			}
			s.loaded(rows)
		}
		confirm := func(b []dialect.OutboxEvent) {
			for _, r := range b {
				if r.Version != sentTo[r.Aggregate]+1 {
					t.Fatalf("%s: confirmed %d after %d", r.Aggregate, r.Version, sentTo[r.Aggregate])
				}
				sentTo[r.Aggregate] = r.Version
			}
			s.confirmed(b)
		}
		stamp := func() {
			m := s.takeMarks()
			for _, x := range m {
				stamped[x.Aggregate] = x.Version
			}
			s.marked(m)
		}
		pop := func() []dialect.OutboxEvent {
			i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
			b := out[i]
			out = slices.Delete(out, i, i+1)
			return b
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { table[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")]++ },
			"load":   func(*rapid.T) { load() },
			"send": func(*rapid.T) {
				if b := s.batch(); b != nil {
					out = append(out, b)
				}
			},
			"confirm": func(t *rapid.T) {
				if len(out) > 0 {
					confirm(pop())
				}
			},
			"fail": func(t *rapid.T) {
				if len(out) > 0 {
					s.failed(now, pop(), rapid.SampledFrom([]error{keystrand.ErrUnknown, keystrand.ErrRetryLater, keystrand.ErrRejected}).Draw(t, "why"))
				}
			},
			"stamp": func(*rapid.T) { stamp() },
			"time":  func(*rapid.T) { now += time.Second; s.tick(now) },
		})
		for range 1000 {
			for len(out) > 0 {
				confirm(pop())
			}
			stamp()
			now += time.Minute
			s.tick(now)
			load()
			for b := s.batch(); b != nil; b = s.batch() {
				out = append(out, b)
			}
			if len(out) == 0 {
				break
			}
		}
		for g, n := range table {
			if stamped[g] != n {
				t.Fatalf("%s: %d of %d stamped", g, stamped[g], n)
			}
		}
		for g, l := range s.groups {
			t.Fatalf("line %s is left over: %+v", g, l)
		}
		if s.rows != 0 || s.flying[1] != 0 {
			t.Fatalf("%d rows and %d flying are left over", s.rows, s.flying[1])
		}
	})
}
