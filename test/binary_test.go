package test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SEC-07: the binary that users get has no profiling code, no fault injection, and no route to either.
func TestSEC07TheBinaryHasNoProfilingAndNoFailpoints(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"net/http/pprof", "strand-lease", "token-check"} {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("the binary holds %q", word)
		}
	}
	if !bytes.Contains(text, []byte("restart-hold")) {
		t.Error("the binary does not even hold the name of a flag: the search is wrong")
	}
	broker := startBroker(t, "--data", t.TempDir())
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/debug/requests", "/debug/events", "/debug/", "/failpoints", "/"} {
		response, err := http.Get("http://" + broker.HTTPAddr + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s", path, response.Status)
		}
	}
}

// SEC-92: two builds of one tree, from two folders, give the same bytes.
func TestSEC92TwoBuildsOfOneTreeGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	var sums [2][sha256.Size]byte
	first := copyOfTree(t, "..") // someone may be editing the tree itself
	for i, source := range []string{first, copyOfTree(t, first)} {
		out := filepath.Join(t.TempDir(), "keystrand")
		runCommand(t, source, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=test", "-o", out, "./cmd/keystrand")
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(text)
		if bytes.Contains(text, []byte(source)) {
			t.Errorf("the binary tells where it was built: %s", source)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("got %x and %x", sums[0], sums[1])
	}
}

// copyOfTree copies what the root module's build reads from one folder to a new one.
func copyOfTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(from, func(at string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); at != from && (strings.HasPrefix(name, ".") || name == "test" || name == "bench" || name == "bin" || name == "testdata" || name == "keystrand-data") {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if ext := filepath.Ext(at); ext != ".go" && ext != ".mod" && ext != ".sum" {
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
