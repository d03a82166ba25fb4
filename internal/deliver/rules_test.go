package deliver

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
)

var ordered = keystrand.GroupSpec{Ordered: true}

func TestBlockedStrandHoldsNoOtherBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "A2", "B1", "C1", "B2")
	w.mustGet(Receive{}, "A1")
	for _, name := range []string{"B1", "C1", "B2"} {
		w.mustGet(Receive{}, name)
		w.mustAck(name)
	}
	w.mustGet(Receive{Max: 32})
	w.mustAck("A1")
	w.mustGet(Receive{}, "A2")
}

func TestOldestHeadIsServedFirstAcrossQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("C1@2", "A1@0", "B1@1", "C2@2", "D1@3")
	w.mustGet(Receive{}, "C1")
	w.mustGet(Receive{}, "A1")
	w.mustAck("C1")
	// C's next head is younger than B's and older than D's.
	w.mustGet(Receive{Max: 32}, "B1", "C2", "D1")
}

func TestOldestReceiveIsServedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	for _, name := range []string{"r1", "r2", "r3"} {
		w.receive(name, Receive{ClientID: name, Until: time.Minute})
	}
	w.send("A1", "B1", "C1")
	want := []string{"r1 gets A1 attempt 1", "r2 gets B1 attempt 1", "r3 gets C1 attempt 1"}
	if diff := cmp.Diff(w.takeEvents(), want); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyReceiveIsAnsweredWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.receive("r1", Receive{Until: 5 * time.Second})
	w.receive("r2", Receive{Until: 3 * time.Second})
	if at, ok := w.m.Next(); !ok || at != w.now+3*time.Second {
		t.Errorf("next tick %v, %v, want in 3s", at-w.now, ok)
	}
	w.advance(4 * time.Second)
	if diff := cmp.Diff(w.takeEvents(), []string{"r2 gets nothing"}); diff != "" {
		t.Error(diff)
	}
	w.advance(time.Second)
	if diff := cmp.Diff(w.takeEvents(), []string{"r1 gets nothing"}); diff != "" {
		t.Error(diff)
	}
	if at, ok := w.m.Next(); ok {
		t.Errorf("an idle machine wants a tick at %v", at)
	}
}

func TestAttemptsCountDeliveriesFromOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: state.UnlimitedAttempts})
	w.send("A1")
	for attempt := int32(1); attempt < 40; attempt++ {
		if g := w.mustGet(Receive{}, "A1")[0]; g.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", g.Attempt, attempt)
		}
		switch attempt % 3 {
		case 0:
			w.fail("A1", "boom", 0)
		case 1:
			w.advance(30 * time.Second) // the lease ends
		case 2:
			w.change("A1", 0)
		}
	}
}

func TestBackOffDoublesFromMinToMaxAndStartsAnewWithTheNextMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: state.UnlimitedAttempts, BackOffMin: 100 * time.Millisecond, BackOffMax: time.Second})
	w.send("A1", "A2")
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000, 1000} {
		want *= time.Millisecond
		w.mustGet(Receive{}, "A1")
		w.fail("A1", "boom", -1)
		if e := w.explain("A"); e.Left != want || e.Status != StatusBackingOff {
			t.Fatalf("%s, %v left, want backing off for %v", e.Status, e.Left, want)
		}
		w.advance(want - time.Millisecond)
		w.mustGet(Receive{})
		w.advance(time.Millisecond)
	}
	w.mustGet(Receive{}, "A1")
	w.mustAck("A1")
	w.mustGet(Receive{}, "A2")
	w.fail("A2", "boom", -1)
	if e := w.explain("A"); e.Left != 100*time.Millisecond {
		t.Errorf("the next message backs off %v, want 100ms", e.Left)
	}
}

func TestBackOffFollowsFailuresNotEndedLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	for range 3 {
		w.mustGet(Receive{Lease: 10 * time.Second}, "A1")
		w.advance(10 * time.Second) // at once again
	}
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	if e := w.explain("A"); e.Left != time.Second {
		t.Errorf("back-off %v after the first failure, want 1s", e.Left)
	}
}

