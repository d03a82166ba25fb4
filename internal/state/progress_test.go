package state_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/state/statetest"
)

const (
	group = state.GroupID(7)
	topic = state.TopicID(3)
	a, b  = uint64(1 << 40), uint64(2 << 40) // hashes of two message groups
)

// fold is a progress with its index; entries are appended as (group hash, tag).
type fold struct {
	t  *testing.T
	ix *statetest.Index
	p  *state.Progress
	n  uint64
}

func newFold(t *testing.T, spec keystrand.GroupSpec, filter string, hashes ...uint64) *fold {
	f := &fold{t: t, ix: statetest.New(), p: state.NewProgress(group, topic, spec)}
	for _, h := range hashes {
		f.ix.Append(0, h, 0)
	}
	f.apply(&state.Subscribe{Group: group, Topic: topic, Expression: filter})
	return f
}

func (f *fold) apply(r state.Record) {
	f.t.Helper()
	if err := f.p.Apply(r, f.ix); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fold) grant(key uint64, entry int64, attempt int32) uint64 {
	f.t.Helper()
	f.n++
	f.apply(&state.Grant{Group: group, Topic: topic, Strand: state.StrandKey(key), Entry: entry, Count: 1, Attempt: attempt, Token: f.n})
	return f.n
}

func (f *fold) finish(key uint64, entry int64, token uint64) {
	f.t.Helper()
	f.apply(&state.Finish{Group: group, Topic: topic, Strand: state.StrandKey(key), Entry: entry, Token: token})
}

// heads lists the heads of the strands in memory.
func (f *fold) heads() []int64 {
	heads := []int64{}
	for _, s := range f.p.Strands {
		heads = append(heads, s.Head)
	}
	slices.Sort(heads)
	return heads
}

func (f *fold) wantHeads(want ...int64) {
	f.t.Helper()
	if got := f.heads(); !slices.Equal(got, want) {
		f.t.Fatalf("heads %v, want %v", got, want)
	}
}

var ordered = keystrand.GroupSpec{Ordered: true}

func TestGrantMovesTheCursorAndMakesTheStrandsOnItsWay(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, b, a, a)
	f.grant(b, 1, 1)
	f.wantHeads(0, 1)
	if f.p.Cursor != 2 {
		t.Errorf("cursor %d, want 2", f.p.Cursor)
	}
}

func TestCursorPassesOverWhatStandsBehindAHead(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, a, a, b)
	f.grant(b, 3, 1)
	f.wantHeads(0, 3)
}

func TestFinishedStrandGoesOnBelowTheCursorAndLeavesMemoryAboveIt(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, b, a, a)
	token := f.grant(a, 0, 1)
	f.finish(a, 0, token)
	f.wantHeads() // entry 2 is above the cursor, which stands at 1
	token = f.grant(a, 2, 1)
	f.wantHeads(1, 2)
	f.grant(b, 1, 1)
	f.finish(a, 2, token)
	f.wantHeads(1)
	if f.p.Finished != 2 || f.p.Unfinished(4) != 2 {
		t.Errorf("finished %d, unfinished %d, want 2 and 2", f.p.Finished, f.p.Unfinished(4))
	}
}

func TestMessagesWithoutAGroupFormAStrandPerQueue(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*")
	for range 2 {
		f.ix.Append(0, 0, 0)
		f.ix.Append(1, 0, 0)
	}
	token := f.grant(uint64(state.QueueStrand(1)), 1, 1)
	f.grant(uint64(state.QueueStrand(0)), 0, 1)
	if err := f.p.AdvanceTo(4, f.ix); err != nil {
		t.Fatal(err)
	}
	f.wantHeads(0, 1)
	f.finish(uint64(state.QueueStrand(1)), 1, token)
	f.wantHeads(0, 3)
}

func TestOrderLevelQueueJoinsAllGroupsOfAQueue(t *testing.T) {
	t.Parallel()
	f := newFold(t, keystrand.GroupSpec{Ordered: true, OrderLevel: state.LevelQueue}, "*", a, b, a)
	if err := f.p.AdvanceTo(3, f.ix); err != nil {
		t.Fatal(err)
	}
	f.wantHeads(0)
}

func TestUnorderedGroupHasAStrandPerMessage(t *testing.T) {
	t.Parallel()
	f := newFold(t, keystrand.GroupSpec{}, "*", a, a, a)
	token := f.grant(1, 1, 1)
	f.wantHeads(0, 1)
	f.finish(1, 1, token)
	f.wantHeads(0)
}

func TestRecordsThatDoNotFitAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	key := state.StrandKey(a)
	for name, r := range map[string]state.Record{
		"finish under another token":      &state.Finish{Group: group, Topic: topic, Strand: key, Entry: 0, Token: 99},
		"finish of a follower":            &state.Finish{Group: group, Topic: topic, Strand: key, Entry: 1, Token: 1},
		"finish of a strand not in sight": &state.Finish{Group: group, Topic: topic, Strand: state.StrandKey(b), Entry: 0, Token: 1},
		"grant of a leased strand":        &state.Grant{Group: group, Topic: topic, Strand: key, Entry: 0, Token: 2},
		"resume of what is not parked":    &state.Resume{Group: group, Topic: topic, Strand: key, Entry: 0},
		"failure under another token":     &state.Fail{Group: group, Topic: topic, Strand: key, Entry: 0, Token: 99},
		"lease under another token":       &state.Lease{Group: group, Topic: topic, Strand: key, Entry: 0, Token: 99},
		"release under another token":     &state.Release{Group: group, Topic: topic, Strand: key, Entry: 0, Token: 99},
		"entry below the start":           &state.Park{Group: group, Topic: topic, Strand: key, Entry: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFold(t, ordered, "*", a, a)
			f.grant(a, 0, 1)
			if err := f.p.AdvanceTo(2, f.ix); err != nil {
				t.Fatal(err)
			}
			before := f.p.Encode(nil)
			err := f.p.Apply(r, f.ix)
			var misfit *state.MisfitError
			if !errors.As(err, &misfit) || !errors.Is(err, keystrand.ErrCorrupt) {
				t.Errorf("got %v, want a MisfitError of class ErrCorrupt", err)
			}
			if diff := cmp.Diff(f.p.Encode(nil), before); diff != "" {
				t.Errorf("it changed the state:\n%s", diff)
			}
		})
	}
}

func TestRecordsOfOthersChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a)
	before := f.p.Encode(nil)
	f.apply(&state.Grant{Group: group + 1, Topic: topic, Strand: state.StrandKey(a), Entry: 0, Token: 1})
	f.apply(&state.Grant{Group: group, Topic: topic + 1, Strand: state.StrandKey(a), Entry: 0, Token: 1})
	f.apply(&state.Message{Topic: topic})
	if diff := cmp.Diff(f.p.Encode(nil), before); diff != "" {
		t.Error(diff)
	}
}

func TestDeadLetterThatCameTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, a)
	token := f.grant(a, 0, 1)
	r := &state.DeadLetter{Group: group, Topic: topic, Strand: state.StrandKey(a), Entry: 0, Token: token}
	if err := f.p.AdvanceTo(2, f.ix); err != nil {
		t.Fatal(err)
	}
	f.apply(r)
	f.wantHeads(1)
	before := f.p.Encode(nil)
	f.apply(r)
	if diff := cmp.Diff(f.p.Encode(nil), before); diff != "" {
		t.Error(diff)
	}
	if f.p.DeadLettered != 1 || f.p.WasFinished(token) || !f.p.WasDeadLettered(token) {
		t.Errorf("dead letters %d, finished %v, dead-lettered %v", f.p.DeadLettered, f.p.WasFinished(token), f.p.WasDeadLettered(token))
	}
}

func TestUnreadableIndexKeepsTheFinishAndThePlace(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, a, b)
	token := f.grant(a, 0, 1)
	f.grant(b, 2, 1)
	f.ix.Fail = func(int64) error { return errors.New("disk") }
	f.finish(a, 0, token)
	if !f.p.WasFinished(token) || f.p.Finished != 1 {
		t.Fatal("the finish does not hold")
	}
	s := f.p.Strands[state.StrandKey(a)]
	if s == nil || !s.Seeking || s.Head != 0 {
		t.Fatalf("strand %+v, want it seeking from entry 0", s)
	}
	back, err := state.DecodeProgress(f.p.Encode(nil))
	if err != nil || !back.Strands[state.StrandKey(a)].Seeking {
		t.Fatalf("after a snapshot: %+v, %v", back, err)
	}
	f.ix.Fail = nil
	if _, err := f.p.Seek(s, f.ix, 10); err != nil {
		t.Fatal(err)
	}
	f.wantHeads(1, 2)
}

func TestUnreadableIndexStopsTheCursorWithoutLoss(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "*", a, b)
	f.ix.Fail = func(n int64) error {
		if n == 1 {
			return errors.New("disk")
		}
		return nil
	}
	if err := f.p.AdvanceTo(2, f.ix); err == nil {
		t.Fatal("no error")
	}
	f.wantHeads(0)
	f.ix.Fail = nil
	if err := f.p.AdvanceTo(2, f.ix); err != nil {
		t.Fatal(err)
	}
	f.wantHeads(0, 1)
}

func TestSuccessorSearchKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const filtered = 5000
	f := newFold(t, ordered, "x")
	f.ix.Append(0, a, state.TagHash("x"))
	for range filtered {
		f.ix.Append(0, a, state.TagHash("y"))
	}
	f.ix.Append(0, a, state.TagHash("x"))
	token := f.grant(a, 0, 1)
	if err := f.p.AdvanceTo(filtered+2, f.ix); err != nil {
		t.Fatal(err)
	}
	reads := f.ix.Reads
	f.finish(a, 0, token)
	if n := f.ix.Reads - reads; n > 1000 {
		t.Errorf("the finish read %d entries", n)
	}
	s := f.p.Strands[state.StrandKey(a)]
	for rounds := 0; s.Seeking; rounds++ {
		if _, err := f.p.Seek(s, f.ix, 100); err != nil || rounds > filtered {
			t.Fatalf("round %d: %v", rounds, err)
		}
	}
	f.wantHeads(filtered + 1)
	if f.p.Filtered != filtered || f.p.Unfinished(filtered+2) != 1 {
		t.Errorf("filtered %d, unfinished %d, want %d and 1", f.p.Filtered, f.p.Unfinished(filtered+2), filtered)
	}
}

