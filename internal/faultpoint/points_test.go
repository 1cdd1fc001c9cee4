package faultpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	declared = regexp.MustCompile(`(?m)^\t([A-Z]\w+)\s+= "([\w.]+)"`)
	used     = regexp.MustCompile(`faultpoint\.(?:Hit|Err)\(faultpoint\.(\w+)\)`)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEachPointIsSomewhere: the product uses each point, and Points lists it.
func TestEachPointIsSomewhere(t *testing.T) {
	source, err := os.ReadFile("points.go")
	must(t, err)
	names := map[string]bool{}
	for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
		names[m[1]] = false
	}
	if len(names) != len(Points) {
		t.Errorf("points.go declares %d points, and Points has %d", len(names), len(Points))
	}
	for _, dir := range []string{"master", "replica"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			for _, m := range used.FindAllStringSubmatch(string(text), -1) {
				if _, known := names[m[1]]; !known {
					t.Errorf("%s has point %s, which points.go lacks", name, m[1])
				}
				names[m[1]] = true
			}
			return err
		})
		must(t, err)
	}
	for name, found := range names {
		if !found {
			t.Errorf("the product does not use point %s", name)
		}
	}
}

// TestNothingWithoutTheTag: without the build tag a point ignores orders.
func TestNothingWithoutTheTag(t *testing.T) {
	if Enabled {
		t.Skip("built with points")
	}
	name := filepath.Join(t.TempDir(), "orders")
	must(t, os.WriteFile(name, []byte(DiskWrite+" full\n"+Apply+" kill\n"), 0o600))
	t.Setenv(Variable, name)
	Hit(Apply)
	if err := Err(DiskWrite); err != nil {
		t.Error(err)
	}
}