func TestReportedDelayTakesThePlaceOfTheBackOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", 0)
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", time.Hour)
	w.advance(time.Hour - time.Millisecond)
	w.mustGet(Receive{})
	w.advance(time.Millisecond)
	w.mustGet(Receive{}, "A1")
}

func TestStaleTokenChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "A2")
	w.mustGet(Receive{Lease: 10 * time.Second}, "A1")
	w.advance(10 * time.Second)
	w.mustGet(Receive{}, "A1")
	before, records := w.p.Encode(nil), len(w.log)
	old := w.handle("A1/1")
	for name, h := range map[string]Handle{
		"older token":   old,
		"made-up token": {old.Strand, old.Entry, 1 << 50},
		"another entry": {old.Strand, 1, w.handle("A1/2").Token},
		"no strand":     {old.Strand + 1, old.Entry, w.handle("A1/2").Token},
	} {
		for what, verdict := range map[string]func() (Verdict, Actions){
			"ack":    func() (Verdict, Actions) { return w.m.Ack(w.now, h) },
			"fail":   func() (Verdict, Actions) { return w.m.Fail(w.now, h, "late", -1) },
			"change": func() (Verdict, Actions) { return w.m.Change(w.now, h, time.Hour) },
		} {
			v, a := verdict()
			w.perform(a)
			if v != Stale {
				t.Errorf("%s with %s: %v, want stale", what, name, v)
			}
		}
		w.perform(w.m.Undelivered(w.now, []Grant{{Strand: h.Strand, Entry: h.Entry, Token: h.Token}}))
	}
	if len(w.log) != records || !slices.Equal(w.p.Encode(nil), before) {
		t.Error("something was changed")
	}
}

func TestRepeatOfAnAckIsAlreadyDoneAlsoLongAfterAndOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{}, "A1")
	w.mustAck("A1")
	for i := range 2000 {
		name := fmt.Sprintf("B%d", i)
		w.send(name)
		w.mustGet(Receive{}, name)
		w.mustAck(name)
	}
	for range 2 {
		if v := w.ack("A1"); v != Already {
			t.Errorf("%v, want already done", v)
		}
		w.restart(true, 0)
	}
}

func TestFailureOfADeadLetterIsAlreadyDoneAndItsAckIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1, AtLimit: keystrand.AtLimitDeadLetter})
	w.send("A1")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	if v := w.fail("A1", "boom", -1); v != Already {
		t.Errorf("repeated failure: %v, want already done", v)
	}
	if v := w.ack("A1"); v != Stale {
		t.Errorf("ack of a dead letter: %v, want stale", v)
	}
}

func TestStrandStaysClosedUntilItsDeadLetterIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1, AtLimit: keystrand.AtLimitDeadLetter})
	w.lazy = true
	w.send("A1", "A2")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	w.advance(time.Hour)
	w.mustGet(Receive{})
	if e := w.explain("A"); e.Status != StatusFinishing {
		t.Errorf("status %q, want finishing", e.Status)
	}
	if s := w.m.Stats(); s.Finishing != 1 || s.Leased != 0 {
		t.Errorf("stats %+v, want one finishing", s)
	}
	// The broker dies before the copy was made: nothing is lost, and the limit is met again.
	w.restart(true, 0)
	w.advance(30 * time.Second)
	if len(w.dead) != 1 {
		t.Fatalf("%d dead letters are asked for, want 1", len(w.dead))
	}
	w.moveDead()
	w.mustGet(Receive{}, "A2")
}

