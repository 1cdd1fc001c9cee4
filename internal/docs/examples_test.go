package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples: docs/examples.md shows and runs each example, and each is short.
func TestExamples(t *testing.T) {
	const most = 80 // lines
	page := read(t, "docs/examples.md")
	total := 0
	for _, pattern := range []string{"examples/*/main.go", "client/contrib/examples/*/main.go"} {
		for _, name := range glob(t, pattern) {
			total++
			source := read(t, name)
			dir := filepath.Base(filepath.Dir(name))
			if n := strings.Count(source, "\n"); n > most {
				t.Errorf("%s has %d lines, more than %d", name, n, most)
			}
			if !strings.HasPrefix(source, "// Command "+dir+" ") {
				t.Errorf("%s does not begin with its purpose", name)
			}
			if !strings.Contains(page, "examples/"+dir+"/main.go)") || !strings.Contains(page, "examples/"+dir+" ") && !strings.Contains(page, "examples/"+dir+"\n") {
				t.Errorf("docs/examples.md does not list and run %s", dir)
			}
		}
	}
	if total != 10 {
		t.Errorf("there are %d examples; docs/examples.md has ten", total)
	}
}
