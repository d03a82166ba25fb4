package grpc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// wantCodes is written out apart from the table it checks.
var wantCodes = map[string]struct {
	err    error
	code   v2.Code
	handle v2.Code // what it is for a request about a receipt handle
}{
	"ErrRetryLater":    {keystrand.ErrRetryLater, 42900, 42900},
	"ErrUnknown":       {keystrand.ErrUnknown, 50401, 50401},
	"ErrRejected":      {keystrand.ErrRejected, 40000, 40013},
	"ErrSuperseded":    {keystrand.ErrSuperseded, 40013, 40013},
	"ErrCorrupt":       {keystrand.ErrCorrupt, 50001, 50001},
	"ErrTopicNotFound": {keystrand.ErrTopicNotFound, 40402, 40013},
	"ErrGroupNotFound": {keystrand.ErrGroupNotFound, 40403, 40013},
	"ErrExists":        {keystrand.ErrExists, 42800, 42800},
	"ErrLeaseExpired":  {keystrand.ErrLeaseExpired, 40013, 40013},
	"ErrBadHandle":     {keystrand.ErrBadHandle, 40013, 40013},
	"ErrMessageType":   {keystrand.ErrMessageType, 40014, 40014},
	"ErrTooLarge":      {keystrand.ErrTooLarge, 41300, 41300},
	"ErrClosed":        {keystrand.ErrClosed, 42900, 42900},
	"ErrReadOnly":      {keystrand.ErrReadOnly, 50002, 50002},
	"ErrLocked":        {keystrand.ErrLocked, 42900, 42900}, // met when opening: no peer sees it
	"DeadlineExceeded": {context.DeadlineExceeded, 40800, 40800},
	"Canceled":         {context.Canceled, 40800, 40800},
}

// TestEveryErrorHasItsCode walks the whole table, and the source of the root package's errors, so that a new error without a code fails.
func TestEveryErrorHasItsCode(t *testing.T) {
	t.Parallel()
	for _, name := range rootErrors(t) {
		if _, ok := wantCodes[name]; !ok {
			t.Errorf("keystrand.%s has no code in this test", name)
		}
	}
	tested := map[error]bool{}
	for name, want := range wantCodes {
		tested[want.err] = true
		for _, err := range []error{want.err, fmt.Errorf("topic %q: %w", "t", want.err)} {
			if got := StatusOf(err).GetCode(); got != want.code {
				t.Errorf("%s: got code %d, want %d", name, got, want.code)
			}
			if got := HandleStatusOf(err).GetCode(); got != want.handle {
				t.Errorf("%s about a handle: got code %d, want %d", name, got, want.handle)
			}
		}
	}
	for _, row := range codeTable {
		if !tested[row.err] {
			t.Errorf("%v is in the table and not in this test", row.err)
		}
	}
	if got := StatusOf(nil); got.GetCode() != v2.Code_OK {
		t.Errorf("no error: got %v, want OK", got)
	}
}

func rootErrors(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, name := range spec.Names {
				if strings.HasPrefix(name.Name, "Err") {
					names = append(names, name.Name)
				}
			}
		}
		return true
	})
	if len(names) < 10 {
		t.Fatalf("found %d errors only; the parser looks at the wrong thing", len(names))
	}
	return names
}

// SEC-09: what wraps an inner fault may name files; the client hears the sentinel only.
func TestSEC09InnerFaultsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, class := range []error{keystrand.ErrReadOnly, keystrand.ErrCorrupt, keystrand.ErrUnknown, errors.New("other")} {
		status := StatusOf(fmt.Errorf("write /var/lib/secret/000001.log: %w", class))
		if strings.Contains(status.GetMessage(), "secret") {
			t.Errorf("%v: the path is told: %q", class, status.GetMessage())
		}
	}
	if got := StatusOf(fmt.Errorf("topic %q: %w", "orders", keystrand.ErrTopicNotFound)).GetMessage(); !strings.Contains(got, "orders") {
		t.Errorf("got %q, want the topic's name in it", got)
	}
}

func TestSummaryAgreesOrSaysMultipleResults(t *testing.T) {
	t.Parallel()
	ok, bad := OK(), NewStatus(v2.Code_INVALID_RECEIPT_HANDLE, "x")
	for _, c := range []struct {
		entries []*v2.Status
		want    v2.Code
	}{
		{nil, v2.Code_OK}, {[]*v2.Status{ok, ok}, v2.Code_OK}, {[]*v2.Status{bad}, v2.Code_INVALID_RECEIPT_HANDLE},
		{[]*v2.Status{bad, bad}, v2.Code_INVALID_RECEIPT_HANDLE}, {[]*v2.Status{ok, bad}, v2.Code_MULTIPLE_RESULTS},
	} {
		if got := Summary(len(c.entries), func(i int) *v2.Status { return c.entries[i] }).GetCode(); got != c.want {
			t.Errorf("%v: got %v, want %v", c.entries, got, c.want)
		}
	}
}
