package archtest

import (
	"strings"
	"testing"
)

// arrows says what each package may import of this module, besides the root package, which holds the shared words, and the
// seams task, clock and invariant. A package that is not listed here fails the test: give it its arrows. Changing an arrow
// needs an ADR.
//
// Patterns end in /... for a whole tree.
var arrows = map[string][]string{
	".":                  {},
	"cmd/keystrand":      {"..."},
	"outbox":             {"dialect"},
	"inbox":              {"dialect"},
	"effect":             {"dialect"},
	"deadletter":         {"dialect"},
	"reconcile":          {"dialect"},
	"consumer":           {},
	"dialect":            {},
	"dialect/sqlite":     {"dialect"},
	"engine/embedded":    {"broker"},
	"broker":             {"internal/server", "internal/sequencer", "internal/admin", "internal/store", "internal/vfs"},
	"internal/server":    {"internal/sequencer", "internal/wire/...", "internal/state", "internal/deliver", "internal/store"},
	"internal/admin":     {"internal/sequencer", "internal/state"},
	"internal/sequencer": {"internal/state", "internal/deliver", "internal/store", "internal/vfs"},
	"internal/deliver":   {"internal/state"},
	"internal/state":     {"internal/store", "internal/vfs"},
	"internal/store":     {"internal/vfs"},
	"internal/wire":      {},
	"internal/wire/grpc": {"internal/wire"},
	"internal/vfs":       {},
	"internal/clock":     {},
	"internal/task":      {},
	"internal/invariant": {},
	"internal/network":   {},
	"internal/history":   {},
	"internal/demo":      {"..."},
	"internal/sim":       {"..."},
}

// noSeams may not even import task, clock and invariant.
var noSeams = map[string]bool{".": true, "dialect": true, "internal/wire": true, "internal/wire/grpc": true}

// outside says which imports from outside the standard library a package may have; "*" is any. Others have none.
var outside = map[string][]string{
	"cmd/keystrand":      {"github.com/spf13/", "github.com/google/uuid"},
	"internal/demo":      {"golang.org/x/net/http2"},
	"internal/sim":       {"*"},
	"internal/admin":     {"github.com/prometheus/client_golang/", "github.com/google/uuid"},
	"internal/server":    {"google.golang.org/grpc", "google.golang.org/protobuf/", "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"},
	"internal/wire/grpc": {"google.golang.org/grpc", "google.golang.org/protobuf/", "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"},
	"engine/embedded":    {"google.golang.org/grpc", "google.golang.org/protobuf/", "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"},
	"dialect/sqlite":     {"modernc.org/sqlite", "modernc.org/sqlite/"},
	"internal/state":     {"github.com/dchest/siphash"},
	"internal/sequencer": {"github.com/google/uuid", "github.com/dchest/siphash"},
	"internal/store":     {"github.com/dchest/siphash"},
	"internal/history":   {"golang.org/x/sys/"},
}

// testsMayAlso holds what tests of any package may import: they join parts to show them working together.
var testsMayAlso = []string{"github.com/google/go-cmp/", "pgregory.net/rapid", "modernc.org/sqlite", "github.com/apache/rocketmq-clients/golang/v5", "google.golang.org/grpc", "google.golang.org/protobuf/", "golang.org/x/net/http2"}

func TestImportsFlowOneWay(t *testing.T) {
	t.Parallel()
	for _, s := range readModule(t) {
		allowed, known := arrows[s.pkg]
		if !known && !s.test {
			t.Errorf("%s: package %s has no arrows: add it to the table in this test", s.name, s.pkg)
			continue
		}
		for _, imported := range s.imports {
			if problem := judge(s, imported, allowed); problem != "" {
				t.Errorf("%s imports %s: %s", s.name, imported, problem)
			}
		}
	}
}

// judge returns what is wrong with one import, or nothing.
func judge(s source, imported string, allowed []string) string {
	folder := local(imported)
	switch {
	case folder == "" && !strings.Contains(strings.SplitN(imported, "/", 2)[0], "."):
		return "" // standard library
	case folder == "":
		for _, prefix := range outside[s.pkg] {
			if prefix == "*" || imported == prefix || strings.HasPrefix(imported, prefix+"/") || strings.HasSuffix(prefix, "/") && strings.HasPrefix(imported, prefix) {
				return ""
			}
		}
		for _, prefix := range testsMayAlso {
			if s.test && strings.HasPrefix(imported, prefix) {
				return ""
			}
		}
		return "this package may not use that library"
	case folder == ".", s.test:
		return "" // the shared words; tests join parts
	case folder == "internal/task", folder == "internal/clock", folder == "internal/invariant":
		if noSeams[s.pkg] {
			return "this package uses no seams"
		}
		return ""
	}
	for _, pattern := range allowed {
		tree, isTree := strings.CutSuffix(pattern, "...")
		if folder == pattern || isTree && strings.HasPrefix(folder, tree) {
			return ""
		}
	}
	return "wrong way; " + s.pkg + " may import " + strings.Join(allowed, ", ")
}

// TestAWrongArrowIsCaught keeps the judge honest.
func TestAWrongArrowIsCaught(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, imported string
		test, wrong   bool
	}{
		{"internal/store", module + "/internal/deliver", false, true},
		{"internal/store", module + "/internal/vfs", false, false},
		{"internal/deliver", module + "/internal/store", false, true},
		{"internal/admin", module + "/broker", false, true},
		{"consumer", module + "/engine/embedded", false, true},
		{"consumer", module, false, false},
		{".", module + "/internal/task", false, true},
		{"internal/wire/grpc", module + "/internal/clock", false, true},
		{"inbox", "modernc.org/sqlite", false, true},
		{"inbox", "modernc.org/sqlite", true, false},
		{"internal/server", "google.golang.org/grpc/codes", false, false},
		{"internal/deliver", "google.golang.org/grpc/codes", false, true},
		{"cmd/keystrand", module + "/broker", false, false},
	} {
		got := judge(source{pkg: c.pkg, test: c.test}, c.imported, arrows[c.pkg])
		if (got != "") != c.wrong {
			t.Errorf("%s -> %s: got %q, want wrong=%v", c.pkg, c.imported, got, c.wrong)
		}
	}
}
