package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

func token(broker string, value uint64) keystrand.Token {
	return keystrand.Token{Broker: broker, Value: value}
}

// judge is a dialect that has one opinion.
type judge struct {
	dialect.Dialect
	class dialect.Class
}

func (j judge) Classify(error) dialect.Class { return j.class }

func TestCommitThatFailsHasAClass(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		class dialect.Class
		err   error
		want  error
	}{
		{dialect.ClassRetry, broken, keystrand.ErrRetryLater},
		{dialect.ClassUnknown, broken, keystrand.ErrUnknown},
		{dialect.ClassCorrupt, broken, keystrand.ErrCorrupt},
		{dialect.ClassRefused, broken, keystrand.ErrRejected},
		{dialect.ClassOther, broken, keystrand.ErrUnknown},
		{dialect.ClassOther, context.Canceled, context.Canceled},
	} {
		if err := commitError(judge{class: c.class}, c.err); !errors.Is(err, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%v: got %v, want %v", c.class, err, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	base := rules{gap: GapPark, maxPerAggregate: 3, maxAll: 10}
	machine := Transitions{"": {"Created": "NEW"}, "NEW": {"Paid": "PAID"}}
	at3 := dialect.InboxRow{Version: 3, Token: token("b", 5)}
	sum, other := []byte("sum"), []byte("other")
	e := func(version int64) keystrand.Event {
		return keystrand.Event{EventID: "e", Aggregate: "a", Version: version, Type: "Paid"}
	}
	applied := func(id string, sum []byte) *dialect.InboxEvent {
		return &dialect.InboxEvent{EventID: id, Aggregate: "a", Version: 2, Sum: sum}
	}
	for _, c := range []struct {
		name    string
		rules   rules
		version int64
		token   keystrand.Token
		k       known
		do      verb
		outcome Outcome
		err     error
		says    string
	}{
		{"first version of an unknown aggregate", base, 1, token("b", 1), known{}, doApply, Applied, nil, ""},
		{"next version", base, 4, token("b", 5), known{exists: true, row: at3}, doApply, Applied, nil, ""},
		{"next version, newer token", base, 4, token("b", 6), known{exists: true, row: at3}, doApply, Applied, nil, ""},
		{"next version, older token", base, 4, token("b", 4), known{exists: true, row: at3}, doRefuse, Superseded, keystrand.ErrSuperseded, "b:5"},
		{"next version, older token of another broker", base, 4, token("c", 1), known{exists: true, row: at3}, doApply, Applied, nil, ""},
		{"next version, no token", base, 4, keystrand.Token{}, known{exists: true, row: at3}, doApply, Applied, nil, ""},
		{"known id", base, 2, token("b", 5), known{exists: true, row: at3, seen: applied("e", sum)}, doNothing, Duplicate, nil, ""},
		{"known id, older token", base, 2, token("b", 4), known{exists: true, row: at3, seen: applied("e", sum)}, doRefuse, Superseded, keystrand.ErrSuperseded, ""},
		{"known id, other content", base, 4, token("b", 5), known{exists: true, row: at3, seen: applied("e", other)}, doAside, SetAside, nil, "event id"},
		{"applied version: ask what was applied", base, 2, token("b", 5), known{exists: true, row: at3}, readAt, "", nil, ""},
		{"applied version, unknown id, same content", base, 2, token("b", 5), known{exists: true, row: at3, atRead: true, at: applied("x", sum)}, doNothing, Stale, nil, ""},
		{"applied version, unknown id, other content", base, 2, token("b", 5), known{exists: true, row: at3, atRead: true, at: applied("x", other)}, doAside, SetAside, nil, "other content"},
		{"applied version, nothing kept", base, 2, token("b", 5), known{exists: true, row: at3, atRead: true}, doAside, SetAside, nil, "not kept"},
		{"gap: ask whether it waits", base, 5, token("b", 5), known{exists: true, row: at3}, readWaiting, "", nil, ""},
		{"gap: ask how many wait", base, 5, token("b", 5), known{exists: true, row: at3, waitingRead: true}, readAll, "", nil, ""},
		{"gap: park", base, 5, token("b", 5), known{exists: true, row: at3, waitingRead: true, allRead: true}, doPark, Parked, nil, ""},
		{"gap: waits already", base, 5, token("b", 5), known{exists: true, row: at3, waitingRead: true, waitingSum: sum}, doNothing, Parked, nil, ""},
		{"gap: another one waits", base, 5, token("b", 5), known{exists: true, row: at3, waitingRead: true, waitingSum: other}, doAside, SetAside, nil, "gap buffer"},
		{"gap: aggregate full", base, 9, token("b", 5), known{exists: true, row: dialect.InboxRow{Version: 3, Pending: 3}, waitingRead: true}, doRefuse, "", keystrand.ErrRetryLater, "3 events of this aggregate"},
		{"gap: inbox full", base, 9, token("b", 5), known{exists: true, row: at3, waitingRead: true, allRead: true, all: 10}, doRefuse, "", keystrand.ErrRetryLater, "10 events of this inbox"},
		{"gap: refused by setting", rules{gap: GapReject}, 5, token("b", 5), known{exists: true, row: at3}, doRefuse, "", keystrand.ErrRetryLater, "versions 4 to 4 are missing"},
		{"transition allowed", rules{transitions: machine}, 2, token("b", 5), known{exists: true, row: dialect.InboxRow{Version: 1, State: "NEW"}}, doApply, Applied, nil, ""},
		{"transition not allowed", rules{transitions: machine}, 1, token("b", 5), known{}, doRefuse, "", keystrand.ErrRejected, `in state ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := decide(c.rules, e(c.version), sum, c.token, c.k)
			if d.do != c.do || d.outcome != c.outcome || !errors.Is(d.err, c.err) || (d.err == nil) != (c.err == nil) {
				t.Fatalf("got verb %d, outcome %q, error %v; want %d, %q, %v", d.do, d.outcome, d.err, c.do, c.outcome, c.err)
			}
			if text := fmt.Sprint(d.reason, d.err); !strings.Contains(text, c.says) {
				t.Errorf("%q does not say %q", text, c.says)
			}
			if d.do == doApply && d.next.Version != c.version {
				t.Errorf("sets version %d", d.next.Version)
			}
		})
	}
}

// The invariant of decide, from any state.
func TestNoDecisionLowersAVersionOrATokenOfOneBroker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, low, high int) int64 { return int64(rapid.IntRange(low, high).Draw(t, what)) }
		brokers := rapid.SampledFrom([]string{"", "b", "c"})
		row := dialect.InboxRow{Version: draw("applied", 0, 5), Pending: int(draw("pending", 0, 4)), Token: token(brokers.Draw(t, "stored"), uint64(draw("stored token", 0, 3)))}
		sums := rapid.SampledFrom([][]byte{nil, []byte("x"), []byte("y")})
		k := known{exists: row.Version > 0, row: row, waitingRead: rapid.Bool().Draw(t, "w"), waitingSum: sums.Draw(t, "ws"), atRead: rapid.Bool().Draw(t, "a"), allRead: rapid.Bool().Draw(t, "all"), all: int(draw("n", 0, 12))}
		if s := sums.Draw(t, "seen"); s != nil {
			k.seen = &dialect.InboxEvent{Aggregate: "a", Version: 1, Sum: s}
		}
		if s := sums.Draw(t, "at"); s != nil {
			k.at = &dialect.InboxEvent{Aggregate: "a", Version: 1, Sum: s}
		}
		got := token(brokers.Draw(t, "given"), uint64(draw("given token", 0, 3)))
		e := keystrand.Event{EventID: "e", Aggregate: "a", Version: draw("version", 1, 8), Type: "T"}
		d := decide(rules{gap: GapPark, maxPerAggregate: 4, maxAll: 10}, e, []byte("x"), got, k)
		if stale := row.Token.Supersedes(got) && !got.IsZero(); stale != (d.outcome == Superseded) {
			t.Fatalf("stored %v, given %v: %+v", row.Token, got, d)
		}
		switch d.do {
		case doApply:
			if e.Version != row.Version+1 || d.next.Version != e.Version || d.next.Pending != row.Pending {
				t.Fatalf("applied version %d at %+v: %+v", e.Version, row, d)
			}
		case doPark:
			if e.Version <= row.Version+1 || d.next.Version != row.Version || d.next.Pending != row.Pending+1 || row.Pending >= 4 || k.all >= 10 {
				t.Fatalf("parked version %d at %+v, %d in all", e.Version, row, k.all)
			}
		case doAside:
			if d.next.Version != row.Version || d.next.Pending != row.Pending {
				t.Fatalf("set aside changed %+v to %+v", row, d.next)
			}
		default:
			return
		}
		if row.Token.Supersedes(d.next.Token) {
			t.Fatalf("token fell from %v to %v", row.Token, d.next.Token)
		}
	})
}

func TestContentSumTellsFieldsApart(t *testing.T) {
	t.Parallel()
	base := keystrand.Event{EventID: "e", Aggregate: "ab", Version: 1, Type: "c", Payload: []byte("d")}
	moved := base
	moved.Aggregate, moved.Type = "a", "bc"
	later := base
	later.Version = 2
	same := base
	same.EventID, same.TraceID = "other", "t"
	if string(sumOf(base)) == string(sumOf(moved)) || string(sumOf(base)) == string(sumOf(later)) || string(sumOf(base)) != string(sumOf(same)) {
		t.Error("the sum must cover aggregate, version, type and payload, and nothing else")
	}
}
