package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
	"pgregory.net/rapid"
)

// tight makes every bound of an index bite within a few hundred entries.
var tight = indexLimits{pages: 4, memPairs: 50, inlinePairs: 20}

// plain is the model of an index: everything in memory, nothing clever.
type plain struct {
	entries []Entry
	ids     []string
	queues  map[int32][]int64
	// reused: numbers were given twice, so a look-up by id may also name an entry that carries another one.
	reused bool
}

func (m *plain) append(e Entry, id string) {
	n := int64(len(m.entries))
	e.Prev, e.Next, e.QueueNext = NoEntry, NoEntry, NoEntry
	for p := n - 1; p >= 0; p-- {
		same := m.entries[p].GroupHash == e.GroupHash && (e.GroupHash != 0 || m.entries[p].Queue == e.Queue)
		if same {
			e.Prev = p
			m.entries[p].Next = n
			break
		}
	}
	if m.queues == nil {
		m.queues = map[int32][]int64{}
	}
	if q := m.queues[e.Queue]; len(q) > 0 {
		m.entries[q[len(q)-1]].QueueNext = n
	}
	m.queues[e.Queue] = append(m.queues[e.Queue], n)
	m.entries, m.ids = append(m.entries, e), append(m.ids, id)
}

// first returns the model as it was with n entries.
func (m *plain) first(n int64) *plain {
	part := &plain{}
	for i := range n {
		part.append(m.entries[i], m.ids[i])
	}
	return part
}

// make draws the next entry: few groups and queues, so that chains cross; ids repeat now and then.
func (m *plain) make(r *rand.Rand, groups, queues int) (Entry, string) {
	pos := at(1, segmentStart)
	if n := len(m.entries); n > 0 {
		pos = m.entries[n-1].Position + Position(8*(4+r.IntN(100)))
	}
	q := int32(r.IntN(queues))
	e := Entry{Position: pos, SizeBytes: r.Uint32(), Queue: q, QueueOffset: int64(len(m.queues[q])), TagHash: r.Uint32()}
	if g := r.IntN(groups + 1); g > 0 {
		e.GroupHash = mix(uint64(g))
	}
	id := fmt.Sprint("id-", len(m.entries))
	if r.IntN(10) == 0 && len(m.ids) > 0 {
		id = m.ids[r.IntN(len(m.ids))]
	}
	return e, id
}

// check compares everything an index answers with the model.
func (m *plain) check(x *Index) error {
	if got, want := x.Count(), int64(len(m.entries)); got != want {
		return fmt.Errorf("got %d entries, want %d", got, want)
	}
	numbers := map[string][]int64{}
	for n, want := range m.entries {
		got, err := x.Entry(int64(n))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("entry %d: got %+v, want %+v", n, got, want)
		}
		numbers[m.ids[n]] = append(numbers[m.ids[n]], int64(n))
	}
	for id, want := range numbers {
		got, err := x.ByID(id)
		if err != nil {
			return err
		}
		if m.reused {
			got = slices.DeleteFunc(got, func(n int64) bool { return m.ids[n] != id })
		}
		if !slices.Equal(got, want[:min(len(want), maxCandidates)]) {
			return fmt.Errorf("id %s: got %v, want %v", id, got, want)
		}
	}
	for q, want := range m.queues {
		if got := x.QueueCount(q); got != int64(len(want)) {
			return fmt.Errorf("queue %d: got %d offsets, want %d", q, got, len(want))
		}
		for off, n := range want {
			got, err := x.ByQueueOffset(q, int64(off))
			if err != nil {
				return err
			}
			if got != n {
				return fmt.Errorf("queue %d offset %d: got %d, want %d", q, off, got, n)
			}
		}
	}
	return nil
}

// feed appends the model's entries from number n on, as a replay does.
func (m *plain) feed(x *Index, n int64) error {
	for ; n < int64(len(m.entries)); n++ {
		got, err := x.Append(m.entries[n])
		if err == nil && got != n {
			err = fmt.Errorf("got number %d, want %d", got, n)
		}
		if err == nil {
			err = x.PutID(m.ids[n], n)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", n, err)
		}
	}
	return nil
}

