package redlock_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The dependency list is a promise to users, so a test keeps it, not a review:
// who imports redlock gets these modules and no more.

const self = "github.com/redlock-go/redlock"

// direct is what our own code may import, indirect what those modules bring
// along (go-redis the first two, go-multierror the third).
var (
	direct = []string{
		"github.com/redis/go-redis/v9", "github.com/google/uuid", "github.com/hashicorp/go-multierror", "golang.org/x/sys",
	}
	indirect = []string{
		"github.com/cespare/xxhash/v2", "go.uber.org/atomic", "github.com/hashicorp/errwrap",
	}
	// above is what stands above the root or beside it, and must not be under it.
	above = []string{
		"internal/cli", "internal/memnode", "internal/sim", "internal/judge", "internal/faultproxy", "internal/report", "internal/attack", "internal/redisproc",
		"redlocktest", "election", "fence", "cmd", "examples",
	}
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Error      *struct{ Err string }
}

// graph is a non-test build: packages by import path.
type graph map[string]pkg

// listDeps asks the go command for all that a package's build reaches.
func listDeps(t *testing.T, goos, root string) graph {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Imports,Standard,Error", root)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v\n%s", root, err, stderr.String())
	}
	g, dec := graph{}, json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		if p.Error != nil {
			t.Fatalf("go list -deps %s: %s: %s", root, p.ImportPath, p.Error.Err)
		}
		g[p.ImportPath] = p
	}
}

// chain is how the build comes from one package to another, by the shortest way.
func (g graph) chain(from, to string) string {
	came, queue := map[string]string{from: ""}, []string{from}
	for len(queue) > 0 && queue[0] != to {
		for _, next := range g[queue[0]].Imports {
			if _, seen := came[next]; !seen {
				came[next] = queue[0]
				queue = append(queue, next)
			}
		}
		queue = queue[1:]
	}
	var way []string
	for at := to; at != ""; at = came[at] {
		way = append(way, at)
	}
	slices.Reverse(way)
	return strings.Join(way, " → ")
}

// within reports whether a package belongs to one of the trees.
func within(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return path == tree || strings.HasPrefix(path, tree+"/")
	})
}

// offences are the packages that the promise does not cover, each with its chain.
func (g graph) offences(root string) []string {
	var bad []string
	for path, p := range g {
		switch {
		case p.Standard, within(path, direct...), within(path, indirect...):
			continue
		case !within(path, self):
			bad = append(bad, "a module that is not on the list: "+g.chain(root, path))
			continue
		case within(strings.TrimPrefix(path, self+"/"), above...):
			bad = append(bad, "imports run one way, and this package is above: "+g.chain(root, path))
		}
		for _, next := range p.Imports { // our code must not lean on what others bring along
			if within(next, indirect...) {
				bad = append(bad, "not ours to import, it only comes along: "+path+" → "+next)
			}
		}
	}
	slices.Sort(bad)
	return bad
}

func TestDependencies(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, bad := range listDeps(t, goos, self).offences(self) {
				t.Errorf("%s\nThe root's build reaches the standard library, %s and what those need. "+
					"Move the code to a package above, or to a nested module.", bad, strings.Join(direct, ", "))
			}
		})
	}
}

func TestDependenciesHaveTeeth(t *testing.T) {
	std := pkg{Standard: true}
	g := graph{
		self:                    {Imports: []string{"time", self + "/internal/seam", "github.com/redis/go-redis/v9"}},
		self + "/internal/seam": {Imports: []string{"example.org/x"}},
		self + "/internal/cli":  {Imports: []string{"go.uber.org/atomic"}},
		"example.org/x":         {Imports: []string{"time", self + "/internal/cli"}},
		"time":                  std, "go.uber.org/atomic": {},
		"github.com/redis/go-redis/v9": {Imports: []string{"go.uber.org/atomic"}},
	}
	want := []string{
		"a module that is not on the list: " + self + " → " + self + "/internal/seam → example.org/x",
		"imports run one way, and this package is above: " +
			self + " → " + self + "/internal/seam → example.org/x → " + self + "/internal/cli",
		"not ours to import, it only comes along: " + self + "/internal/cli → go.uber.org/atomic",
	}
	if got := g.offences(self); !slices.Equal(got, want) {
		t.Errorf("offences:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Leader election and the resource's side of fencing show that the public API
// is enough, so they use nothing else.
func TestBesideTheRootOnlyThePublicAPI(t *testing.T) {
	for _, dir := range []string{"election", "fence"} {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			t.Logf("no %s yet", dir)
			continue
		}
		root := self + "/" + dir
		for _, next := range listDeps(t, "linux", root)[root].Imports {
			if within(next, self+"/internal") {
				t.Errorf("%s imports %s: it may only use the public API", root, next)
			}
		}
	}
}

// impure are the lines of a file that know more than they should: a Redis, a
// server, the network; and in a step function a goroutine, channel or clock.
func impure(t *testing.T, name string, src any, steps bool) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	add := func(at ast.Node, what string) { bad = append(bad, fset.Position(at.Pos()).String()+": "+what) }
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		standard := !strings.Contains(strings.Split(path, "/")[0], ".")
		if within(path, "net", "os") || !standard && !within(path, "golang.org/x/sys") {
			add(spec, "imports "+path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if !steps {
			return false
		}
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			add(n, "uses a channel")
		case *ast.SelectorExpr:
			clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
				add(n, "asks a clock: time."+n.Sel.Name)
			}
		}
		return true
	})
	return bad
}

func TestPureFiles(t *testing.T) {
	for name, steps := range map[string]bool{"quorum.go": true, "clock.go": false} {
		for _, bad := range impure(t, name, nil, steps) {
			t.Errorf("%s\nThis file knows no Redis, no network and (quorum.go) no goroutine and no clock: "+
				"pass in what it needs.", bad)
		}
	}
}

func TestPureFilesHaveTeeth(t *testing.T) {
	const src = `package p
import ("net/url"; "time"; "github.com/redis/go-redis/v9"; "golang.org/x/sys/unix"; "github.com/redlock-go/redlock/internal/seam")
func f(c chan int) { go f(nil); c <- 1; _ = time.Now(); _ = time.Second }`
	if got := impure(t, "x.go", src, true); len(got) != 7 {
		t.Errorf("%d findings, want 7 (3 imports, chan, go, send, Now):\n%s", len(got), strings.Join(got, "\n"))
	}
	if got := impure(t, "x.go", src, false); len(got) != 3 {
		t.Errorf("%d findings, want the 3 imports:\n%s", len(got), strings.Join(got, "\n"))
	}
}
