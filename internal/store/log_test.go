package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

func TestLogGivesBackWhatWasAppendedAcrossSegmentsAndRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []string
	var places []Position
	for life := range 3 {
		l := openLog(t, vfs.OS{}, dir, small)
		if !l.Clean() {
			t.Fatalf("life %d: got an unclean start, want clean", life)
		}
		if got := l.Epoch(); got != uint32(life+1) {
			t.Fatalf("got epoch %d, want %d", got, life+1)
		}
		for i := range 200 {
			batch := []Record{{Kind: 1, Body: fmt.Appendf(nil, "life %d message %d", life, i)}, {Kind: 7, Body: make([]byte, i)}}
			at, end, err := l.Append(batch, false)
			if err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				if err := l.WaitDurable(context.Background(), end); err != nil {
					t.Fatal(err)
				}
			}
			places = append(places, at...)
			for _, r := range batch {
				want = append(want, fmt.Sprintf("%d:%s", r.Kind, r.Body))
			}
		}
		got := replayAll(t, l, 0)
		if len(got) != len(want) {
			t.Fatalf("got %d records, want %d", len(got), len(want))
		}
		for i := range want {
			r, err := l.Read(places[i], i%300)
			if err != nil {
				t.Fatal(err)
			}
			if one := fmt.Sprintf("%d:%s", r.Kind, r.Body); got[i] != want[i] || one != want[i] {
				t.Fatalf("record %d: got %q and %q, want %q", i, got[i], one, want[i])
			}
		}
		closeLog(t, l)
		closeLog(t, l)
		if _, _, err := l.Append([]Record{{Kind: 1}}, false); !errors.Is(err, keystrand.ErrClosed) {
			t.Fatalf("got %v, want ErrClosed", err)
		}
	}
}

func TestASecondOpenOfADirectoryIsRefused(t *testing.T) { // D24
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, vfs.OS{}, dir, Options{})
	defer closeLog(t, l)
	_, err := Open(vfs.OS{}, dir, Options{})
	if !errors.Is(err, keystrand.ErrLocked) || !errors.Is(err, keystrand.ErrRetryLater) || !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
}

func TestAFileIsNoDataDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "afile")
	if err := os.WriteFile(file, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "/below"} {
		_, err := Open(vfs.OS{}, dir, Options{})
		var refused *DirectoryError
		if !errors.As(err, &refused) || !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, ""), file+" is a file") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestADirectoryWithOtherFilesIsRefusedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	for names, fine := range map[string]bool{
		"": true, "lock": true, "lock meta.tmp": true, "lost+found": true, "lock notes.txt": false, "go.mod main.go": false, ".profile": false, "index": false,
	} {
		dir := t.TempDir()
		for _, name := range strings.Fields(names) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(vfs.OS{}, dir, Options{})
		if fine {
			if err != nil {
				t.Errorf("%q: got %v", names, err)
				continue
			}
			closeLog(t, l)
			closeLog(t, openLog(t, vfs.OS{}, dir, Options{}))
			continue
		}
		var refused *DirectoryError
		if !errors.As(err, &refused) || !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(err.Error(), "holds other files") {
			t.Errorf("%q: got %v", names, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != len(strings.Fields(names)) {
			t.Errorf("%q: left %v, %v", names, left, err)
		}
	}
}
