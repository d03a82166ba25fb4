package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/keystrand/keystrand/dialect/sqlite" // testdata/orderstate uses it; go.mod is told of it here
)

// Goal: the order state machine that article 003 prints in section 9.16 runs unchanged on the library's SQLite dialect.
// Method: the article's file is laid beside the adapter (testdata/orderstate) by a build overlay, so that neither is
// copied into the other; the adapter's program applies good, doubled, early and forbidden events and checks what is stored.
func TestTheArticlesOrderStateRunsOnTheSQLiteDialect(t *testing.T) {
	t.Parallel()
	article := filepath.Join(articlePrograms(t), "orderstate", "orderstate.go")
	place, err := filepath.Abs(filepath.Join("testdata", "orderstate", "article", "orderstate.go"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: article}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "orderstate")
	runCommand(t, "", nil, "go", "build", "-overlay", file, "-o", program, "./testdata/orderstate")
	t.Log(runCommand(t, dir, nil, program, filepath.Join(dir, "orders.db")).stdout)
}
