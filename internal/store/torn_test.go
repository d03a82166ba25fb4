package store

import (
	"testing"

	"github.com/keystrand/keystrand/internal/vfs"
)

// afterCrash opens the log on a disk that crashed, checks that it holds all durable batches, only whole ones, and
// nothing else, and that it can be appended to, closed and opened again. It returns how many batches there were.
func afterCrash(t testing.TB, disk *vfs.CrashFS, durable int, batches [][]string) int {
	t.Helper()
	l := openLog(t, disk, "d", small)
	n, err := checkPrefix(replayAll(t, l, 0), durable, batches)
	must(t, err)
	again := script{batches: append([][]string(nil), batches[:n]...), places: make([]Position, n)}
	again.run(t, l, 3, true)
	closeLog(t, l)
	l = openLog(t, disk.Crash(0, 1), "d", small)
	if !l.Clean() {
		t.Fatal("got an unclean start after Close")
	}
	if _, err := checkPrefix(replayAll(t, l, 0), n+3, again.batches); err != nil {
		t.Fatalf("after a second start: %v", err)
	}
	closeLog(t, l)
	return n
}

// D09: the last batch is cut at every byte of it.
func TestATornLastBatchIsCutAtEveryByteAndNothingElse(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", small)
	var s script
	s.run(t, l, 4, true)
	base := disk.Crash(0, 1)
	s.run(t, l, 1, false) // batch 4 has two records
	from, to := s.places[4], l.Appended()
	whole, err := readFile(disk, segmentPath(from.segment()), 1<<20)
	must(t, err)
	whole = whole[from.offset():to.offset()]
	closeLog(t, l)
	durable, batches := 4, s.batches[:5]
	for cut := range len(whole) + 1 {
		torn := base.Crash(1, 1)
		f, err := torn.Open(segmentPath(from.segment()))
		must(t, err)
		_, err = writeFull(f, whole[:cut], from.offset())
		must(t, err)
		want := 4
		if len(whole)-cut < 8 && allZero(whole[cut:]) {
			want = 5
		}
		if got := afterCrash(t, torn, durable, batches); got != want {
			t.Fatalf("cut after %d of %d bytes: got %d batches, want %d", cut, len(whole), got, want)
		}
	}
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// D10: any subset of the unsynced blocks reached the disk.
func TestAnySubsetOfUnsyncedBlocksLeavesAPrefixOfWholeBatches(t *testing.T) {
	t.Parallel()
	cut, kept := 0, 0
	for seed := range uint64(300) {
		disk := vfs.NewCrashFS()
		faults := vfs.NewFaults(disk, nil)
		l := openLog(t, faults, "d", Options{FirstSegmentBytes: 1 << 16})
		var s script
		s.run(t, l, int(seed%7), true)
		faults.SetRules(vfs.MustParseRules("sync 0*.seg* * hold")) // nothing more becomes durable
		s.run(t, l, 8, false)
		image := disk.Crash(0.5, seed)
		durable, batches := s.promised()
		faults.Release()
		closeLog(t, l)
		n := afterCrash(t, image, durable, batches)
		if n < len(batches) {
			cut++
		}
		if n > durable {
			kept++
		}
	}
	if cut == 0 || kept == 0 {
		t.Errorf("got %d runs that lost and %d that kept unsynced batches, want some of both", cut, kept)
	}
}

// D15: bytes of an earlier life stand after the end of the log, as when zeroing them was cut short.
func TestStaleRecordsOfAnEarlierLifeAreNotRead(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	faults := vfs.NewFaults(disk, nil)
	l := openLog(t, faults, "d", Options{})
	var s script
	s.run(t, l, 2, true)
	faultless := disk.Crash(0, 1)
	faults.SetRules(vfs.MustParseRules("sync 0*.seg* * hold")) // the six were never durable, and none says that another was
	s.run(t, l, 6, false)
	tail, err := readFile(disk, segmentPath(1), 2<<20)
	must(t, err)
	faults.Release()
	closeLog(t, l)

	// The next life begins where the six batches stood, and writes one batch of exactly the size of theirs.
	l = openLog(t, faultless, "d", Options{})
	if l.Epoch() != 2 {
		t.Fatalf("got epoch %d, want 2", l.Epoch())
	}
	next := script{batches: s.batches[:2:2], places: make([]Position, 2)}
	next.run(t, l, 1, true)
	end := l.Appended()
	image := faultless.Crash(1, 1)
	closeLog(t, l)
	// Old records come back right behind the end, where a reader would look next: of their own place, whole, epoch 1.
	boundary := false
	for _, p := range s.places[2:] {
		boundary = boundary || p >= end
		if p < end {
			continue
		}
		f, err := image.Open(segmentPath(1))
		must(t, err)
		_, err = writeFull(f, tail[p.offset():p.offset()+2048], p.offset())
		must(t, err)
		must(t, f.Sync())
	}
	if !boundary {
		t.Fatal("no old record stands beyond the end")
	}
	if got := afterCrash(t, image, 3, next.batches); got != 3 {
		t.Fatalf("got %d batches, want 3", got)
	}
}

// A record of an earlier life that stands exactly at the end of the log is refused for its epoch alone.
func TestAStaleRecordExactlyAtTheEndIsRefusedForItsEpoch(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", Options{})
	var s script
	s.run(t, l, 1, true)
	seed, epoch := l.seed, l.Epoch()
	closeLog(t, l)
	l = openLog(t, disk, "d", Options{})
	next := script{batches: s.batches, places: s.places}
	next.run(t, l, 1, true)
	end := l.Appended()
	image := disk.Crash(0, 1)
	closeLog(t, l)
	stale := appendFrame(nil, seed, &frame{kind: 1, epoch: epoch, place: end, durable: s.places[0], body: []byte("stale")})
	f, err := image.Open(segmentPath(end.segment()))
	must(t, err)
	_, err = writeFull(f, stale, end.offset())
	must(t, err)
	must(t, f.Sync())
	if got := afterCrash(t, image, 2, next.batches); got != 2 {
		t.Fatalf("got %d batches, want 2", got)
	}
}
