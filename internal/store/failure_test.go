package store

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

var one = []Record{{Kind: 1, Body: []byte("x")}}

// D01, D02, D05, D06: after a failed write or sync the log takes nothing more, says so to everybody who waits, and reads
// on. A sync that would succeed the second time is not tried. Reopened, it holds what was durable, and what it then tells as
// durable survives a power loss, although the failed sync had left its pages clean.
func TestAFailedWriteOrSyncEndsTheLogUntilItIsReopened(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"D01 a write fails":                        "write *.seg* 1 EIO",
		"D02 a short write without an error":       "write *.seg* 1 short",
		"D02 a short write with an error":          "write *.seg* 1 short:EIO",
		"D05 a sync fails once":                    "sync *.seg* 1 EIO",
		"D06 each sync fails":                      "sync *.seg* * EIO",
		"the mark file fails":                      "write durable 1 EIO",
		"a write fails for lack of space":          "write *.seg* 1 ENOSPC",
		"D25 the file system became read-only":     "write *.seg* * EROFS",
		"a short write, then the disk is all gone": "write *.seg* 1+ short:EIO",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashFS()
			faults := vfs.NewFaults(disk, nil)
			failures := make(chan error, 10)
			o := Options{FirstSegmentBytes: 1 << 16, OnFailed: func(err error) { failures <- err }}
			l := openLog(t, faults, "d", o)
			var s script
			s.run(t, l, 5, true)
			faults.SetRules(vfs.MustParseRules(rule))
			err := s.append(l, true)
			if name != "the mark file fails" && !errors.Is(err, keystrand.ErrUnknown) {
				t.Errorf("the batch that failed: got %v, want ErrUnknown", err)
			}
			<-failures
			if _, _, err := l.Append(one, true); !errors.Is(err, keystrand.ErrReadOnly) || !errors.Is(err, keystrand.ErrRetryLater) {
				t.Errorf("the next append: got %v, want ErrReadOnly", err)
			}
			if err := l.WaitDurable(context.Background(), l.Durable()+8); !errors.Is(err, keystrand.ErrUnknown) {
				t.Errorf("waiting on: got %v, want ErrUnknown", err)
			}
			if l.Err() == nil {
				t.Error("got no reason, want one for health")
			}
			if r, err := l.Read(s.places[1], 0); err != nil || text(r) != s.batches[1][0] {
				t.Errorf("got %v, want reading to go on", err)
			}
			if faults.Struck()[0] < 1 {
				t.Error("the fault did not strike")
			}
			syncs := faults.Struck()[0]
			must(t, l.Close())
			if name == "D06 each sync fails" && faults.Struck()[0] != syncs {
				t.Error("the log tried to sync again")
			}
			if len(failures) != 0 {
				t.Error("OnFailed was called twice")
			}

			l = openLog(t, disk, "d", o) // another process, the same system: what its cache holds is still read
			if l.Clean() {
				t.Error("a failed log was closed as clean")
			}
			n, err := checkPrefix(replayAll(t, l, 0), 5, s.batches)
			must(t, err)
			again := script{batches: s.batches[:n:n], places: make([]Position, n)}
			again.run(t, l, 1, true)
			closeLog(t, l)
			if got := afterCrash(t, disk.Crash(0, 1), n+1, again.batches); got != n+1 {
				t.Errorf("after the power loss: got %d batches, want %d", got, n+1)
			}
		})
	}
}

// D06 at the start: a disk that cannot sync gives no log, and it can be opened once it can.
func TestALogIsNotOpenedOnADiskThatCannotSync(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	faults := vfs.NewFaults(disk, vfs.MustParseRules("sync * * EIO"))
	for range 3 {
		if _, err := Open(faults, "d", small); !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v, want EIO", err)
		}
	}
	faults.SetRules(nil)
	closeLog(t, openLog(t, faults, "d", small))
}