func TestDeadLetterThatCannotBeMadeCanBeParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1, AtLimit: keystrand.AtLimitDeadLetter})
	w.lazy = true
	w.send("A1", "A2")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	ok, a := w.m.Park(w.now, w.key("A"), "dead letter not possible")
	w.perform(a)
	if e := w.explain("A"); !ok || e.Status != StatusParked {
		t.Errorf("parked %v, status %q", ok, e.Status)
	}
	// The copy comes after all, late: it finishes the head all the same.
	w.moveDead()
	w.mustGet(Receive{}, "A2")
	if s := w.m.Stats(); s.Parked != 0 || s.DeadLettered != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestDeadLetterOfAMessageFinishedMeanwhileChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1, AtLimit: keystrand.AtLimitDeadLetter})
	w.send("A1", "A2")
	h := w.mustGet(Receive{}, "A1")[0]
	w.mustAck("A1")
	w.mustGet(Receive{}, "A2")
	r := &state.DeadLetter{Group: testGroup, Topic: testTopic, Strand: h.Strand, Entry: h.Entry, Token: h.Token}
	w.append(r)
	w.perform(w.m.Applied(w.now, r))
	w.mustAck("A2")
}

func TestOperatorsFinishRecordSkipsTheHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "A2")
	w.mustGet(Receive{}, "A1")
	r := &state.Finish{Group: testGroup, Topic: testTopic, Strand: w.key("A"), Entry: 0, Reason: "skipped by an operator"}
	w.append(r)
	w.perform(w.m.Applied(w.now, r))
	if v := w.ack("A1"); v != Stale {
		t.Errorf("ack of the skipped message: %v, want stale", v)
	}
	w.mustGet(Receive{}, "A2")
}

func TestEndedLeaseIsEndedBeforeItsAckIsHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{Lease: 10 * time.Second}, "A1")
	w.now += 10 * time.Second // the process slept: no tick came
	if v := w.ack("A1"); v != Stale {
		t.Errorf("%v, want stale", v)
	}
	w.mustGet(Receive{Lease: 10 * time.Second}, "A1")
	w.now += 10*time.Second - 1
	if v := w.ack("A1"); v != Done {
		t.Errorf("one nanosecond before the end: %v, want done", v)
	}
}

func TestSignThatComesAfterTheSilenceDoesNotSaveTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{ClientID: "c", AutoRenew: true}, "A1")
	w.now += 31 * time.Second
	w.m.ClientSeen(w.now, "c")
	if v := w.ack("A1"); v != Stale {
		t.Errorf("%v, want stale", v)
	}
}

func TestAckIsASignOfLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "B1")
	w.mustGet(Receive{Max: 2, ClientID: "c", AutoRenew: true}, "A1", "B1")
	w.advance(20 * time.Second)
	w.mustAck("A1")
	w.advance(20 * time.Second)
	w.mustAck("B1")
}

func TestUndeliveredDoesNotCountTheAttemptNorASignOfLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1})
	w.send("A1", "B1")
	w.mustGet(Receive{Max: 2, ClientID: "c", AutoRenew: true}, "A1", "B1")
	w.advance(20 * time.Second)
	w.undelivered("A1")
	if g := w.mustGet(Receive{ClientID: "d"}, "A1")[0]; g.Attempt != 1 {
		t.Errorf("attempt %d, want 1", g.Attempt)
	}
	w.mustAck("A1")
	w.advance(10 * time.Second)
	if e := w.explain("B"); e.Status == StatusLeased {
		t.Error("an answer that was not written kept its client alive")
	}
}

func TestRecordedLeaseRunsItsWholeLengthAfterARestartAndItsHandleIsGoodOnce(t *testing.T) {
	t.Parallel()
	for _, unclean := range []bool{false, true} {
		w := newWorld(t, ordered)
		w.send("A1", "A2")
		w.mustGet(Receive{Lease: 20 * time.Second, ClientID: "c"}, "A1")
		w.advance(19 * time.Second)
		w.restart(unclean, 0)
		w.advance(19 * time.Second)
		w.mustGet(Receive{})
		w.mustAck("A1")
		if v := w.ack("A1"); v != Already {
			t.Errorf("unclean %v: second ack %v, want already done", unclean, v)
		}
		w.mustGet(Receive{}, "A2")
	}
}

func TestChangedLeaseIsTheOneThatRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{Lease: 20 * time.Second}, "A1")
	w.change("A1", time.Minute)
	w.restart(false, 0)
	w.advance(59 * time.Second)
	w.mustAck("A1")
}

func TestAfterACleanStopNothingIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.restart(false, 0)
	w.mustGet(Receive{}, "A1")
}

func TestAfterAnUncleanStopOnlyOldHeadsAreHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "B1")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	w.restart(true, 0)
	w.send("C1", "B2")
	w.mustGet(Receive{Max: 32}, "C1")
	if e := w.explain("B"); e.Status != StatusHeld || e.Left != 5*time.Second {
		t.Errorf("B is %s for %v, want held for 5s", e.Status, e.Left)
	}
	w.advance(2 * time.Second) // A's back-off is over, but its next grant may be one that was lost
	w.mustGet(Receive{Max: 32})
	if s := w.m.Stats(); s.Held != 1 || s.BackingOff != 1 {
		t.Errorf("stats %+v, want one held and one backing off", s)
	}
	w.advance(3 * time.Second)
	w.mustGet(Receive{Max: 32}, "A1", "B1")
}

func TestHeldStrandsDoNotFillTheMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.options.MaxReady = 10
	for i := range 100 {
		w.send(fmt.Sprintf("%c%c1", 'A'+i/26, 'A'+i%26))
	}
	w.restart(true, 0)
	if s := w.m.Stats(); s.Held != 10 || s.Strands != 10 {
		t.Errorf("stats %+v, want 10 held strands and no more", s)
	}
	w.advance(5 * time.Second)
	got := 0
	for range 100 {
		got += len(w.get(Receive{Max: 32}))
	}
	if got != 100 {
		t.Errorf("%d messages came, want 100", got)
	}
}

func TestSimpleReceiveGetsAtMost32OfAsManyStrands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	for i := range 50 {
		name := fmt.Sprintf("%c%c", 'A'+i/26, 'A'+i%26)
		w.send(name+"1", name+"2")
	}
	grants := w.get(Receive{Max: 100})
	strands := map[state.StrandKey]bool{}
	for _, g := range grants {
		strands[g.Strand] = true
	}
	if len(grants) != 32 || len(strands) != 32 {
		t.Errorf("%d messages of %d strands, want 32 of 32", len(grants), len(strands))
	}
	if n := len(w.get(Receive{Max: 0})); n != 1 {
		t.Errorf("a receive of 0 got %d, want 1", n)
	}
}

func TestPushWindowCountsPerClientAndEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, PushWindow: 3})
	for i := range 26 {
		w.send(fmt.Sprintf("%c1", 'A'+i))
	}
	out := 0
	for _, client := range []string{"c1", "c2"} {
		for slot := range int32(2) {
			for range 5 {
				out += len(w.get(Receive{ClientID: client, Slot: slot, Push: true, AutoRenew: true, Max: 32}))
			}
		}
	}
	if out != 12 {
		t.Errorf("%d messages are out, want 3 for each of 4 windows", out)
	}
	// A lease that ends makes room as an ack does.
	w.mustAck("A1")
	w.fail("B1", "boom", -1)
	w.undelivered("C1")
	if n := len(w.get(Receive{ClientID: "c1", Push: true, AutoRenew: true, Max: 32})); n != 1 {
		t.Errorf("%d messages after three were given back, want 1", n)
	}
}

func TestRaisedWindowServesReceivesThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, PushWindow: 1})
	w.send("A1", "B1")
	w.mustGet(Receive{ClientID: "c", Push: true}, "A1")
	w.receive("r", Receive{ClientID: "c", Push: true, Until: time.Minute})
	w.takeEvents()
	g := w.group
	g.Spec.PushWindow = 2
	w.perform(w.m.SetGroup(w.now, g))
	if diff := cmp.Diff(w.takeEvents(), []string{"r gets B1 attempt 1"}); diff != "" {
		t.Error(diff)
	}
}