// replay feeds an index that was just opened what a log's replay from its checkpoint would.
func (m *plain) replay(x *Index) error {
	from := x.CheckpointPosition()
	n := 0
	for n < len(m.entries) && m.entries[n].Position < from {
		n++
	}
	return m.feed(x, int64(n))
}

func openX(t failer, disk vfs.FS) *Index {
	t.Helper()
	x, err := openIndex(disk, "x", 7, tight)
	must(t, err)
	return x
}

// Against the model: appends, checkpoints, clean and unclean stops in any order; after each stop what is left is a
// prefix not below the last checkpoint, and a replay makes it whole.
func TestAnIndexAnswersAsAPlainListWouldWhateverStopsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		groups, queues := rapid.IntRange(0, 12).Draw(rt, "groups"), rapid.IntRange(1, 4).Draw(rt, "queues")
		r := rand.New(rand.NewPCG(seed, 1))
		disk := vfs.NewCrashFS()
		m := &plain{}
		x := openX(rt, disk)
		kept := int64(0)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch step := rapid.SampledFrom([]string{"append", "append", "append", "checkpoint", "close", "kill", "power loss"}).Draw(rt, "step"); step {
			case "append":
				for range r.IntN(200) {
					e, id := m.make(r, groups, queues)
					m.append(e, id)
				}
				must(rt, m.feed(x, x.Count()))
			case "checkpoint":
				pos, err := x.Checkpoint()
				must(rt, err)
				kept = x.Count()
				if kept > 0 && pos < m.entries[kept-1].Position {
					rt.Fatalf("got position %v, want at least %v", pos, m.entries[kept-1].Position)
				}
			default:
				if step == "close" {
					must(rt, x.Close())
					must(rt, x.Close())
					kept = int64(len(m.entries))
				} else {
					p := map[string]float64{"kill": 1, "power loss": 0.5}[step]
					next := disk.Crash(p, r.Uint64())
					must(rt, x.Abandon())
					disk = next
				}
				x = openX(rt, disk)
				if x.Rebuilt() != "" || x.Count() != kept {
					rt.Fatalf("after %s: got %d entries (rebuilt: %q), want %d", step, x.Count(), x.Rebuilt(), kept)
				}
				must(rt, m.first(kept).check(x))
				must(rt, m.replay(x))
			}
		}
		must(rt, m.check(x))
		must(rt, x.Close())
	})
}

// filled makes an index of n entries, closed, and its model.
func filled(t *testing.T, n int) (*vfs.CrashFS, *plain) {
	t.Helper()
	disk := vfs.NewCrashFS()
	x := openX(t, disk)
	m := &plain{}
	r := rand.New(rand.NewPCG(uint64(n), 2))
	for range n {
		e, id := m.make(r, 9, 3)
		m.append(e, id)
	}
	must(t, m.feed(x, 0))
	must(t, x.Close())
	return disk.Crash(0, 1), m
}

