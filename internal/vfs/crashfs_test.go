package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"pgregory.net/rapid"
)

func mustCreate(t testing.TB, c FS, name string) File {
	t.Helper()
	f, err := c.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustWrite(t testing.TB, f File, p []byte, off int64) {
	t.Helper()
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, c *CrashFS, name string) []byte {
	t.Helper()
	f, err := c.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestACrashKeepsWhatWasSyncedAndNothingElseAtZero(t *testing.T) {
	t.Parallel()
	c := NewCrashFS()
	f := mustCreate(t, c, "f")
	mustWrite(t, f, []byte("old"), 0)
	must(t, f.Sync())
	must(t, c.SyncDir("."))
	mustWrite(t, f, []byte("new and longer"), 0)
	must(t, f.Close()) // does not sync
	mustCreate(t, c, "unsynced name")
	after := c.Crash(0, 1)
	if got := contents(t, after, "f"); string(got) != "old" {
		t.Errorf("got %q, want %q", got, "old")
	}
	if _, err := after.Open("unsynced name"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	all := c.Crash(1, 1)
	if got := contents(t, all, "f"); string(got) != "new and longer" || !all.Equal(c) {
		t.Errorf("got %q, want everything", got)
	}
}

func TestAFileSyncedWithoutItsDirectoryMayBeLost(t *testing.T) {
	t.Parallel()
	c := NewCrashFS()
	f := mustCreate(t, c, "f")
	mustWrite(t, f, []byte("x"), 0)
	must(t, f.Sync())
	if _, err := c.Crash(0, 1).Open("f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestAfterAFailedSyncASecondOneSucceedsAndSavesNothingUnlessWrittenAgain(t *testing.T) {
	t.Parallel()
	c := NewCrashFS()
	faults := NewFaults(c, MustParseRules("sync f 2 EIO"))
	f := mustCreate(t, faults, "f")
	mustWrite(t, f, []byte("old"), 0)
	must(t, f.Sync())
	must(t, c.SyncDir("."))
	mustWrite(t, f, []byte("new"), 0)
	if err := f.Sync(); err == nil {
		t.Fatal("got success, want the injected error")
	}
	must(t, f.Sync())
	if got := contents(t, c, "f"); string(got) != "new" {
		t.Errorf("before the crash: got %q, want what was written", got)
	}
	if got := contents(t, c.Crash(0, 1), "f"); string(got) != "old" {
		t.Errorf("after the crash: got %q, want %q", got, "old")
	}
	mustWrite(t, f, []byte("new"), 0)
	must(t, f.Sync())
	if got := contents(t, c.Crash(0, 1), "f"); string(got) != "new" {
		t.Errorf("written again: got %q, want %q", got, "new")
	}
	if got := faults.Struck(); got[0] != 1 {
		t.Errorf("got %v strikes, want 1", got)
	}
}

func TestBetweenZeroAndOneBlocksAreKeptLostTornOrOld(t *testing.T) {
	t.Parallel()
	const blocks = 400
	c := NewCrashFS()
	f := mustCreate(t, c, "f")
	must(t, f.Truncate(blocks*crashBlockBytes))
	must(t, f.Sync())
	must(t, c.SyncDir("."))
	for v := byte(1); v <= 3; v++ {
		mustWrite(t, f, bytes.Repeat([]byte{v}, blocks*crashBlockBytes), 0)
	}
	seen := map[string]int{}
	got := contents(t, c.Crash(0.5, 7), "f")
	for b := range blocks {
		one := got[b*crashBlockBytes : (b+1)*crashBlockBytes]
		switch first, last := one[0], one[crashBlockBytes-1]; {
		case first != last:
			seen["torn"]++
		case first == 0:
			seen["lost"]++
		case first == 3:
			seen["kept"]++
		default:
			seen["old"]++
		}
	}
	for _, kind := range []string{"torn", "lost", "kept", "old"} {
		if seen[kind] == 0 {
			t.Errorf("no block was %s: %v", kind, seen)
		}
	}
}

func TestNameChangesAreLostIndependently(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(60) {
		c := NewCrashFS()
		f := mustCreate(t, c, "a.tmp")
		must(t, f.Sync())
		old := mustCreate(t, c, "gone")
		must(t, old.Sync())
		must(t, c.SyncDir("."))
		must(t, c.Rename("a.tmp", "a"))
		must(t, c.Remove("gone"))
		names, err := c.Crash(0.5, seed).List(".")
		must(t, err)
		seen[fmt.Sprint(names)] = true
	}
	for _, want := range []string{"[a]", "[a gone]", "[a.tmp]", "[a.tmp gone]"} {
		if !seen[want] {
			t.Errorf("never saw %s in %v", want, seen)
		}
	}
}

func TestTheHookCanStopTheWorldAtAnyChange(t *testing.T) {
	t.Parallel()
	c := NewCrashFS()
	c.StopAt(3)
	f := mustCreate(t, c, "f")
	mustWrite(t, f, []byte("x"), 0)
	if err := f.Sync(); !errors.Is(err, ErrCrashed) {
		t.Fatalf("got %v, want ErrCrashed", err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrCrashed) {
		t.Fatalf("got %v, want ErrCrashed of every later operation", err)
	}
	must(t, f.Close())
}

// A file in memory must read as a plain byte slice does, whatever was written, cut and synced before, and at 1 a crash
// must change nothing.
func TestCrashFileReadsAsAByteSliceDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := NewCrashFS()
		f := mustCreate(t, c, "f")
		must(t, c.SyncDir("."))
		var model, synced []byte
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "truncate", "sync"}).Draw(rt, "step") {
			case "write":
				off := rapid.IntRange(0, 2000).Draw(rt, "off")
				p := rapid.SliceOfN(rapid.Byte(), 1, 1500).Draw(rt, "bytes")
				for len(model) < off+len(p) {
					model = append(model, 0)
				}
				copy(model[off:], p)
				mustWrite(t, f, p, int64(off))
			case "truncate":
				size := rapid.IntRange(0, 3000).Draw(rt, "size")
				for len(model) < size {
					model = append(model, 0)
				}
				model = model[:size:size]
				must(t, f.Truncate(int64(size)))
			case "sync":
				must(t, f.Sync())
				synced = bytes.Clone(model)
			}
		}
		if got := contents(t, c, "f"); !bytes.Equal(got, model) {
			rt.Fatalf("got %d bytes that differ, want %d", len(got), len(model))
		}
		if got := contents(t, c.Crash(1, 1), "f"); !bytes.Equal(got, model) {
			rt.Fatal("a crash that keeps everything changed the file")
		}
		if got := contents(t, c.Crash(0, 1), "f"); !bytes.Equal(got, synced) {
			rt.Fatal("a crash that keeps nothing unsynced left something else than what was synced")
		}
	})
}