// D03: at the free-space floor only reserved batches are taken, until there is space again.
func TestAtTheFreeSpaceFloorOnlyReservedBatchesAreTaken(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	o := Options{FirstSegmentBytes: 1 << 21, SegmentBytes: 1 << 21, FreeFloorBytes: 1 << 24}
	l := openLog(t, disk, "d", o)
	defer closeLog(t, l)
	disk.SetFree(1<<24 - 1)
	filler := []Record{{Kind: 1, Body: make([]byte, spaceCheckBytes)}}
	_, _, err := l.Append(filler, false)
	if !errors.Is(err, ErrNoSpace) || !errors.Is(err, keystrand.ErrRetryLater) {
		t.Fatalf("got %v, want ErrNoSpace", err)
	}
	if _, _, err := l.Append(one, false); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("got %v, want ErrNoSpace", err)
	}
	for range 3 { // more than one segment: the reserve is used
		_, end, err := l.Append(filler, true)
		must(t, err)
		must(t, l.WaitDurable(context.Background(), end))
	}
	disk.SetFree(1 << 30)
	if _, _, err := l.Append(one, false); err != nil {
		t.Errorf("got %v, want appends to go on once there is space", err)
	}
}

// D03, D04, D26: the next segment cannot be made. Batches that need it are refused as retryable, the log is not failed, reads go on,
// no half-made segment is used, and it goes on when there is room.
func TestASegmentThatCannotBeMadeRefusesBatchesAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"D04 no space for zeros":    "write *.tmp 2+ ENOSPC",
		"D04 short write of zeros":  "write *.tmp * short",
		"D26 no file descriptor":    "create *.tmp * EMFILE",
		"sync of the new file":      "sync *.tmp * EIO",
		"sync of the directory":     "syncdir d * EIO",
		"rename to its name":        "rename *.seg * EACCES",
		"removing the half as well": "write *.tmp * EIO; remove * * EIO",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashFS()
			faults := vfs.NewFaults(disk, nil)
			l := openLog(t, faults, "d", Options{FirstSegmentBytes: 1 << 14, SegmentBytes: 1 << 14})
			closeLog(t, l)
			l = openLog(t, faults, "d", Options{FirstSegmentBytes: 1 << 14, SegmentBytes: 1 << 14}) // its files go by their own names now
			faults.SetRules(vfs.MustParseRules(rule))
			var s script
			var err error
			for err == nil {
				err = s.append(l, true)
			}
			if !errors.Is(err, ErrNoSpace) || l.Err() != nil {
				t.Fatalf("got %v and %v, want ErrNoSpace and no failure of the log", err, l.Err())
			}
			if faults.Struck()[0] == 0 {
				t.Error("the fault did not strike")
			}
			n := s.durable
			s.batches, s.places = s.batches[:n], s.places[:n] // refused: surely not there
			if n == 0 {
				t.Fatal("nothing fitted the first segment")
			}
			if _, err := checkPrefix(replayAll(t, l, 0), n, s.batches); err != nil {
				t.Error(err)
			}
			afterCrash(t, disk.Crash(0.5, 3), n, s.batches)
			faults.SetRules(nil)
			s.run(t, l, 30, true)
			closeLog(t, l)
			if got := afterCrash(t, disk.Crash(0, 1), n+30, s.batches); got != n+30 {
				t.Errorf("got %d batches, want %d", got, n+30)
			}
		})
	}
}

// D19: a life ends between a segment's rename and the sync of the directory. The next life sees the name, uses the segment,
// and must not lose it with the power.
func TestANameThatWasNotDurableInTheLifeBeforeIsMadeSo(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	faults := vfs.NewFaults(disk, nil)
	l := openLog(t, faults, "d", small)
	faults.SetRules(vfs.MustParseRules("syncdir d * EIO"))
	var s script
	var err error
	for err == nil {
		err = s.append(l, true)
	}
	n := s.durable
	must(t, l.Abandon())
	faults.SetRules(vfs.MustParseRules("create *.tmp * EMFILE")) // no further segment, whose name would be synced
	l = openLog(t, faults, "d", small)                           // the same system: it still sees the name
	next := script{batches: s.batches[:n:n], places: s.places[:n:n]}
	next.run(t, l, 4, true)
	if l.Report().Segments != 2 || l.Appended().segment() < 2 {
		t.Fatalf("got %d segments at the start and the end %v, want the second segment found and used", l.Report().Segments, l.Appended())
	}
	image := disk.Crash(0, 1)
	must(t, l.Abandon())
	if got := afterCrash(t, image, n+4, next.batches); got != n+4 {
		t.Errorf("got %d batches, want %d", got, n+4)
	}
}