// D16: each file of an index is removed, cut, emptied or flipped anywhere. The index is emptied and rebuilt, or gives the right answers all
// the same, or says that it is damaged and is emptied at the next open; it never answers wrong.
func TestADamagedIndexIsRebuiltAndNeverAnswersWrong(t *testing.T) {
	t.Parallel()
	whole, m := filled(t, 400)
	names, err := whole.List("x/00000007")
	must(t, err)
	if len(names) < 4 {
		t.Fatalf("got files %v, want manifest, entries and runs", names)
	}
	r := rand.New(rand.NewPCG(16, 16))
	trials := map[bool]int{false: 60, true: 12}[brief()]
	emptied, seen, mended := 0, 0, 0
	for _, name := range names {
		for trial := range trials {
			disk := whole.Crash(0, 1)
			path := "x/00000007/" + name
			switch trial {
			case 0:
				must(t, disk.Remove(path))
			case 1:
				damage(t, disk, path, func([]byte) []byte { return nil })
			case 2:
				damage(t, disk, path, func(b []byte) []byte { return b[:len(b)/2] })
			case 3:
				damage(t, disk, path, func(b []byte) []byte { clear(b[len(b)/4 : len(b)/2]); return b })
			default:
				damage(t, disk, path, func(b []byte) []byte { i := r.IntN(len(b) * 8); b[i/8] ^= 1 << (i % 8); return b })
			}
			x := openX(t, disk)
			switch err := errors.Join(m.replay(x), m.check(x)); {
			case err == nil && x.Rebuilt() == "" && name == entriesName:
				mended++ // the flip hit a link
			case err == nil:
				emptied++
			case errors.Is(err, keystrand.ErrCorrupt):
				seen++
				must(t, x.Close())
				if x = openX(t, disk); x.Count() != 0 {
					t.Fatalf("%s trial %d: damage was seen (%v), and the next open holds %d entries", name, trial, err, x.Count())
				}
				must(t, errors.Join(m.replay(x), m.check(x)))
			default:
				t.Fatalf("%s trial %d: %v", name, trial, err)
			}
			must(t, x.Close())
		}
	}
	t.Logf("emptied %d, seen later %d, mended %d", emptied, seen, mended)
	if emptied == 0 || seen == 0 || mended == 0 {
		t.Error("one of the three ways never happened")
	}
}

// D17: the index was made durable further than the log. What is above the log's end is dropped, durably, and other
// messages take the numbers.
func TestAnIndexAheadOfTheLogIsDroppedToItsEnd(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{0, 1, 63, 64, 200, 399, 400} {
		t.Run(fmt.Sprint(left, " of 400"), func(t *testing.T) {
			t.Parallel()
			disk, all := filled(t, 400)
			end := all.entries[399].Position + 8
			if left < 400 {
				end = all.entries[left].Position
			}
			x := openX(t, disk)
			must(t, x.DropFrom(end))
			m := all.first(left)
			must(t, m.check(x))
			if left < 400 && x.CheckpointPosition() > end {
				t.Errorf("got a replay from %v, want at most %v", x.CheckpointPosition(), end)
			}
			lost := disk.Crash(0, 1) // the drop itself is durable
			must(t, x.Abandon())
			x = openX(t, lost)
			must(t, m.check(x))
			m.reused = true
			r := rand.New(rand.NewPCG(99, uint64(left)))
			for range 300 {
				e, id := m.make(r, 9, 3)
				m.append(e, id+" again")
			}
			must(t, errors.Join(m.feed(x, left), m.check(x)))
			must(t, x.Close())
			x = openX(t, lost)
			must(t, m.check(x))
			must(t, x.Close())
		})
	}
}

// After a failed sync of the index nothing it says is on the disk may be believed: it takes no checkpoint, and goes on
// otherwise; the next open replays.
func TestAfterAFailedSyncAnIndexTakesNoCheckpoint(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	faults := vfs.NewFaults(disk, nil)
	x := openX(t, faults)
	m := &plain{}
	r := rand.New(rand.NewPCG(5, 5))
	grow := func() {
		for range 100 {
			e, id := m.make(r, 5, 2)
			m.append(e, id)
		}
		must(t, m.feed(x, x.Count()))
	}
	grow()
	_, err := x.Checkpoint()
	must(t, err)
	grow()
	faults.SetRules(vfs.MustParseRules("sync entries 1 EIO"))
	for range 2 {
		if _, err := x.Checkpoint(); err == nil {
			t.Fatal("got a checkpoint after a failed sync")
		}
	}
	grow()
	must(t, m.check(x))
	if err := x.Close(); err == nil {
		t.Error("Close says that its checkpoint was made")
	}
	x = openX(t, disk.Crash(0, 1))
	if x.Count() != 100 || x.Rebuilt() != "" {
		t.Fatalf("got %d entries, rebuilt %q, want 100", x.Count(), x.Rebuilt())
	}
	must(t, errors.Join(m.replay(x), m.check(x)))
	must(t, x.Close())
}

