package history

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func text(t testing.TB, r *Report) string {
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEachBrokenHistoryFiresItsCheckAndNoOther(t *testing.T) {
	t.Parallel()
	id := func(c uint32) ID { return ID{1, c} }
	cases := []struct {
		name   string
		want   []string // empty: silent
		change func(t *testing.T, h []Event) []Event
	}{
		{"two deliveries swapped", []string{"V6"}, func(t *testing.T, h []Event) []Event {
			return swapDeliveries(t, h, id(2), id(3))
		}},
		{"the third handed out before the first, then all in order", []string{"V6"}, func(t *testing.T, h []Event) []Event {
			third := h[find(t, h, Recv, "plain", "a", id(3), 1)]
			first := find(t, h, Recv, "plain", "a", id(1), 1)
			third.Token, third.Attempt = 1, 1
			end := third
			end.E = LeaseEnd
			return after(growTokens(h), first-1, third, end)
		}},
		{"an ok send dropped at the head", []string{"V1"}, func(t *testing.T, h []Event) []Event { return lose(h, id(1)) }},
		{"an ok send dropped in the middle", []string{"V1"}, func(t *testing.T, h []Event) []Event { return lose(h, id(3)) }},
		{"an ok send dropped at the tail", []string{"V1"}, func(t *testing.T, h []Event) []Event { return lose(h, id(6)) }},
		{"a fail send delivered", []string{"V2"}, func(t *testing.T, h []Event) []Event {
			i := find(t, h, SendOK, "plain", "a", id(3), 1)
			h[i].E, h[i].Queue, h[i].Offset = SendFail, -1, -1
			return h
		}},
		{"a message that nobody sent", []string{"V2"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool {
				return e.Key == "a" && e.ID == id(3) && (e.E == SendInv || e.E == SendOK)
			})
		}},
		{"a body changed", []string{"V2"}, func(t *testing.T, h []Event) []Event {
			h[find(t, h, Recv, "plain", "a", id(4), 1)].Sum++
			return h
		}},
		{"an offset used again", []string{"V3"}, func(t *testing.T, h []Event) []Event {
			h[find(t, h, SendOK, "plain", "a", id(4), 1)].Offset = h[find(t, h, SendOK, "plain", "a", id(2), 1)].Offset
			return h
		}},
		{"a hole in the offsets", []string{"V3"}, func(t *testing.T, h []Event) []Event {
			for i := range h {
				if h[i].Topic == "plain" && h[i].Offset >= 4 {
					h[i].Offset++
				}
			}
			return h
		}},
		{"two log places exchanged, disjoint intervals", []string{"V4"}, func(t *testing.T, h []Event) []Event {
			return exchange(t, h, "two", ID{1, 1}, ID{2, 1})
		}},
		{"two log places exchanged, overlapping intervals", nil, func(t *testing.T, h []Event) []Event {
			return exchange(t, h, "overlap", ID{1, 1}, ID{2, 1})
		}},
		{"two messages of one producer exchanged while both are open", []string{"V5"}, func(t *testing.T, h []Event) []Event {
			ok := find(t, h, SendOK, "plain", "a", id(2), 1)
			late := h[ok]
			h = slices.Delete(h, ok, ok+1)
			h = after(h, find(t, h, SendInv, "plain", "a", id(3), 1), late)
			return exchange(t, h, "a", id(2), id(3))
		}},
		{"delivered after its ack", []string{"V9"}, func(t *testing.T, h []Event) []Event { return again(t, h, 0) }},
		{"delivered after its ack across an epoch", nil, func(t *testing.T, h []Event) []Event { return again(t, h, 1) }},
		{"two open messages of a key", []string{"V7"}, func(t *testing.T, h []Event) []Event {
			inv, ok := find(t, h, AckInv, "plain", "a", id(2), 1), find(t, h, AckOK, "plain", "a", id(2), 1)
			next := find(t, h, Recv, "plain", "a", id(3), 1)
			acks := []Event{h[inv], h[ok]}
			h = after(h, next, acks...)
			return slices.Delete(h, inv, ok+1)
		}},
		{"the next message after a lease ended, the former not finished", []string{"V8"}, func(t *testing.T, h []Event) []Event {
			inv, ok := find(t, h, AckInv, "plain", "a", id(2), 1), find(t, h, AckOK, "plain", "a", id(2), 1)
			end := h[inv]
			end.E, end.Op = LeaseEnd, 0
			return append(slices.Clone(h[:inv]), append([]Event{end}, h[ok+1:]...)...)
		}},
		{"rewound behind the finished prefix", []string{"V8"}, func(t *testing.T, h []Event) []Event {
			h[find(t, h, AckOK, "plain", "a", id(2), 1)].E = AckInfo
			i := find(t, h, AckOK, "plain", "a", id(3), 1)
			d := h[find(t, h, Recv, "plain", "a", id(2), 1)]
			d.Token, d.Attempt = h[i].Token+1, 2
			h = growTokensFrom(h, i)
			inv := d
			inv.E, inv.Op, inv.Sum, inv.Dur = AckInv, 900, 0, 0
			ok := inv
			ok.E = AckOK
			return after(h, i, d, inv, ok)
		}},
		{"an old token accepted", []string{"V10"}, func(t *testing.T, h []Event) []Event {
			h[find(t, h, AckFail, "plain", "again", id(2), 1)].E = AckOK
			return drop(h, func(e Event) bool { return false })
		}},
		{"a token that falls", []string{"V10"}, func(t *testing.T, h []Event) []Event {
			low := h[find(t, h, Recv, "plain", "a", id(4), 1)].Token
			for i := range h {
				if h[i].Key == "a" && h[i].ID == id(5) && h[i].Token != 0 {
					h[i].Token = low - 1
				}
				if h[i].Key == "a" && h[i].ID == id(4) && h[i].Token != 0 {
					h[i].Token = low
				}
			}
			return h
		}},
		{"an effect twice", []string{"V12"}, func(t *testing.T, h []Event) []Event {
			i := find(t, h, Effect, "orders", "o1", ID{0, 5}, 1)
			return recount(after(h, i, h[i]))
		}},
		{"an effect missing", []string{"V12"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool {
				return e.Key == "o4" && (e.E == Effect || e.E == Inbox || e.E == State)
			})
		}},
		{"versions applied 1 3 2", []string{"V12"}, func(t *testing.T, h []Event) []Event {
			i, j := find(t, h, Effect, "orders", "o1", ID{0, 2}, 1), find(t, h, Effect, "orders", "o1", ID{0, 3}, 1)
			h[i].ID, h[i].Version, h[j].ID, h[j].Version = h[j].ID, h[j].Version, h[i].ID, h[i].Version
			return h
		}},
		{"dead letter twice", []string{"V13"}, func(t *testing.T, h []Event) []Event {
			i := find(t, h, DLQ, "orders", "o3", ID{0, 1}, 1)
			return after(h, i, h[i])
		}},
		{"dead letter before the limit", []string{"V13"}, func(t *testing.T, h []Event) []Event {
			h[find(t, h, DLQ, "orders", "o3", ID{0, 1}, 1)].Count = 16
			return h
		}},
		{"an outbox row never sent", []string{"V14"}, func(t *testing.T, h []Event) []Event {
			i := find(t, h, Outbox, "orders", "o1", ID{0, 5}, 1)
			row := h[i]
			row.ID, row.Version = ID{0, 6}, 6
			return recount(after(h, i, row))
		}},
		{"an effect without its inbox row", []string{"V15"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool { return e.E == Inbox && e.Key == "o1" && e.Version == 5 })
		}},
		{"an effect without its version step", []string{"V15"}, func(t *testing.T, h []Event) []Event {
			for i := range h {
				if h[i].E == State && h[i].Key == "o1" {
					h[i].Version = 4
				}
			}
			return h
		}},
		{"a stored message never delivered", []string{"V16"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool { return e.Key == "a" && e.ID == id(6) && e.Group != "" })
		}},
		{"a repeat that nothing explains", []string{"V18"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool { return e.E == LeaseEnd })
		}},
		{"a mark not reached", []string{"V19"}, func(t *testing.T, h []Event) []Event {
			return drop(h, func(e Event) bool { return e.E == Mark })
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := judgeEvents(t, c.change(t, cleanHistory()))
			if !slices.Equal(r.Violations, c.want) && len(r.Violations)+len(c.want) > 0 {
				t.Fatalf("got violations %v, want %v\n%s", r.Violations, c.want, text(t, r))
			}
			if len(c.want) == 0 && r.Verdict != Pass {
				t.Fatalf("got %s, want pass\n%s", r.Verdict, text(t, r))
			}
		})
	}
}

