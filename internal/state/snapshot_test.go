package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

const dir = "/data/snapshot"

func piecesAt(position uint64) []Piece {
	return []Piece{
		{Kind: PieceCatalog, Position: position, Body: NewCatalog().Encode(nil)},
		{Kind: PieceProgress, Group: 1, Topic: 2, Position: position + 5, Body: []byte(fmt.Sprintf("progress at %d", position))},
		{Kind: PieceProgress, Group: 1, Topic: 3, Position: position + 7, Body: make([]byte, 5000)},
	}
}

func mustWrite(t *testing.T, disk vfs.FS, positions ...uint64) {
	t.Helper()
	for _, p := range positions {
		if err := WriteSnapshot(disk, dir, piecesAt(p)); err != nil {
			t.Fatal(err)
		}
	}
}

func wantSnapshot(t *testing.T, disk vfs.FS, position uint64) {
	t.Helper()
	got, err := ReadSnapshot(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, piecesAt(position)); diff != "" {
		t.Fatalf("got (-), want (+):\n%s", diff)
	}
}

func names(t *testing.T, disk vfs.FS) []string {
	t.Helper()
	all, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNewestWholeSnapshotIsRead(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100, 200, 300)
	wantSnapshot(t, disk, 300)
	want := []string{"snapshot-0000000000000002.ks", "snapshot-0000000000000003.ks"}
	if got := names(t, disk); !slices.Equal(got, want) {
		t.Errorf("files %v, want the two newest", got)
	}
	pieces := piecesAt(300)
	if ReplayFrom(pieces) != 300 || ReplayFrom(nil) != 0 || !pieces[1].Holds(304) || pieces[1].Holds(305) {
		t.Errorf("replay from %d", ReplayFrom(pieces))
	}
}

func TestNoSnapshotIsNoError(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	if pieces, err := ReadSnapshot(disk, dir); pieces != nil || err != nil {
		t.Errorf("without a directory: %v, %v", pieces, err)
	}
	if err := disk.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if pieces, err := ReadSnapshot(disk, dir); pieces != nil || err != nil {
		t.Errorf("with an empty one: %v, %v", pieces, err)
	}
}

// damage changes a file in place.
func damage(t *testing.T, disk vfs.FS, name string, change func(f vfs.File, size int64) error) {
	t.Helper()
	f, err := disk.Open(path.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(f, size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func flip(at int64) func(vfs.File, int64) error {
	return func(f vfs.File, _ int64) error {
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			return err
		}
		b[0] ^= 0x40
		_, err := f.WriteAt(b[:], at)
		return err
	}
}

func TestTornSnapshotFallsBackToTheOlderOneForGood(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(vfs.File, int64) error{
		"empty":                 func(f vfs.File, _ int64) error { return f.Truncate(0) },
		"cut in the head":       func(f vfs.File, _ int64) error { return f.Truncate(20) },
		"cut in a piece":        func(f vfs.File, size int64) error { return f.Truncate(size / 2) },
		"one byte short":        func(f vfs.File, size int64) error { return f.Truncate(size - 1) },
		"one byte long":         func(f vfs.File, size int64) error { return f.Truncate(size + 1) },
		"bit in the magic":      flip(0),
		"bit in the count":      flip(9),
		"bit in the length":     flip(13),
		"bit in a position":     flip(24 + 12),
		"bit in a body":         flip(200),
		"zeros over the middle": func(f vfs.File, size int64) error { _, err := f.WriteAt(make([]byte, 64), 24); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashFS()
			mustWrite(t, disk, 100, 200)
			damage(t, disk, "snapshot-0000000000000002.ks", change)
			got, err := RecoverSnapshot(disk, dir, 1<<60)
			if err != nil || len(got.Problems) != 1 || !errors.Is(got.Problems[0], keystrand.ErrCorrupt) {
				t.Fatalf("problems %v, error %v, want one problem", got.Problems, err)
			}
			if diff := cmp.Diff(got.Pieces, piecesAt(100)); diff != "" {
				t.Fatal(diff)
			}
			if all := names(t, disk); !slices.Contains(all, "snapshot-0000000000000002.ks.aside") {
				t.Errorf("the torn one is not set aside: %v", all)
			}
			mustWrite(t, disk, 300)
			wantSnapshot(t, disk, 300)
		})
	}
}

func TestWithoutAnyWholeSnapshotThereIsAnErrorAndNothingChanges(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100, 200)
	before := names(t, disk)
	for _, name := range before {
		damage(t, disk, name, flip(100))
	}
	for range 2 { // a second start must not take the lack for a fresh directory
		pieces, err := ReadSnapshot(disk, dir)
		if !errors.Is(err, keystrand.ErrCorrupt) || pieces != nil {
			t.Fatalf("got %v, %v, want ErrCorrupt", pieces, err)
		}
		if after := names(t, disk); !slices.Equal(after, before) {
			t.Fatalf("files %v, before %v", after, before)
		}
	}
}

func TestSnapshotAboveTheLogsEndIsPassedOver(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100, 200)
	got, err := RecoverSnapshot(disk, dir, 206) // its highest piece stands at 207
	if err != nil || len(got.Problems) != 1 || got.Pieces[0].Position != 100 {
		t.Fatalf("got %+v, %v, want the older one and a problem", got, err)
	}
	// The log grows past 207 with other records: the one set aside must not come back.
	wantSnapshot(t, disk, 100)
}

