package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMutated(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a", "a.go"), "package a\n\nvar x, y = 1, 1\n")
	for _, c := range []struct{ old, new, err string }{
		{"x, y = 1", "x, y = 2", ""},
		{"\n\n  z", "", `has no line "z"`},
		{"1", "2", "has 2 times"},
		{"x", "x", "changes nothing"},
		{"", "x", "changes nothing"},
	} {
		o, err := Mutated(Overlay{}, root, Edit{"a/a.go", c.old, c.new})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want one with %q", c.old, err, c.err)
			}
			continue
		}
		if got := string(o.files[filepath.Join(root, "a", "a.go")]); err != nil || got != "package a\n\nvar x, y = 2, 1\n" {
			t.Errorf("%q: %q, %v", c.old, got, err)
		}
	}
}

// TestEditsAddUp checks that an overlay made from another does not change that
// one.
func TestEditsAddUp(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a.go")
	write(t, name, "one two")
	base, err := Mutated(Overlay{}, root, Edit{"a.go", "one", "1"})
	must(t, err)
	both, err := Mutated(base, root, Edit{"a.go", "two", "2"})
	must(t, err)
	if got := string(base.files[name]) + ", " + string(both.files[name]); got != "1 two, 1 2" {
		t.Errorf("base and both are %s", got)
	}
	if got := read(t, name); got != "one two" {
		t.Errorf("the source has become %q", got)
	}
}

func TestUnknownRelease(t *testing.T) {
	src := t.TempDir()
	write(t, filepath.Join(src, "runtime", "select.go"), "package runtime\n")
	_, err := runtimeOf(src, "go1.99")
	for _, part := range []string{"go1.99", "runtime/select.go", "cheaprandn(uint32(norder + 1))", "use " + release} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not have %q", err, part)
		}
	}
}

// TestStoreTwice checks that storing an overlay again reuses its files.
func TestStoreTwice(t *testing.T) {
	dir := t.TempDir()
	o := Overlay{}.with("/somewhere/a.go", []byte("package a\n"))
	first, err := o.store(dir)
	must(t, err)
	second, err := o.store(dir)
	if err != nil || first != second {
		t.Errorf("stored at %s and then at %s, %v", first, second, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%d files, %v; want the source and the description", len(files), err)
	}
	if !strings.Contains(read(t, first), `"/somewhere/a.go"`) {
		t.Errorf("the description is %s", read(t, first))
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	return string(raw)
}
