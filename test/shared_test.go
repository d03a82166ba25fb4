package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// missing skips a test for what is not there, loudly; in CI it fails, since a test that was not run shows nothing.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("missing in CI: "+format, args...)
	}
	t.Skipf("SKIPPED, nothing was shown: "+format, args...)
}

// articlePrograms writes the programs that the founding articles print to a folder, unchanged, and returns it.
func articlePrograms(t testing.TB) string {
	t.Helper()
	shared := os.Getenv("KEYSTRAND_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	script := filepath.Join(shared, "seeds", "extract_examples.py")
	if _, err := os.Stat(script); err != nil {
		missing(t, "%v; set KEYSTRAND_SHARED to the shared folder", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python3: %v", err)
	}
	dir := t.TempDir()
	runCommand(t, "", nil, python, script, dir)
	return dir
}
