package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is the go command's description of a package, without its tests.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string // at all depths
}

// list asks the go command for packages as they are built for an operating
// system.
func list(t *testing.T, goos string, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list returned no package")
	}
	return all
}

// matches reports whether a path matches the pattern, which may end in "/...".
func matches(pattern, path string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return path == base || below && strings.HasPrefix(path, base+"/")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

var systems = []string{"linux", "darwin", "windows"}

// onEach checks all packages of the project as built for each operating system.
func onEach(t *testing.T, check func(t *testing.T, all []pkg)) {
	for _, goos := range systems {
		t.Run(goos, func(t *testing.T) { check(t, list(t, goos, module+"...")) })
	}
}

func TestArrowsPointDownward(t *testing.T) {
	onEach(t, func(t *testing.T, all []pkg) {
		for _, p := range all {
			for _, err := range against(arrows, p) {
				t.Error(err)
			}
		}
	})
}

// TestTheRulesAreTrue: each row names only rows below it, each import that a row
// allows is made by some package, and ups has exactly the arrows that run up.
func TestTheRulesAreTrue(t *testing.T) {
	row := func(path string) int {
		return slices.IndexFunc(arrows, func(a arrow) bool { return matches(a.from, path) || a.from == path })
	}
	used, up := map[[2]string]bool{}, map[[2]string]bool{}
	for _, goos := range systems {
		for _, p := range list(t, goos, module+"...") {
			from := strings.TrimPrefix(p.ImportPath, module)
			i := row(from)
			for _, imp := range p.Imports {
				to, own := strings.CutPrefix(imp, module)
				if !own || i < 0 {
					continue
				}
				if row(to) < i {
					t.Errorf("%s imports %s, which is above it in arrows", from, to)
				}
				for _, allowed := range arrows[i].to {
					used[[2]string{arrows[i].from, allowed}] = used[[2]string{arrows[i].from, allowed}] || matches(allowed, to)
				}
				if room(to) < room(from) {
					top, _, _ := strings.Cut(to, "/")
					up[[2]string{from, top}] = true
				}
			}
		}
	}
	for _, a := range arrows {
		for _, to := range a.to {
			if !used[[2]string{a.from, to}] {
				t.Errorf("%s may import %s, but does not", a.from, to)
			}
		}
	}
	for _, u := range ups {
		if !up[[2]string{u.from, u.to}] {
			t.Errorf("%s does not import %s", u.from, u.to)
		}
		delete(up, [2]string{u.from, u.to})
	}
	for a := range up {
		t.Errorf("%s imports %s, a higher folder: give the reason in ups", a[0], a[1])
	}
}

// against checks one package's imports of the project's own packages.
func against(rules []arrow, p pkg) []error {
	from := strings.TrimPrefix(p.ImportPath, module)
	i := slices.IndexFunc(rules, func(a arrow) bool { return matches(a.from, from) })
	if i < 0 {
		return []error{fmt.Errorf("%s has no row in arrows: add one in rules_test.go", from)}
	}
	var errs []error
	for _, imp := range p.Imports {
		to, own := strings.CutPrefix(imp, module)
		if own && !matchesAny(rules[i].to, to) {
			errs = append(errs, fmt.Errorf("%s imports %s: %s", from, to, rules[i].why))
		}
	}
	return errs
}

func TestBans(t *testing.T) {
	onEach(t, func(t *testing.T, all []pkg) {
		for _, b := range bans {
			found := false
			for _, p := range all {
				from := strings.TrimPrefix(p.ImportPath, module)
				if !b.covers(from) {
					continue
				}
				found = true
				among := p.Imports
				if b.deep {
					among = p.Deps
				}
				for _, imp := range among {
					if matchesAny(b.not, imp) {
						t.Errorf("%s reaches %s: %s", from, imp, b.why)
					}
				}
			}
			if !found {
				t.Errorf("package %v does not exist: the rule checks nothing", b.from)
			}
		}
	})
}

// covers reports whether the ban applies to a package.
func (b *ban) covers(path string) bool {
	return matchesAny(b.from, path) && !slices.ContainsFunc(b.from, func(p string) bool {
		except, ok := strings.CutPrefix(p, "!")
		return ok && matches(except, path)
	})
}

func TestTestsLinkLittle(t *testing.T) {
	for _, b := range testBans {
		for _, from := range b.from {
			found := false
			for _, p := range list(t, "linux", "-test", "-deps", module+from) {
				path, tests, _ := strings.Cut(p.ImportPath, " ") // "x [y.test]" is x as built for y's tests
				found = found || path == module+from && tests != ""
				if matchesAny(b.not, path) {
					t.Errorf("the tests of %s reach %s: %s", from, path, b.why)
				}
			}
			if !found {
				t.Errorf("package %s has no tests: the rule checks nothing", from)
			}
		}
	}
}

func TestStandardLibraryOnly(t *testing.T) {
	standard := map[string]bool{}
	for _, p := range list(t, "linux", "std") {
		standard[p.ImportPath] = true
	}
	for _, p := range list(t, "linux", module+"...") {
		from := strings.TrimPrefix(p.ImportPath, module)
		if !slices.Contains(standardOnly, from) {
			continue
		}
		for _, imp := range p.Deps {
			own, ours := strings.CutPrefix(imp, module)
			if !standard[imp] && (!ours || !slices.Contains(standardOnly, own)) {
				t.Errorf("%s reaches %s: it must depend on the standard library only", from, imp)
			}
		}
	}
}

// TestNoClockInTheLease: package lease uses only the type and the units of
// package time.
func TestNoClockInTheLease(t *testing.T) {
	inFiles(t, "lease", func(fset *token.FileSet, n ast.Node) {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && x.Obj == nil {
			switch sel.Sel.Name {
			case "Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour":
			default:
				t.Errorf("%s: time.%s: pass the instant as an argument", fset.Position(n.Pos()), sel.Sel.Name)
			}
		}
	})
}

// TestNoGoroutineInTheState: package state uses neither goroutines nor
// channels, so it decides everything in log order.
func TestNoGoroutineInTheState(t *testing.T) {
	inFiles(t, "replica/state", func(fset *token.FileSet, n ast.Node) {
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			t.Errorf("%s: a goroutine or a channel: the state is a pure function of the log", fset.Position(n.Pos()))
		}
	})
}

