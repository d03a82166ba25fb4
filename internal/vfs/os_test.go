package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOSFilesAndDirectoriesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	var disk OS
	if err := disk.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("abc"), 5); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), disk.SyncDir(dir), f.Close()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, filepath.Join(dir, "f"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %v, want %v", path, got, want)
		}
	}
	names, err := disk.List(dir)
	if err != nil || len(names) != 1 || names[0] != "f" {
		t.Errorf("got %v, %v, want [f]", names, err)
	}
	if free, err := disk.Free(dir); err != nil || free <= 0 {
		t.Errorf("got %d bytes free, %v, want more than none", free, err)
	}
}

func TestOSLockIsRefusedWhileItIsHeldAndFreeAfterwards(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	var disk OS
	first, err := disk.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Lock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second, err := disk.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestOSOpenOfAMissingFileIsNotExist(t *testing.T) {
	t.Parallel()
	if _, err := (OS{}).Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want fs.ErrNotExist", err)
	}
}