// swapDeliveries exchanges the ids in two whole deliveries of key "a".
func swapDeliveries(t *testing.T, h []Event, a, b ID) []Event {
	i, j := find(t, h, Recv, "plain", "a", a, 1), find(t, h, Recv, "plain", "a", b, 1)
	ma, mb := h[i], h[j]
	for k := range h {
		e := &h[k]
		if e.Key != "a" || e.Group == "" {
			continue
		}
		switch e.ID {
		case a:
			e.ID, e.Offset = b, mb.Offset
		case b:
			e.ID, e.Offset = a, ma.Offset
		}
		if e.Sum != 0 {
			e.Sum = 7000 + uint64(e.ID.Counter)
		}
	}
	return h
}

// lose takes a message of key "a" out of the log and of all deliveries, as a broker that forgot it would.
func lose(h []Event, id ID) []Event {
	return drop(h, func(e Event) bool { return e.Key == "a" && e.ID == id && (e.E == Log || e.Group != "") })
}

// again hands message 2 of key "a" out once more at the end of the key, in the given epoch.
func again(t *testing.T, h []Event, epoch uint32) []Event {
	i := find(t, h, AckOK, "plain", "a", ID{1, 6}, 1)
	d := h[find(t, h, Recv, "plain", "a", ID{1, 2}, 1)]
	d.Token, d.Attempt, d.Epoch = h[i].Token+1, 2, epoch
	h = growTokensFrom(h, i)
	inv := d
	inv.E, inv.Op, inv.Sum, inv.Dur = AckInv, 900, 0, 0
	ok := inv
	ok.E = AckOK
	reset := newEvent(Epoch)
	reset.P, reset.Group, reset.Topic, reset.Epoch = 9*WorkersPerProcess, consumer, "plain", epoch
	extra := []Event{d, inv, ok}
	if epoch > 0 {
		extra = append([]Event{reset}, extra...)
	}
	return after(h, i, extra...)
}