// inFiles visits the source of a package, without its tests.
func inFiles(t *testing.T, name string, visit func(*token.FileSet, ast.Node)) {
	t.Helper()
	p := list(t, "linux", module+name)[0]
	if len(p.GoFiles) == 0 {
		t.Fatalf("package %s has no files", name)
	}
	fset := token.NewFileSet()
	for _, file := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if n != nil {
				visit(fset, n)
			}
			return true
		})
	}
}

// TestTheRulesBite tests the checks themselves, with violations that they must
// find.
func TestTheRulesBite(t *testing.T) {
	for _, tc := range []struct {
		from, imports string
		wrong         bool
	}{
		{"master", "lockapi/server", true},
		{"master", "replica", true},
		{"master", "replica/membership", false},
		{"replica", "replica/datadir", false},
		{"replica", "replica/wal", true},
		{"replica/state", "lease", true},
		{"client", "master", true},
		{"client", "lockapi", false},
		{"lockapi", "client", true},
		{"cmd/stoutd", "client", true},
		{"cmd/stout/internal/cli", "replica", true},
		{"newcomer", "lockapi", true},
	} {
		p := pkg{ImportPath: module + tc.from, Imports: []string{"fmt", module + tc.imports}}
		if errs := against(arrows, p); (len(errs) > 0) != tc.wrong {
			t.Errorf("%s → %s: %v", tc.from, tc.imports, errs)
		}
	}
	b := ban{from: []string{"client/...", "!client/stouttest"}}
	for path, want := range map[string]bool{"client": true, "client/recipe": true, "client/stouttest": false, "lockapi": false} {
		if b.covers(path) != want {
			t.Errorf("%v guards %s: want %v", b.from, path, want)
		}
	}
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"net/...", "net", true}, {"net/...", "net/http", true}, {"net/...", "network", false},
		{"time", "time", true}, {"time", "time/tzdata", false},
	} {
		if matches(tc.pattern, tc.path) != tc.want {
			t.Errorf("matches(%q, %q) is not %v", tc.pattern, tc.path, tc.want)
		}
	}
}
