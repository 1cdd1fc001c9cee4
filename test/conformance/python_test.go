package conformance

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// TestPython runs the suite with the Python client.
func TestPython(t *testing.T) {
	runAll(t, share(t, "python"), python(t), "-IB", filepath.Join(root(t), "client/python/tests/driver.py"))
}

// pythonVariable names the Python to test with.
const pythonVariable = "STOUT_TEST_PYTHON"

func pythonName() string { return cmp.Or(os.Getenv(pythonVariable), "python3") }

// python returns the Python to test with.
func python(t *testing.T) string {
	t.Helper()
	name := pythonName()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("the Python client needs Python 3.9 or later: install %s, or name another in %s", name, pythonVariable)
	}
	return path
}

// TestPythonUnits runs the tests of the Python client's pure parts.
func TestPythonUnits(t *testing.T) {
	t.Parallel()
	runTool(t, python(t), "-IB", "-W", "error", filepath.Join(root(t), "client/python/tests/test_stout.py"))
}

// TestPythonTypes checks the types of the Python client, where mypy is
// installed.
func TestPythonTypes(t *testing.T) {
	t.Parallel()
	mypy, err := exec.LookPath("mypy")
	if err != nil {
		t.Skip("the types of the Python client are not checked: install mypy")
	}
	runTool(t, mypy, "--strict", "--python-version", "3.9", "--cache-dir", t.TempDir(), filepath.Join(root(t), "client/python/stout"))
}

func runTool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// example is a block of Python in a page, with what it prints.
var example = regexp.MustCompile("(?s)\n```python\n(.*?)```\n")

// TestPythonExamples runs the examples of the Python client's page on a cell.
// Each is a program, and prints what its comments say.
func TestPythonExamples(t *testing.T) {
	t.Parallel()
	name := python(t)
	dir := filepath.Join(root(t), "client/python")
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := cell.New(t, cell.Options{Args: calm})
	blocks := example.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Errorf("the page has %d examples", len(blocks))
	}
	for i, block := range blocks {
		const given = "http://localhost:7101"
		if !strings.Contains(block[1], given) {
			t.Errorf("example %d does not call %s", i+1, given)
		}
		want := ""
		for line := range strings.Lines(block[1]) {
			if text, ok := strings.CutPrefix(line, "# prints: "); ok {
				want += text
			}
		}
		program := fmt.Sprintf("import sys\nsys.path.insert(0, %q)\n%s", dir, strings.ReplaceAll(block[1], given, c.URLs()[i%3]))
		out, err := exec.CommandContext(cell.Bounded(t), name, "-IB", "-c", program).CombinedOutput()
		if err != nil || string(out) != want || want == "" {
			t.Errorf("example %d ends with %v and prints:\n%s\nit must print:\n%s", i+1, err, out, want)
		}
	}
}
