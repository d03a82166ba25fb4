package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/keystrand/keystrand"
)

// What recovery decides, case by case. Records are of 32 bytes; r(place, mark) is one whose batch ends with it.
func TestTheJudgeCutsOnlyWhatNothingCallsDurable(t *testing.T) {
	t.Parallel()
	const first = segmentStart
	r := func(off int64, durable Position) frame {
		return frame{kind: 1, epoch: 5, place: at(1, off), durable: durable}
	}
	more := func(f frame) frame { f.more = true; return f }
	old := func(f frame) frame { f.epoch = 4; return f }
	own := func(f frame, k Kind) frame { f.kind = k; return f }
	for name, c := range map[string]struct {
		mark    Position
		chain   []frame
		strays  []frame
		refused error // of the last of the chain
		end     Position
		clean   bool
		corrupt bool
	}{
		"nothing":                         {end: at(1, first)},
		"a record that ends its batch":    {chain: []frame{r(first, 0)}, end: at(1, first+32)},
		"half a batch":                    {chain: []frame{r(first, 0), more(r(first+32, 0))}, end: at(1, first+32)},
		"half a batch that was durable":   {chain: []frame{r(first, 0), more(r(first+32, 0))}, mark: at(1, first+64), end: at(1, first+32), corrupt: true},
		"a whole batch of two":            {chain: []frame{more(r(first, 0)), r(first+32, 0)}, end: at(1, first+64)},
		"a hole nobody called durable":    {chain: []frame{r(first, 0)}, strays: []frame{r(first+96, at(1, first+32))}, end: at(1, first+32)},
		"a hole that was durable":         {chain: []frame{r(first, 0)}, strays: []frame{r(first+96, at(1, first+64))}, end: at(1, first+32), corrupt: true},
		"an old stray tells the truth":    {chain: []frame{r(first, 0)}, strays: []frame{old(r(first+96, at(1, first+64)))}, end: at(1, first+32), corrupt: true},
		"the mark file alone tells":       {chain: []frame{r(first, 0)}, mark: at(1, first+64), end: at(1, first+32), corrupt: true},
		"the mark at the end is in order": {chain: []frame{r(first, 0)}, mark: at(1, first+32), end: at(1, first+32)},
		"an epoch that falls":             {chain: []frame{r(first, 0), old(r(first+32, 0))}, refused: errOldEpoch, end: at(1, first+32)},
		"a seal goes on in the next":      {chain: []frame{r(first, 0), own(r(first+32, 0), kindSeal)}, end: at(2, first)},
		"a seal inside a batch":           {chain: []frame{more(r(first, 0)), own(r(first+32, 0), kindSeal)}, refused: errBatchCut, end: at(1, first)},
		"a clean stop":                    {chain: []frame{r(first, 0), own(r(first+32, 0), kindClean)}, end: at(1, first+64), clean: true},
		"a clean stop long ago":           {chain: []frame{own(r(first, 0), kindClean), own(r(first+32, 0), kindLife)}, end: at(1, first+64)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &judge{known: c.mark, end: at(1, first)}
			for i := range c.chain {
				err := j.record(&c.chain[i])
				if want := c.refused; i == len(c.chain)-1 && !errors.Is(err, want) || i < len(c.chain)-1 && err != nil {
					t.Fatalf("record %d: got %v, want %v", i, err, want)
				}
			}
			j.breaks(at(1, first+32*int64(len(c.chain))), errNoRecord)
			for i := range c.strays {
				j.stray(&c.strays[i])
			}
			err := j.verdict()
			if j.end != c.end || j.clean != c.clean {
				t.Errorf("got end %v, clean %v, want %v, %v", j.end, j.clean, c.end, c.clean)
			}
			if got := errors.Is(err, keystrand.ErrCorrupt); got != c.corrupt {
				t.Errorf("got %v, want corrupt: %v", err, c.corrupt)
			}
			if c.corrupt && !strings.Contains(err.Error(), "log segment 1 offset") {
				t.Errorf("got %v, want it to name the place", err)
			}
		})
	}
}