func TestFoldTakesTheRecordsHeadWhenItsOwnSearchHasNotGotThere(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "x")
	f.ix.Append(0, a, state.TagHash("x"))
	for range 1000 {
		f.ix.Append(0, a, state.TagHash("y"))
	}
	f.ix.Append(0, a, state.TagHash("x"))
	token := f.grant(a, 0, 1)
	if err := f.p.AdvanceTo(1002, f.ix); err != nil {
		t.Fatal(err)
	}
	f.finish(a, 0, token)
	if !f.p.Strands[state.StrandKey(a)].Seeking {
		t.Fatal("the search ended within its budget; the test needs a longer way")
	}
	f.grant(a, 1001, 1)
	f.wantHeads(1001)
	if f.p.Filtered != 1000 {
		t.Errorf("filtered %d, want 1000", f.p.Filtered)
	}
}

func TestChangedFilterLeavesWhatTheOldOneJudged(t *testing.T) {
	t.Parallel()
	f := newFold(t, ordered, "x")
	for _, tag := range []string{"y", "x", "y"} {
		f.ix.Append(0, a, state.TagHash(tag))
	}
	f.apply(&state.Subscribe{Group: group, Topic: topic, Expression: "y", Cursor: 2})
	f.wantHeads(1)
	if f.p.Filtered != 1 || f.p.Start != 0 {
		t.Errorf("filtered %d, start %d, want 1 and 0", f.p.Filtered, f.p.Start)
	}
	// The head stays, though the new filter does not match it; entry 2, behind it, is judged by the new one.
	token := f.grant(a, 1, 1)
	if err := f.p.AdvanceTo(3, f.ix); err != nil {
		t.Fatal(err)
	}
	f.finish(a, 1, token)
	f.wantHeads(2)
}

func TestGroupFromLatestStartsWhereItsSubscriptionSays(t *testing.T) {
	t.Parallel()
	f := &fold{t: t, ix: statetest.New(), p: state.NewProgress(group, topic, ordered)}
	for _, h := range []uint64{a, b, a} {
		f.ix.Append(0, h, 0)
	}
	f.apply(&state.Subscribe{Group: group, Topic: topic, Expression: "*", Start: 2})
	f.grant(a, 2, 1)
	f.wantHeads(2)
	if f.p.Unfinished(3) != 1 {
		t.Errorf("unfinished %d, want 1", f.p.Unfinished(3))
	}
	// Only the first subscription sets the start.
	f.apply(&state.Subscribe{Group: group, Topic: topic, Expression: "*", Start: 3})
	if f.p.Start != 2 || f.p.Cursor != 3 {
		t.Errorf("start %d, cursor %d, want 2 and 3", f.p.Start, f.p.Cursor)
	}
}

func TestFinishedTokensAreRememberedAcrossEpochs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := keystrand.GroupSpec{}
		ix := statetest.New()
		p := state.NewProgress(group, topic, spec)
		stride := rapid.SampledFrom([]uint64{1, 2, 64, 256, 65536}).Draw(t, "stride")
		var tokens []uint64
		for i := range rapid.IntRange(1, 3000).Draw(t, "count") {
			n := ix.Append(0, 0, 0)
			token := uint64(1+i/1500)<<40 | uint64(i%1500+1)*stride
			tokens = append(tokens, token)
			for _, r := range []state.Record{
				&state.Grant{Group: group, Topic: topic, Strand: state.StrandKey(n), Entry: n, Token: token, Attempt: 1},
				&state.Finish{Group: group, Topic: topic, Strand: state.StrandKey(n), Entry: n, Token: token},
			} {
				if err := p.Apply(r, ix); err != nil {
					t.Fatal(err)
				}
			}
		}
		forgotten := 0
		for _, token := range tokens {
			if !p.WasFinished(token) {
				forgotten++
			}
			if p.WasFinished(token+1<<30) || p.WasDeadLettered(token) {
				t.Fatalf("token %x is remembered as what it is not", token)
			}
		}
		if forgotten > len(tokens)/100 {
			t.Fatalf("%d of %d tokens are forgotten, far below the bound", forgotten, len(tokens))
		}
		if p.WasFinished(0) {
			t.Fatal("no token counts as finished")
		}
	})
}

func FuzzDecodeProgress(f *testing.F) {
	p := newFold(&testing.T{}, ordered, "*", a, b, a)
	p.grant(b, 1, 1)
	p.apply(&state.Park{Group: group, Topic: topic, Strand: state.StrandKey(a), Entry: 0, Reason: "boom"})
	f.Add(p.p.Encode(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := state.DecodeProgress(body)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if diff := cmp.Diff(p.Encode(nil), body); diff != "" {
			t.Fatalf("encoded again (-) and read (+):\n%s", diff)
		}
	})
}