func TestReceivesOfAClientThatIsGoneAreAnsweredAndGetNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.receive("r1", Receive{ClientID: "c", Push: true, AutoRenew: true, Until: time.Minute})
	w.receive("r2", Receive{ClientID: "c", Until: time.Minute})
	w.receive("r3", Receive{ClientID: "d", Until: time.Minute})
	w.gone("c", 3*time.Second)
	w.send("A1")
	want := []string{"r1 gets nothing", "r2 gets nothing", "r3 gets A1 attempt 1"}
	if diff := cmp.Diff(w.takeEvents(), want); diff != "" {
		t.Error(diff)
	}
}

func TestClientsThatHoldNothingAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	for i := range 100 {
		w.get(Receive{ClientID: fmt.Sprint("c", i), Push: true, AutoRenew: true})
	}
	w.send("A1")
	w.mustGet(Receive{ClientID: "busy", Push: true, AutoRenew: true}, "A1")
	for range 4 {
		w.advance(20 * time.Second)
		w.m.ClientSeen(w.now, "busy")
	}
	if n := len(w.m.clients); n != 1 {
		t.Errorf("%d clients are kept, want the busy one", n)
	}
	w.mustAck("A1")
}

func TestAttemptIDsAreForgottenWhenTheirMessagesAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	for i := range 50 {
		w.send(fmt.Sprintf("A%d", i))
		w.mustGet(Receive{ClientID: "c", AttemptID: fmt.Sprint(i)}, fmt.Sprintf("A%d", i))
		w.mustAck(fmt.Sprintf("A%d", i))
	}
	id := w.receive("r", Receive{ClientID: "c", AttemptID: "waits", Until: time.Minute})
	w.perform(w.m.Cancel(w.now, id))
	if n := len(w.m.attempts); n != 0 {
		t.Errorf("%d attempts are kept, want none", n)
	}
}

func TestRepeatedAttemptGetsTheWholeLeaseAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	first := w.mustGet(Receive{ClientID: "c", AttemptID: "x", Lease: 10 * time.Second}, "A1")[0]
	w.advance(9 * time.Second)
	second := w.mustGet(Receive{ClientID: "c", AttemptID: "x", Lease: 10 * time.Second}, "A1")[0]
	if first != second {
		t.Errorf("first %+v, second %+v, want the same", first, second)
	}
	w.advance(9 * time.Second)
	w.mustAck("A1")
}

func TestCancelledReceiveTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, PushWindow: 1})
	w.send("A1")
	w.mustGet(Receive{ClientID: "c", Push: true}, "A1")
	blocked := w.receive("blocked", Receive{ClientID: "c", Push: true, Until: time.Minute})
	waits := w.receive("waits", Receive{ClientID: "d", Until: time.Minute})
	for _, id := range []RequestID{blocked, waits, 999} {
		w.perform(w.m.Cancel(w.now, id))
	}
	w.takeEvents()
	w.mustAck("A1")
	w.send("B1", "C1")
	if diff := cmp.Diff(w.takeEvents(), []string(nil)); diff != "" {
		t.Errorf("a cancelled receive was answered:\n%s", diff)
	}
	w.mustGet(Receive{Max: 5}, "B1", "C1")
	if s := w.m.Stats(); s.Waiting != 0 {
		t.Errorf("%d receives wait", s.Waiting)
	}
}

func TestFollowersOfAParkedStrandStayAlsoOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1})
	w.send("A1", "A2")
	w.mustGet(Receive{}, "A1")
	w.fail("A1", "boom", -1)
	w.send("A3")
	w.restart(true, 0)
	w.advance(time.Hour)
	w.mustGet(Receive{Max: 32})
	if e := w.explain("A"); e.Status != StatusParked || e.Attempt != 1 || e.LastError == "" {
		t.Errorf("explained as %+v", e)
	}
	_, a := w.m.Resume(w.now, w.key("A"))
	w.perform(a)
	if g := w.mustGet(Receive{}, "A1")[0]; g.Attempt != 1 {
		t.Errorf("attempt %d after the resume, want 1", g.Attempt)
	}
	w.mustAck("A1")
	w.mustGet(Receive{}, "A2")
}

