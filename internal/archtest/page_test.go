package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page about the architecture names files and functions; each must be there.
func TestEveryFunctionThatTheArchitecturePageNamesIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]map[string]bool{}
	for _, s := range readModule(t) {
		functions[s.name] = functionsOf(s.tree)
	}
	row := regexp.MustCompile("^\\|[^|]*\\| `([^`]+\\.go)` \\|([^|]*)\\|$")
	name := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil {
			continue
		}
		rows++
		have, ok := functions[cells[1]]
		if !ok {
			t.Errorf("the page names %s, which is not there", cells[1])
			continue
		}
		for _, match := range name.FindAllStringSubmatch(cells[2], -1) {
			if !have[match[1]] {
				t.Errorf("the page names %s in %s, which is not there", match[1], cells[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows found: the page's tables have another form", rows)
	}
}

// Folders of the file map exist, and every package has a line there.
func TestTheFileMapKnowsEveryPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## File map")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, s := range readModule(t) {
		known := false
		for folder := s.pkg; ; folder = folder[:max(strings.LastIndexByte(folder, '/'), 0)] {
			known = known || strings.Contains(section, "`"+folder+"/`") || folder == "." && strings.Contains(section, "`.`")
			if known || !strings.Contains(folder, "/") {
				break
			}
		}
		if !known && !s.test {
			t.Errorf("package %s is not in the file map of docs/ARCHITECTURE.md", s.pkg)
		}
	}
}

func functionsOf(tree *ast.File) map[string]bool {
	all := map[string]bool{}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil && len(f.Recv.List) == 1 {
			at := f.Recv.List[0].Type
			if star, ok := at.(*ast.StarExpr); ok {
				at = star.X
			}
			if list, ok := at.(*ast.IndexExpr); ok {
				at = list.X
			}
			if ident, ok := at.(*ast.Ident); ok {
				name = ident.Name + "." + name
			}
		}
		all[name] = true
	}
	return all
}
