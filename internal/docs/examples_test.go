package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples: docs/examples.md shows and runs each example, and each is short.
func TestExamples(t *testing.T) {
	const most = 80 // lines
	page, err := os.ReadFile(filepath.Join(root, "docs/examples.md"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, pattern := range []string{"examples/*/main.go", "client/contrib/examples/*/main.go"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			total++
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Base(filepath.Dir(name))
			if n := strings.Count(string(source), "\n"); n > most {
				t.Errorf("%s has %d lines, more than %d", name, n, most)
			}
			if !strings.HasPrefix(string(source), "// Command "+dir+" ") {
				t.Errorf("%s does not begin with its purpose", name)
			}
			if !strings.Contains(string(page), "examples/"+dir+"/main.go)") || !strings.Contains(string(page), "examples/"+dir+" ") && !strings.Contains(string(page), "examples/"+dir+"\n") {
				t.Errorf("docs/examples.md does not list and run %s", dir)
			}
		}
	}
	if total != 10 {
		t.Errorf("there are %d examples; docs/examples.md has ten", total)
	}
}
