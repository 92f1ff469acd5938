package redlock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house numbers: bars that a reviewer need not hold up by hand.
const (
	maxFileLines = 400
	maxFuncLines = 80
)

// leftover is a note to oneself that has no place in what is committed.
var leftover = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// source is one Go file under the rules.
type source struct {
	path string // relative to the repository, with slashes
	fset *token.FileSet
	file *ast.File
	bad  []string
}

// breaches parses a file and says where it breaks the rules.
func breaches(path string, text []byte) ([]string, error) {
	s := &source{path: path, fset: token.NewFileSet()}
	file, err := parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s.file = file
	if !ast.IsGenerated(file) {
		s.lengths()
	}
	s.leftovers()
	if s.isTest() {
		s.sleeps()
	} else {
		s.inits()
		if !s.under("internal") {
			s.docs()
		}
	}
	return s.bad, nil
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// under reports whether a folder of that name is on the way to the file.
func (s *source) under(dirs ...string) bool {
	way := strings.Split(s.path, "/")
	return slices.ContainsFunc(way[:len(way)-1], func(d string) bool { return slices.Contains(dirs, d) })
}

func (s *source) addf(at token.Pos, format string, args ...any) {
	s.bad = append(s.bad, fmt.Sprintf("%s:%d: ", s.path, s.fset.Position(at).Line)+fmt.Sprintf(format, args...))
}

func (s *source) line(at token.Pos) int { return s.fset.Position(at).Line }

func (s *source) lengths() {
	tf := s.fset.File(s.file.FileStart)
	lines := tf.LineCount()
	if tf.Size() > 0 && tf.LineStart(lines) == token.Pos(tf.Base()+tf.Size()) {
		lines-- // the position after the last newline is no line
	}
	if lines > maxFileLines {
		s.addf(s.file.Package, "the file has %d lines, more than %d: split it by concern", lines, maxFileLines)
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFuncLines {
				s.addf(f.Pos(), "%s has %d lines, more than %d: name its parts", f.Name.Name, n, maxFuncLines)
			}
		}
	}
}

func (s *source) leftovers() {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if word := leftover.FindString(c.Text); word != "" {
				s.addf(c.Pos(), "%s: do it, or say in docs/ that it is not done", word)
			}
		}
	}
}

func (s *source) inits() {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			s.addf(f.Pos(), "func init: importing a package must do nothing; call it from where it is needed")
		}
	}
}

// imported is the name under which the file uses a package, or "".
func (s *source) imported(path, name string) string {
	for _, spec := range s.file.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == path {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return name
		}
	}
	return ""
}

// sleeps: a test that waits for real time is slow on a fast machine and wrong on
// a slow one. In a synctest bubble time is virtual; containers and benchmarks have no other.
func (s *source) sleeps() {
	clock := s.imported("time", "time")
	if clock == "" || s.imported("testing/synctest", "synctest") != "" || s.under("chaos_test", "bench") {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock {
				s.addf(n.Pos(), "time.Sleep in a test: use testing/synctest, or wait for the event itself")
			}
		}
		return true
	})
}

// docs: every exported name at the top level, and every exported method of an
// exported type, says what it is; but for the methods that everybody knows.
func (s *source) docs() {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			known := d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Is"}, d.Name.Name)
			if d.Name.IsExported() && d.Doc == nil && !known && (d.Recv == nil || ast.IsExported(receiver(d))) {
				s.addf(d.Pos(), "exported %s has no doc comment", d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s.specDocs(d, spec)
			}
		}
	}
}

// specDocs accepts a comment on the group, above the name or behind it.
func (s *source) specDocs(d *ast.GenDecl, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			s.addf(spec.Pos(), "exported %s has no doc comment", spec.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				s.addf(name.Pos(), "exported %s has no doc comment", name.Name)
			}
		}
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func TestHouseRules(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "testdata", "vendor"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		bad, err := breaches(filepath.ToSlash(path), text)
		for _, b := range bad {
			t.Error(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d Go files seen: is this run in the root of the repository?", files)
	}
}

func TestHouseRulesHaveTeeth(t *testing.T) {
	long := func(n int) string { return "package p\nfunc f() {\n" + strings.Repeat("\t_ = 1\n", n-2) + "}\n" }
	file := func(n int) string { return "package p\n" + strings.Repeat("var _ = 1\n", n-1) }
	const sleep = "import \"time\"\nfunc f() { time.Sleep(1) }\n"
	for name, c := range map[string]struct {
		path, text, want string // want is part of the only message; "" for none
	}{
		"function of 80":       {"a.go", long(80), ""},
		"function of 81":       {"a.go", long(81), "f has 81 lines"},
		"file of 400":          {"a.go", file(400), ""},
		"file of 401":          {"a.go", file(401), "401 lines"},
		"generated":            {"a.go", "// Code generated by x. DO NOT EDIT.\n\n" + file(401), ""},
		"note to oneself":      {"a.go", "package p\n// TO" + "DO: more\n", "a.go:2: TO" + "DO"},
		"init":                 {"a.go", "package p\nfunc init() {}\n", "func init"},
		"func without doc":     {"a.go", "package p\nfunc F() {}\n", "exported F"},
		"func in internal":     {"internal/x/a.go", "package p\nfunc F() {}\n", ""},
		"func in a test":       {"a_test.go", "package p\nfunc F() {}\n", ""},
		"method without doc":   {"a.go", "package p\n// T is.\ntype T[A any] struct{}\nfunc (*T[A]) M() {}\n", "exported M"},
		"method of a private":  {"a.go", "package p\ntype t struct{}\nfunc (t) M() {}\n", ""},
		"method known to all":  {"a.go", "package p\n// T is.\ntype T int\nfunc (T) String() string { return \"\" }\n", ""},
		"func named as one":    {"a.go", "package p\nfunc String() string { return \"\" }\n", "exported String"},
		"type without doc":     {"a.go", "package p\ntype T int\n", "exported T"},
		"const without doc":    {"a.go", "package p\nconst (\n\ta = 1\n\tB = 2\n)\n", "exported B"},
		"const, comment after": {"a.go", "package p\nconst (\n\tB = 2 // two\n)\n", ""},
		"sleep":                {"a_test.go", "package p\n" + sleep, "time.Sleep"},
		"sleep, other name":    {"a_test.go", "package p\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n", "time.Sleep"},
		"sleep in synctest":    {"a_test.go", "package p\nimport \"testing/synctest\"\n" + sleep, ""},
		"sleep in chaos_test":  {"chaos_test/a_test.go", "package p\n" + sleep, ""},
		"sleep in no test":     {"a.go", "package p\n" + sleep, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad, err := breaches(c.path, []byte(c.text))
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == "" && len(bad) > 0, c.want != "" && len(bad) != 1:
				t.Errorf("breaches: %q, want %q", bad, c.want)
			case c.want != "" && !strings.Contains(bad[0], c.want):
				t.Errorf("breach: %s, want %s", bad[0], c.want)
			}
		})
	}
}