// A checkpoint at a place that the owner knows moves the replay's start for a topic without messages too.
func TestAReplayStartsWhereTheOwnerSaidEverythingWasAppended(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	x := openX(t, disk)
	if got := x.CheckpointPosition(); got != 0 {
		t.Errorf("got %v of a new index, want 0", got)
	}
	_, err := x.CheckpointUpTo(at(3, 5000))
	must(t, err)
	before := disk.Changes()
	_, err = x.CheckpointUpTo(at(3, 9000))
	must(t, err)
	if disk.Changes() != before {
		t.Error("an unchanged index was written again for a small step")
	}
	must(t, x.Abandon())
	disk = disk.Crash(0, 1)
	x = openX(t, disk)
	if got := x.CheckpointPosition(); got != at(3, 5000) {
		t.Errorf("got %v, want %v", got, at(3, 5000))
	}
	_, err = x.CheckpointUpTo(at(4, 9000))
	must(t, err)
	must(t, x.Abandon())
	x = openX(t, disk.Crash(0, 1))
	if got := x.CheckpointPosition(); got != at(4, 9000) {
		t.Errorf("got %v, want %v", got, at(4, 9000))
	}
	must(t, x.Close())
}

func TestEntriesOutOfOrderAreRejected(t *testing.T) {
	t.Parallel()
	x := openX(t, vfs.NewCrashFS())
	e := Entry{Position: at(1, 5000)}
	if n, err := x.Append(e); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	for name, bad := range map[string]Entry{
		"a position below the last": {Position: at(1, 4500), QueueOffset: 1},
		"an offset left out":        {Position: at(1, 6000), QueueOffset: 2},
		"an offset twice":           {Position: at(1, 6000), QueueOffset: 0},
	} {
		if _, err := x.Append(bad); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: got %v, want ErrRejected", name, err)
		}
	}
	for _, n := range []int64{-1, 1} {
		if _, err := x.Entry(n); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("entry %d: got %v, want ErrRejected", n, err)
		}
	}
	must(t, x.Close())
	if _, err := x.Append(Entry{Position: at(1, 9000), QueueOffset: 1}); !errors.Is(err, keystrand.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if _, err := x.Entry(0); !errors.Is(err, keystrand.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestARemovedIndexLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, err := openIndex(vfs.OS{}, dir, 3, tight)
	must(t, err)
	m := &plain{}
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		e, id := m.make(r, 5, 2)
		m.append(e, id)
	}
	must(t, m.feed(x, 0))
	_, err = x.Checkpoint()
	must(t, err)
	must(t, m.check(x))
	must(t, x.Remove())
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("got %v left", left)
	}
}

// The bytes of an entry are fixed.
func TestTheEntryFormatIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	var b [entryBytes]byte
	e := Entry{Position: at(3, 4096), SizeBytes: 1024, Queue: 5, QueueOffset: 77, GroupHash: 0x0102030405060708, TagHash: 9, Prev: 41}
	putEntry(b[:], 7, 100, &e)
	putLink(b[:], 100, entryNext, 120)
	putLink(b[:], 100, entryQueueNext, 101)
	want, err := os.ReadFile("testdata/entry.golden")
	must(t, err)
	if diff := cmp.Diff(b[:], want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

func FuzzDecodeEntryAndManifest(f *testing.F) {
	m := manifest{topic: 7, count: 3, queues: map[int32]queueTail{1: {1, 2, 3}}, runs: []uint64{4}, pairs: []pair{{5, 6}}}
	f.Add(m.encode())
	f.Add([]byte(strings.Repeat("x", entryBytes)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeManifest(b, 7); err == nil && string(m.encode()) != string(b) {
			t.Errorf("a manifest does not encode to what it was")
		}
		if len(b) < entryBytes {
			return
		}
		if e, err := getEntry(b, 7, 1); err == nil {
			var again [entryBytes]byte
			putEntry(again[:], 7, 1, &e)
			if string(again[:48]) != string(b[:48]) {
				t.Errorf("an entry does not encode to what it was")
			}
		}
	})
}