// Whoever waits when the log is closed or abandoned is told, and an abandoned log is not a clean one.
func TestAnAbandonedLogIsRecoveredAsAfterACrash(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", small)
	var s script
	s.run(t, l, 3, true)
	waiting := make(chan error)
	go func() { waiting <- l.WaitDurable(context.Background(), l.Appended()+8) }()
	must(t, l.Abandon())
	must(t, l.Close())
	if err := <-waiting; !errors.Is(err, keystrand.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	l = openLog(t, disk, "d", small)
	defer closeLog(t, l)
	if l.Clean() {
		t.Error("got a clean start")
	}
	if _, err := checkPrefix(replayAll(t, l, 0), 3, s.batches); err != nil {
		t.Error(err)
	}
}

// The flusher starts the next sync when the last returned, with everything appended meanwhile: one held sync, one more.
func TestOneSyncCoversAllThatWasAppendedDuringTheLast(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	faults := vfs.NewFaults(disk, nil)
	l := openLog(t, faults, "d", Options{})
	defer closeLog(t, l)
	defer faults.Release()
	faults.SetRules(vfs.MustParseRules("sync 00000001.seg* * hold"))
	syncs := func() int64 { return faults.Struck()[0] }
	for range 100 {
		_, _, err := l.Append(one, false)
		must(t, err)
	}
	for syncs() == 0 {
		runtime.Gosched()
	}
	before := l.Durable()
	_, end, err := l.Append(one, false)
	must(t, err)
	if before >= end || syncs() != 1 {
		t.Fatalf("got durable %v and %d syncs under way, want it below %v and 1", before, syncs(), end)
	}
	faults.Release()
	must(t, l.WaitDurable(context.Background(), end))
	if got := syncs(); got != 2 {
		t.Errorf("got %d syncs, want the one that was held and one more", got)
	}
}

// Visible is durable at sync always; at an interval it is appended, and the sync comes after the interval.
func TestWithAnIntervalAppendedIsVisibleAtOnceAndDurableLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, vfs.NewCrashFS(), "d", Options{SyncInterval: time.Second})
		start := time.Now()
		_, end, err := l.Append(one, false)
		must(t, err)
		if l.Visible() != end || l.Durable() >= end {
			t.Errorf("got visible %v, durable %v, want %v visible and not durable", l.Visible(), l.Durable(), end)
		}
		must(t, l.WaitDurable(t.Context(), end))
		if took := time.Since(start); took != time.Second {
			t.Errorf("durable after %v, want 1s", took)
		}
		_, end, err = l.Append(one, false)
		must(t, err)
		closeLog(t, l) // does not wait for the interval
		if l.Durable() < end || time.Since(start) != time.Second {
			t.Errorf("got durable %v after %v, want %v at once", l.Durable(), time.Since(start), end)
		}
	})
}

func TestWaitDurableEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := openLog(t, vfs.NewCrashFS(), "d", Options{})
	defer closeLog(t, l)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.WaitDurable(ctx, l.Appended()+8); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// Durable marks come in order, once each, and never above what was appended.
func TestOnDurableTellsGrowingMarks(t *testing.T) {
	t.Parallel()
	var marks []Position
	l := openLog(t, vfs.NewCrashFS(), "d", Options{OnDurable: func(p Position) { marks = append(marks, p) }})
	var s script
	s.run(t, l, 50, true)
	end := l.Appended()
	closeLog(t, l)
	for i := 1; i < len(marks); i++ {
		if marks[i] <= marks[i-1] {
			t.Fatalf("mark %v came after %v", marks[i], marks[i-1])
		}
	}
	if len(marks) < 50 || marks[len(marks)-1] < end {
		t.Errorf("got %d marks up to %v, want them up to %v", len(marks), marks[len(marks)-1], end)
	}
}

