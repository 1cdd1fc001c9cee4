package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoMapsByAddress: addresses in memory do not follow from the seed. A map
// walked in the order of addresses would make two runs of one seed differ. The
// runtime is patched for maps by value only (package overlay).
func TestNoMapsByAddress(t *testing.T) {
	// These packages run in simulated cells. The packages below lockapi/server
	// serve real connections, which a simulated cell does not have.
	for _, dir := range []string{
		"client", "lease", "lockapi", "lockapi/server", "master", "replica", "replica/admission", "replica/boltlog", "replica/membership", "replica/datadir",
		"replica/disk", "replica/raftstore", "replica/rafttransport", "replica/snapshots", "replica/state", "replica/wal", "test/sim/simcell",
	} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files: %v", dir, len(files), err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				checkMaps(t, name)
			}
		}
	}
}

func checkMaps(t *testing.T, name string) {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		m, ok := n.(*ast.MapType)
		if !ok {
			return true
		}
		switch m.Key.(type) {
		case *ast.StarExpr, *ast.ChanType, *ast.InterfaceType:
			t.Errorf("%v: a map with addresses as keys; number them, or keep a slice", set.Position(m.Pos()))
		}
		return true
	})
}
