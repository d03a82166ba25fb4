package archtest

import (
	"bytes"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forEachCode visits the files of the product itself, tests and test helpers left out.
func forEachCode(t *testing.T, f func(s source)) {
	t.Helper()
	for _, s := range readModule(t) {
		if !s.test && s.pkg != "internal/archtest" {
			f(s)
		}
	}
}

// Waiting is for a timer and a context, or for an event; a sleep can be ended by neither.
func TestNoSleepOutsideTests(t *testing.T) {
	t.Parallel()
	forEachCode(t, func(s source) {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "time" {
				t.Errorf("%s: time.Sleep", s.files.Position(call.Pos()))
			}
			return true
		})
	})
}

// SEC-34: only the demo starts processes.
func TestSEC34OnlyTheDemoStartsProcesses(t *testing.T) {
	t.Parallel()
	forEachCode(t, func(s source) {
		for _, imported := range []string{"os/exec", "plugin"} {
			if slices.Contains(s.imports, imported) && s.pkg != "internal/demo" {
				t.Errorf("%s imports %s; only internal/demo may start a process", s.name, imported)
			}
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := call.X.(*ast.Ident)
			starts := ok && (pkg.Name == "os" && call.Sel.Name == "StartProcess" ||
				(pkg.Name == "syscall" || pkg.Name == "unix") && slices.Contains([]string{"Exec", "ForkExec", "StartProcess"}, call.Sel.Name))
			if starts && s.pkg != "internal/demo" {
				t.Errorf("%s: %s.%s", s.files.Position(call.Pos()), pkg.Name, call.Sel.Name)
			}
			return true
		})
	})
}

// SEC-97: neither memory-unsafe code nor cgo, tests included.
func TestSEC97NoUnsafeAndNoCgo(t *testing.T) {
	t.Parallel()
	for _, s := range readModule(t) {
		for _, imported := range s.imports {
			if imported == "unsafe" || imported == "C" {
				t.Errorf("%s imports %q", s.name, imported)
			}
		}
		for _, group := range s.tree.Comments {
			for _, comment := range group.List {
				if strings.HasPrefix(comment.Text, "//go:linkname") {
					t.Errorf("%s: %s", s.files.Position(comment.Pos()), comment.Text)
				}
			}
		}
	}
}

// SEC-07: an untagged build has no failpoint and no profiling routes. A file that names the faults must need the tag
// faultinject, unless it holds only the constant that says they are off.
func TestSEC07NoFailpointsAndNoProfilingInAnUntaggedBuild(t *testing.T) {
	t.Parallel()
	forEachCode(t, func(s source) {
		if !s.builtWith() {
			return
		}
		for _, imported := range s.imports {
			if imported == "net/http/pprof" || imported == "expvar" {
				t.Errorf("%s imports %s", s.name, imported)
			}
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok {
				return true
			}
			for _, word := range []string{"strand-lease", "token-check"} {
				if strings.Contains(text.Value, word) {
					t.Errorf("%s: the fault %s is named in a file without the tag faultinject", s.files.Position(text.Pos()), word)
				}
			}
			return true
		})
	})
}

// Goroutines have owners: go statements live in internal/task and few other places.
func TestGoStatementsLiveInTask(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"internal/task": true}
	forEachCode(t, func(s source) {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok && !allowed[s.pkg] {
				t.Errorf("%s: go statement; start it with internal/task, so that it has a name and an owner", s.files.Position(statement.Pos()))
			}
			return true
		})
	})
}

// context.Background belongs to cmd and tests; elsewhere a caller's context is lost. A service's own life is the exception,
// listed here by file.
func TestContextBackgroundBelongsToMain(t *testing.T) {
	t.Parallel()
	owners := map[string]string{
		"internal/admin/server.go":       "the server's own life, ended by Close",
		"internal/store/recovery.go":     "the log's own goroutines, ended by Close",
		"internal/store/indexopen.go":    "the index's own goroutine, ended by Close",
		"internal/sequencer/open.go":     "the sequencer's own goroutines, ended by Close",
		"internal/sequencer/snapshot.go": "the last snapshot, written by Close",
		"internal/server/server.go":      "the server's own life, ended by Stop",
		"internal/history/merge.go":      "a pure computation, bounded by its input",
		"dialect/sqlite/open.go":         "Open takes no context; bounded by the busy timeout",
	}
	forEachCode(t, func(s source) {
		if strings.HasPrefix(s.pkg, "cmd/") || owners[s.name] != "" {
			return
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Background" && call.Sel.Name != "TODO" {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "context" {
				t.Errorf("%s: context.%s", s.files.Position(call.Pos()), call.Sel.Name)
			}
			return true
		})
	})
}

// SEC-95: no key, password or token is in the tree. The patterns are put together here so that this file does not match.
func TestSEC95NoSecretsInTheTree(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile("-----BEGIN [A-Z ]*PRIVATE" + " KEY-----|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[baprs]-[0-9A-Za-z-]{20}|eyJhbGciOi[0-9A-Za-z_-]{20}")
	// Looking for the words first is a hundred times faster than the pattern, most of all with the race detector.
	words := [][]byte{[]byte("PRIVATE" + " KEY"), []byte("AKIA"), []byte("ghp_"), []byte("gho_"), []byte("ghu_"), []byte("ghs_"), []byte("ghr_"), []byte("xox"), []byte("eyJhbGciOi")}
	suspect := func(text []byte) bool {
		return slices.ContainsFunc(words, func(word []byte) bool { return bytes.Contains(text, word) })
	}
	const maxFileBytes = 8 << 20
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == ".git" || name == "bin" || name == "keystrand-data") {
			return filepath.SkipDir
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxFileBytes {
			return err
		}
		text, err := os.ReadFile(at)
		if err == nil && suspect(text) && secret.Match(text) {
			t.Errorf("%s holds what looks like a secret: %.20s...", at, secret.Find(text))
		}
		files++
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files read, %v", files, err)
	}
	if key := []byte("-----BEGIN EC PRIVATE" + " KEY-----"); !suspect(key) || !secret.Match(key) {
		t.Error("the pattern finds nothing")
	}
}