func TestBatchesThatCannotBeAreRejected(t *testing.T) {
	t.Parallel()
	l := openLog(t, vfs.NewCrashFS(), "d", small)
	defer closeLog(t, l)
	for name, batch := range map[string][]Record{
		"empty":            nil,
		"kind 0":           {{Kind: 0}},
		"the log's kind":   {{Kind: 1}, {Kind: kindSeal}},
		"beyond the limit": {{Kind: 1, Body: make([]byte, MaxBatchBytes)}},
	} {
		if _, _, err := l.Append(batch, false); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: got %v, want ErrRejected", name, err)
		}
	}
	if _, err := l.Read(l.Appended(), 0); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("got %v, want a read at the end to be rejected", err)
	}
	if err := l.Replay(l.Appended()+8, nil); !errors.Is(err, keystrand.ErrCorrupt) {
		t.Errorf("got %v, want a replay from beyond the end to tell that records are missing", err)
	}
}

// A batch larger than any segment gets one of its own size, and stays whole.
func TestALargeBatchGetsItsOwnSegment(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", small)
	var s script
	s.run(t, l, 10, true)
	big := make([]byte, 100_000)
	at, end, err := l.Append([]Record{{Kind: 2, Body: big}, {Kind: 3, Body: big[:5]}}, false)
	must(t, err)
	must(t, l.WaitDurable(context.Background(), end))
	s.run(t, l, 10, true)
	for _, hint := range []int{0, 5, 100_000, 1 << 20} {
		if r, err := l.Read(at[0], hint); err != nil || len(r.Body) != len(big) {
			t.Errorf("hint %d: got %d bytes, %v", hint, len(r.Body), err)
		}
	}
	closeLog(t, l)
	l = openLog(t, disk.Crash(0, 1), "d", small)
	defer closeLog(t, l)
	count := 0
	for _, b := range s.batches {
		count += len(b)
	}
	if got := len(replayAll(t, l, 0)); got != count+2 {
		t.Errorf("got %d records, want %d", got, count+2)
	}
}

// Files of many segments are not all kept open, and reading any of them works.
func TestOldSegmentsAreClosedAndOpenedWhenRead(t *testing.T) {
	t.Parallel()
	l := openLog(t, vfs.NewCrashFS(), "d", small)
	defer closeLog(t, l)
	var s script
	s.run(t, l, 400, true)
	if l.Appended().segment() < 2*maxIdleSegments {
		t.Fatalf("got to %v, want more segments", l.Appended())
	}
	for i := range s.places {
		i = (i * 37) % len(s.places)
		if r, err := l.Read(s.places[i], 0); err != nil || text(r) != s.batches[i][0] {
			t.Fatalf("batch %d: got %v", i, err)
		}
	}
	if l.segs.open > maxIdleSegments+3 {
		t.Errorf("got %d open files, want at most %d", l.segs.open, maxIdleSegments+3)
	}
	image := l.disk.(*vfs.CrashFS).Crash(0, 1)
	again := openLog(t, image, "d", small)
	if again.segs.open > maxIdleSegments+3 {
		t.Errorf("after a start: got %d open files, want at most %d", again.segs.open, maxIdleSegments+3)
	}
	closeLog(t, again)
	if got := replayAll(t, l, s.places[390]); got[0] != s.batches[390][0] {
		t.Errorf("got %q, want the replay to begin at batch 390", got[0])
	}
}

// In the steady state an append allocates the places it returns and nothing else.
func TestAppendAllocatesOnlyThePlacesItReturns(t *testing.T) {
	l := openLog(t, vfs.OS{}, t.TempDir(), Options{FirstSegmentBytes: 16 << 20, SkipSync: true})
	defer closeLog(t, l)
	batch := make([]Record, 64)
	for i := range batch {
		batch[i] = Record{Kind: 1, Body: make([]byte, 200)}
	}
	got := testing.AllocsPerRun(200, func() {
		if _, _, err := l.Append(batch, false); err != nil {
			t.Fatal(err)
		}
	})
	if got > 3 {
		t.Errorf("got %v allocations for a batch of 64, want at most 3", got)
	}
}