func TestUnreadableFileIsAnErrorAndNotAReasonToFallBack(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100, 200)
	disk.SetHook(func(op vfs.Op) error {
		if op.Kind == "read" && strings.Contains(op.Path, "0002.ks") {
			return errors.New("input/output error")
		}
		return nil
	})
	if pieces, err := ReadSnapshot(disk, dir); err == nil || errors.Is(err, keystrand.ErrCorrupt) {
		t.Fatalf("got %v, %v, want the disk's error", pieces, err)
	}
	disk.SetHook(nil)
	wantSnapshot(t, disk, 200)
}

func TestSnapshotMustBeginWithItsCatalog(t *testing.T) {
	t.Parallel()
	late := piecesAt(100)
	late[1].Position = 99
	for name, pieces := range map[string][]Piece{
		"nothing":                 nil,
		"no catalog":              piecesAt(1)[1:],
		"a progress before it":    late,
		"the same progress twice": append(piecesAt(1), piecesAt(1)[1]),
		"two catalogs":            append(piecesAt(1), piecesAt(1)[0]),
		"an unknown kind":         append(piecesAt(1), Piece{Kind: 9, Group: 1, Topic: 1, Position: 2}),
		"a progress of nobody":    append(piecesAt(1), Piece{Kind: PieceProgress, Position: 2}),
	} {
		if err := WriteSnapshot(vfs.NewCrashFS(), dir, pieces); !errors.Is(err, keystrand.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// TestEveryCrashWhileWritingLeavesAWholeSnapshot stops the machine at every file operation of a write, with none, half and
// all of the unsynced blocks and names kept, and again at every operation of the recovery.
func TestEveryCrashWhileWritingLeavesAWholeSnapshot(t *testing.T) {
	t.Parallel()
	crashes := 0
	for stop := int64(1); ; stop++ {
		disk := vfs.NewCrashFS()
		mustWrite(t, disk, 100, 200)
		disk.StopAt(disk.Changes() + stop)
		err := WriteSnapshot(disk, dir, piecesAt(300))
		if err == nil {
			break
		}
		for _, kept := range []float64{0, 0.5, 1} {
			for seed := range uint64(5) {
				crashes++
				after := disk.Crash(kept, seed)
				got, err := RecoverSnapshot(after, dir, 1<<60)
				if err != nil {
					t.Fatalf("stop %d, kept %v, seed %d: %v", stop, kept, seed, err)
				}
				if at := got.Pieces[0].Position; at != 200 && at != 300 || len(got.Problems) > 0 {
					t.Fatalf("stop %d, kept %v, seed %d: snapshot at %d, problems %v", stop, kept, seed, at, got.Problems)
				}
				mustWrite(t, after, 400)
				wantSnapshot(t, after.Crash(0, seed), 400)
			}
		}
	}
	t.Logf("%d crashes", crashes)
	if crashes < 50 {
		t.Errorf("only %d crashes: the faults did not strike", crashes)
	}
}

// TestSnapshotThatWasAnsweredSurvivesAPowerLoss would fail without the sync of the file, the rename's directory, or both.
func TestSnapshotThatWasAnsweredSurvivesAPowerLoss(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100)
	wantSnapshot(t, disk.Crash(0, 1), 100)
	mustWrite(t, disk, 200, 300)
	wantSnapshot(t, disk.Crash(0, 2), 300)
}

func TestFailingDiskLeavesTheOldSnapshots(t *testing.T) {
	t.Parallel()
	struck := 0
	for _, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		disk := vfs.NewCrashFS()
		mustWrite(t, disk, 100, 200)
		disk.SetHook(func(op vfs.Op) error {
			if op.Kind == kind {
				struck++
				return errors.New("input/output error")
			}
			return nil
		})
		if err := WriteSnapshot(disk, dir, piecesAt(300)); err == nil {
			t.Errorf("%s fails and the write does not", kind)
		}
		disk.SetHook(nil)
		got, err := ReadSnapshot(disk, dir)
		if err != nil || got[0].Position < 200 {
			t.Errorf("after a failed %s: %v, %v", kind, got, err)
		}
	}
	if struck < 5 {
		t.Errorf("%d faults struck, want 5", struck)
	}
}

func TestStrangeNamesInTheDirectoryAreLeftAlone(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	mustWrite(t, disk, 100)
	for _, name := range []string{"snapshot-zz.ks", "snapshot-1.ks", "notes.txt", "snapshot-00000000000000zz.ks"} {
		f, err := disk.Create(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, disk, 200, 300)
	wantSnapshot(t, disk, 300)
	if _, err := disk.Stat(path.Join(dir, "notes.txt")); errors.Is(err, fs.ErrNotExist) {
		t.Error("a file that is not ours was removed")
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(piecesAt(1)[:2]))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		pieces, err := decodeSnapshot(b)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if diff := cmp.Diff(encodeSnapshot(pieces), b); diff != "" {
			t.Fatalf("encoded again (-) and read (+):\n%s", diff)
		}
	})
}