func TestGroupFromLatestGetsOnlyWhatComesAfterItsStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.log = nil
	w.send("A1", "B1")
	w.append(&state.Subscribe{Group: testGroup, Topic: testTopic, Expression: "*", Start: 2})
	w.durable = len(w.log)
	w.start()
	w.send("A2")
	w.mustGet(Receive{Max: 32}, "A2")
}

func TestCursorReadsABoundedNumberOfEntriesAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.subscribe("x")
	w.manual = true
	for i := range 3 * readBudget {
		w.send(fmt.Sprintf("A%d:y", i))
	}
	w.send("B1:x")
	w.receive("r", Receive{Until: time.Minute})
	w.durable = len(w.log)
	reads := w.index.Reads
	w.perform(w.m.Visible(w.now, int64(len(w.index.Entries))))
	for step := 0; ; step++ {
		if n := w.index.Reads - reads; n > readBudget {
			t.Fatalf("step %d read %d entries, bound %d", step, n, readBudget)
		}
		at, ok := w.m.Next()
		if !ok || at > w.now {
			break
		}
		reads = w.index.Reads
		w.perform(w.m.Tick(w.now))
	}
	if diff := cmp.Diff(w.takeEvents(), []string{"r gets B1 attempt 1"}); diff != "" {
		t.Error(diff)
	}
}

func TestSuccessorSearchReadsABoundedNumberOfEntriesAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.subscribe("x")
	w.send("A0:x")
	w.mustGet(Receive{}, "A0")
	w.manual = true
	for i := range 3 * readBudget {
		w.send(fmt.Sprintf("A%d:y", i+1))
	}
	w.send(fmt.Sprintf("A%d:x", 3*readBudget+1))
	w.sync()
	for at, ok := w.m.Next(); ok && at <= w.now; at, ok = w.m.Next() {
		w.perform(w.m.Tick(w.now))
	}
	w.mustAck("A0")
	w.receive("r", Receive{Until: time.Minute})
	w.takeEvents()
	w.sync()
	for step := 0; ; step++ {
		at, ok := w.m.Next()
		if !ok || at > w.now {
			break
		}
		reads := w.index.Reads
		w.perform(w.m.Tick(w.now))
		if n := w.index.Reads - reads; n > 2*readBudget+2 {
			t.Fatalf("step %d read %d entries", step, n)
		}
	}
	want := fmt.Sprintf("r gets A%d attempt 1", 3*readBudget+1)
	if diff := cmp.Diff(w.takeEvents(), []string{want}); diff != "" {
		t.Error(diff)
	}
}

func TestUnreadableIndexDelaysAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "A2")
	w.mustGet(Receive{}, "A1")
	w.index.Fail = func(int64) error { return errors.New("input/output error") }
	w.mustAck("A1")
	w.send("B1")
	if !w.alarmed(AlarmIndex) {
		t.Error("no alarm")
	}
	w.mustGet(Receive{Max: 32})
	alarms := len(w.alarms)
	w.advance(5 * time.Second)
	if n := len(w.alarms) - alarms; n > 6 {
		t.Errorf("%d alarms in 5s: it spins", n)
	}
	w.index.Fail = nil
	w.advance(2 * time.Second)
	w.mustGet(Receive{Max: 32}, "A2", "B1")
	if at, ok := w.m.Next(); ok && at <= w.now+indexRetry {
		t.Errorf("a tick is due in %v though the index is well", at-w.now)
	}
	if v := w.ack("A1"); v != Already {
		t.Errorf("the ack given while the index failed: %v, want already done", v)
	}
}

func TestUnreadableEntryStopsItsStrandOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "A2", "B1", "B2")
	w.mustGet(Receive{Max: 2}, "A1", "B1")
	w.index.Fail = func(n int64) error {
		if n == 1 {
			return errors.New("check sum")
		}
		return nil
	}
	w.mustAck("A1", "B1")
	w.send("C1")
	w.mustGet(Receive{Max: 32}, "B2", "C1")
	if e := w.explain("A"); e.Status != StatusFinishing || !w.alarmed(AlarmIndex) {
		t.Errorf("A is %s, alarms %v", e.Status, w.alarms)
	}
}

// TestStrandOpensOnlyWhenWhatClosedItIsDurable closes one strand in each way, syncs what came before that, and then itself.
func TestStrandOpensOnlyWhenWhatClosedItIsDurable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		close func(w *world)
		next  string
	}{
		"ack":         {func(w *world) { w.mustAck("A1") }, "A2"},
		"fail":        {func(w *world) { w.fail("A1", "boom", 0) }, "A1"},
		"undelivered": {func(w *world) { w.undelivered("A1") }, "A1"},
		"change to 0": {func(w *world) { w.change("A1", 0) }, "A1"},
		"lease end":   {func(w *world) { w.advance(30 * time.Second) }, "A1"},
		"client gone": {func(w *world) { w.gone("c", 0) }, "A1"},
		"park and resume": {func(w *world) {
			_, a := w.m.Park(w.now, w.key("A"), "by test")
			w.perform(a)
			_, a = w.m.Resume(w.now, w.key("A"))
			w.perform(a)
		}, "A1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ordered)
			w.send("A1", "A2")
			w.mustGet(Receive{ClientID: "c", AutoRenew: name == "client gone"}, "A1")
			w.manual = true
			before := uint64(len(w.log))
			c.close(w)
			w.perform(w.m.Durable(w.now, before))
			w.mustGet(Receive{})
			w.durable = len(w.log)
			w.perform(w.m.Durable(w.now, uint64(w.durable)))
			w.mustGet(Receive{}, c.next)
		})
	}
}

func TestDurableMarkOpensWhatItCoversAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "B1", "C1", "A2", "B2", "C2")
	w.mustGet(Receive{}, "A1", "B1", "C1")
	w.manual = true
	w.mustAck("A1")
	first := uint64(len(w.log))
	w.mustAck("B1")
	second := uint64(len(w.log))
	w.mustAck("C1")
	w.perform(w.m.Durable(w.now, first-1))
	w.mustGet(Receive{Max: 32})
	w.perform(w.m.Durable(w.now, first))
	w.mustGet(Receive{Max: 32}, "A2")
	w.perform(w.m.Durable(w.now, second))
	w.mustGet(Receive{Max: 32}, "B2")
	w.perform(w.m.Durable(w.now, second)) // told twice
	w.mustGet(Receive{Max: 32})
}

func TestStrandsInMemoryAreBoundedWithAnAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 1})
	w.options.MaxStrands = 3
	w.start()
	w.send("A1", "B1", "C1", "D1", "E1")
	for _, name := range []string{"A1", "B1", "C1"} {
		w.mustGet(Receive{}, name)
		w.fail(name, "boom", -1)
	}
	w.mustGet(Receive{})
	if s := w.m.Stats(); s.Parked != 3 || s.Strands != 3 || !w.alarmed(AlarmFull) {
		t.Errorf("stats %+v, alarms %v", s, w.alarms)
	}
	_, a := w.m.Resume(w.now, w.key("A"))
	w.perform(a)
	w.mustGet(Receive{}, "A1")
	w.mustAck("A1")
	w.mustGet(Receive{}, "D1")
}

func TestLeaseAndWaitKeepToTheirBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1", "B1", "C1")
	if g := w.mustGet(Receive{}, "A1")[0]; g.Lease != defaultLease {
		t.Errorf("lease %v, want %v", g.Lease, defaultLease)
	}
	if g := w.mustGet(Receive{Lease: 24 * time.Hour}, "B1")[0]; g.Lease != state.MaxLease {
		t.Errorf("lease %v, want %v", g.Lease, state.MaxLease)
	}
	if g := w.mustGet(Receive{Lease: time.Second, AutoRenew: true, ClientID: "c"}, "C1")[0]; g.Lease != 15*time.Minute {
		t.Errorf("auto-renewed lease %v, want the group's bound", g.Lease)
	}
	w.change("A1", 1000*time.Hour)
	if e := w.explain("A"); e.Left != state.MaxLease {
		t.Errorf("changed to %v, want %v", e.Left, state.MaxLease)
	}
}

func TestClockThatStandsOrStepsBackDoesNotDisturb(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.send("A1")
	w.mustGet(Receive{Lease: 10 * time.Second}, "A1")
	at := w.now
	w.now += 9 * time.Second
	w.perform(w.m.Tick(w.now))
	w.now = at - time.Second
	w.perform(w.m.Tick(w.now))
	w.mustAck("A1")
}

func TestNextTickIsNeverDueAfterATick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		for range rapid.IntRange(1, 20).Draw(t, "acts") {
			rapid.SampledFrom([]func(*rapid.T){r.send, r.receive, r.clients, r.wait}).Draw(t, "act")(t)
			r.w.perform(r.w.m.Tick(r.w.now))
			if at, ok := r.w.m.Next(); ok && at <= r.w.now {
				t.Fatalf("the next tick is due %v ago: a shell would spin", r.w.now-at)
			}
		}
	})
}

func TestHeapKeepsItsOrderUnderRemovals(t *testing.T) {
	t.Parallel()
	type item struct {
		key, tie int64
		at       int32
	}
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*item]{place: func(x *item) *int32 { return &x.at }}
		var in []*item
		for range rapid.IntRange(0, 200).Draw(t, "acts") {
			switch {
			case len(in) == 0 || rapid.IntRange(0, 2).Draw(t, "act") == 0:
				x := &item{key: rapid.Int64Range(0, 9).Draw(t, "key"), tie: int64(len(in)), at: -1}
				h.set(x, x.key, x.tie)
				in = append(in, x)
			case rapid.Bool().Draw(t, "move"):
				x := in[rapid.IntRange(0, len(in)-1).Draw(t, "item")]
				x.key = rapid.Int64Range(0, 9).Draw(t, "key")
				h.set(x, x.key, x.tie)
			default:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "item")
				h.remove(in[i])
				if in[i].at != -1 {
					t.Fatal("a removed item believes it is in")
				}
				h.remove(in[i])
				in = slices.Delete(in, i, i+1)
			}
			if h.len() != len(in) {
				t.Fatalf("%d items, want %d", h.len(), len(in))
			}
			for i := range h.entries {
				if int(h.entries[i].item.at) != i || i > 0 && h.entries[i].less(&h.entries[(i-1)/2]) {
					t.Fatalf("item %d is out of place", i)
				}
			}
		}
	})
}

// TestTimeOfAStepDoesNotDependOnWhatIsBlocked: a million messages behind blocked heads are never looked at.
func TestWhatStandsBehindABlockedHeadIsNotReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordered)
	w.manual = true
	for i := range 5000 {
		w.send(fmt.Sprintf("A%d", i))
	}
	w.sync()
	for at, ok := w.m.Next(); ok && at <= w.now; at, ok = w.m.Next() {
		w.perform(w.m.Tick(w.now))
	}
	w.mustGet(Receive{}, "A0")
	reads := w.index.Reads
	for i := range 100 {
		name := fmt.Sprintf("B%d", i)
		w.send(name)
		w.sync()
		w.mustGet(Receive{}, name)
		w.mustAck(name)
		w.sync()
	}
	if n := w.index.Reads - reads; n > 300 {
		t.Errorf("100 messages read %d entries: what is blocked is read again", n)
	}
	if s := w.m.Stats(); s.Strands != 1 {
		t.Errorf("%d strands in memory, want 1", s.Strands)
	}
}
