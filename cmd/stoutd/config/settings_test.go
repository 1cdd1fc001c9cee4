package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestEachRow: a setting has help, its default is valid, and a flag, the
// environment and a file can give it another value.
func TestEachRow(t *testing.T) {
	samples := map[string]string{
		"bool": "true", "duration": "7s", "fraction": "0.07", "number": "7", "size": "7MiB",
		"url": "http://x", "url[,url]": "http://x", "id=host:port,url": "r7=h:1,http://h:2",
	}
	seen := map[string]bool{}
	for i, s := range settings(Default()) {
		sample := samples[s.kind]
		if sample == "" {
			sample = "x7"
		}
		if s.help == "" || seen[s.name] || s.get() == sample {
			t.Errorf("%s: help %q, default %q, named twice: %v", s.name, s.help, s.get(), seen[s.name])
		}
		seen[s.name] = true
		if why := s.problem(); why != "" && s.get() != "" {
			t.Errorf("%s refuses its default %q: %s", s.name, s.get(), why)
		}
		for _, at := range []string{s.least.at, s.most.at} {
			if at == "" {
				continue
			}
			if err := s.set([]string{at}); err != nil || s.problem() != "" {
				t.Errorf("%s refuses its own bound %q: %v %s", s.name, at, err, s.problem())
			}
		}
		line := s.key() + ": " + sample
		if s.name == nameReplica {
			line = "replicas: [{id: r7, raft: \"h:1\", api: \"http://h:2\"}]"
		}
		for from, in := range map[Source]input{
			Source("flag --" + s.name):       {args: []string{"--" + s.name + "=" + sample}},
			Source("environment " + s.env()): {env: []string{s.env() + "=" + sample}},
			Source("r.yaml:1"):               {file: line + "\n"},
		} {
			c, err := load(t, in)
			if got := settings(c)[i].get(); got != sample || c.Source(s.name) != from {
				t.Errorf("%s: %q from %s, want %q from %s (%v)", s.name, got, c.Source(s.name), sample, from, err)
			}
		}
	}
}

// TestEachSettingIsUsed: code outside this package reads the field of each setting.
// It finds selectors of a Config by the names that variables and fields of this
// type have: c and config.
func TestEachSettingIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{"..", "../embed", "../internal/setup"} {
		selectors(t, dir, func(x, name string) { used[name] = used[name] || x == "c" || x == "config" })
	}
	quotas := map[string]bool{}
	selectors(t, "../../../master/internal/quota", func(_, name string) { quotas[name] = true })
	c := Default()
	for _, s := range settings(c) {
		name := nameIn(reflect.ValueOf(c).Elem(), s.field)
		outer, inner, nested := strings.Cut(name, ".")
		if !used[outer] || nested && !quotas[inner] {
			t.Errorf("%s: field %q is not read outside package config", s.name, name)
		}
	}
}

// selectors calls found for each selector x.name, or y.x.name, in the product files
// of dir. It leaves out targets of assignments.
func selectors(t *testing.T, dir string, found func(x, name string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		targets := map[ast.Node]bool{}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					targets[left] = true
				}
			case *ast.SelectorExpr:
				if targets[n] {
					return true
				}
				switch x := n.X.(type) {
				case *ast.Ident:
					found(x.Name, n.Sel.Name)
				case *ast.SelectorExpr:
					found(x.Sel.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}