// growTokens makes room for token 1.
func growTokens(h []Event) []Event { return growTokensFrom(h, -1) }

func growTokensFrom(h []Event, from int) []Event {
	low := uint64(0)
	if from >= 0 {
		low = h[from].Token
	}
	for i := range h {
		if h[i].Token > low {
			h[i].Token++
		}
	}
	return h
}

// recount corrects the promised rows of the read-backs.
func recount(h []Event) []Event {
	rows := map[string]int64{}
	for i := range h {
		if h[i].E == ReadBack {
			h[i].Count = rows[h[i].What]
		}
		rows[h[i].E.String()]++
	}
	return h
}

func TestACaseIsShownWithItsLinesAndAPicture(t *testing.T) {
	t.Parallel()
	h := cleanHistory()
	h[find(t, h, AckFail, "plain", "again", ID{1, 2}, 1)].E = AckOK
	page := text(t, judgeEvents(t, h))
	for _, want := range []string{"V10 fencing: 1 violations", `key "again"`, "> {", `"e":"ack.ok"`, "try 2", "process 4", "verdict: fail"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q:\n%s", want, page)
		}
	}
	if strings.Index(page, "V10 fencing: 1") > strings.Index(page, "V1   lost") {
		t.Error("errors do not stand first")
	}
}

func TestSlowRecoveryAfterTheLastFaultFails(t *testing.T) {
	t.Parallel()
	h := cleanHistory()
	answer := find(t, h, SendOK, "orders", "o4", ID{0, 1}, 1) // of the first send after the last fault
	if r := judgeStamped(t, h, stamps{laterAt: answer, laterFor: recoveryBound - time.Second}); len(r.Violations) > 0 {
		t.Errorf("within the bound: %v", r.Violations)
	}
	if r := judgeStamped(t, h, stamps{laterAt: answer, laterFor: recoveryBound + time.Second}); !slices.Equal(r.Violations, []string{"V17"}) {
		t.Errorf("over the bound: got %v, want V17", r.Violations)
	}
	if r := judgeStamped(t, h, stamps{laterAt: answer - 1, laterFor: recoveryBound + time.Second}); len(r.Violations) > 0 {
		t.Errorf("when nobody tried to send for so long: got %v, want none", r.Violations)
	}
}

func TestNothingMayBeHandedOutBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		var traced []Event
		done := map[string]bool{}
		for _, e := range cleanHistory() {
			sync := e
			sync.E, sync.P = Durable, 9*WorkersPerProcess
			place := fmt.Sprint(e.Topic, e.Offset)
			if e.E != Recv || done[place] {
				traced = append(traced, e)
				continue
			}
			done[place] = true
			if late {
				traced = append(traced, e, sync)
			} else {
				traced = append(traced, sync, e)
			}
		}
		var want []string
		if late {
			want = []string{"V11"}
		}
		if r := judgeEvents(t, traced); strings.Join(r.Violations, " ") != strings.Join(want, " ") {
			t.Errorf("durable late: %v: got %v, want %v\n%s", late, r.Violations, want, text(t, r))
		}
	}
}
