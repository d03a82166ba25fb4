package archtest

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/keystrand/keystrand"

// source is one Go file of the module.
type source struct {
	name    string // slash-separated, from the module's root
	pkg     string // its folder, "." for the root
	test    bool
	tree    *ast.File
	files   *token.FileSet
	imports []string
	tags    constraint.Expr // nil: none
}

// nested are folders with modules of their own, and those without code of ours.
var nested = map[string]bool{"test": true, "bench": true, "tools": true, "testdata": true, ".git": true, "bin": true}

// readModule returns every Go file of the root module, parsed once for all tests. They only read it.
func readModule(t testing.TB) []source {
	t.Helper()
	all, err := parseModule()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d files found: the walk is wrong", len(all))
	}
	return all
}

var parseModule = sync.OnceValues(func() (all []source, err error) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && at != root && (nested[entry.Name()] || strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(at, ".go") {
			return nil
		}
		s, err := readFile(root, at)
		all = append(all, s)
		return err
	})
	return all, err
})

func readFile(root, at string) (source, error) {
	name, err := filepath.Rel(root, at)
	if err != nil {
		return source{}, err
	}
	name = filepath.ToSlash(name)
	s := source{name: name, pkg: path.Dir(name), files: token.NewFileSet()}
	// A ...test package holds suites and doubles for the tests of others; it counts as a test.
	s.test = strings.HasSuffix(name, "_test.go") || strings.HasSuffix(s.pkg, "test")
	if s.tree, err = parser.ParseFile(s.files, at, nil, parser.ParseComments); err != nil {
		return s, err
	}
	for _, spec := range s.tree.Imports {
		text, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return s, err
		}
		s.imports = append(s.imports, text)
	}
	for _, group := range s.tree.Comments {
		for _, comment := range group.List {
			if constraint.IsGoBuild(comment.Text) && comment.Pos() < s.tree.Package {
				if s.tags, err = constraint.Parse(comment.Text); err != nil {
					return s, err
				}
			}
		}
	}
	return s, nil
}

// local is the folder of an import of this module, "" for others.
func local(imported string) string {
	if imported == module {
		return "."
	}
	if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
		return rest
	}
	return ""
}

// builtWith reports whether the file is part of a build with just these tags (and any operating system).
func (s source) builtWith(tags ...string) bool {
	return s.tags == nil || s.tags.Eval(func(tag string) bool {
		for _, t := range tags {
			if t == tag {
				return true
			}
		}
		return tag == "linux" || tag == "unix" || tag == "amd64"
	})
}
