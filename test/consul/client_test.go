//go:build unix

package consul

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// ofInterest are the files of the client library with the tests to run.
var ofInterest = []string{"kv_test.go", "lock_test.go", "semaphore_test.go", "session_test.go", "status_test.go", "txn_test.go"}

// TestClientLibrary runs the tests of Consul's client library. The ones that
// testdata/client.txt lists must fail; all others must pass. The tests have limits
// in real time, so one that fails runs twice more, alone.
func TestClientLibrary(t *testing.T) {
	testrun.Nightly(t)
	s := clientLibrary.open(t)
	// The door has no certificates of a service mesh, which the tests' server
	// otherwise waits for.
	s.change(t, "api_test.go", `connectEnabled := server.Config.Connect["enabled"]`, `connectEnabled := any(false)`)
	names := testsIn(t, s)
	expected := expectedToFail(t, names)
	lib := library{program: s.tests(t, "."), dir: string(s), env: consuls(t)}
	got := lib.run(t, names, "8")
	for _, name := range names {
		_, toFail := expected[name]
		for again := 0; again < 2 && got[name].action == "fail" && !toFail; again++ {
			got[name] = lib.run(t, []string{name}, "1")[name]
		}
		switch action := got[name].action; {
		case withConsul() && action == "pass", action == "pass" && !toFail, action == "fail" && toFail:
			t.Log(name, action, expected[name])
		case toFail:
			t.Errorf("%s: %s, but testdata/client.txt expects that it fails", name, action)
		default:
			t.Errorf("%s: %s\n%s", name, action, got[name].output)
		}
	}
}

// testsIn returns the names of the tests of interest.
func testsIn(t *testing.T, s source) (names []string) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, file := range ofInterest {
		content, err := os.ReadFile(filepath.Join(string(s), file))
		must(t, err)
		for _, found := range declared.FindAllSubmatch(content, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

// expectedToFail reads the table of tests that fail, and why.
func expectedToFail(t *testing.T, names []string) map[string]string {
	t.Helper()
	content, err := os.ReadFile("testdata/client.txt")
	must(t, err)
	reasons := map[string]string{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || !slices.Contains(names, name) {
			t.Fatalf("testdata/client.txt: %q: want the name of a test, a colon and the reason", line)
		}
		reasons[name] = reason
	}
	return reasons
}

// library is the compiled tests of the client library.
type library struct {
	program, dir string
	env          []string
}

// result is the end of one test.
type result struct {
	action string // pass, fail or skip; empty if it did not end
	output string
}

func (l library) run(t *testing.T, names []string, parallel string) map[string]result {
	t.Helper()
	pattern := "^(" + strings.Join(names, "|") + ")$"
	cmd := exec.Command("go", "tool", "test2json", "-t", l.program, "-test.v=test2json", "-test.parallel="+parallel, "-test.timeout=15m", "-test.run="+pattern)
	cmd.Dir, cmd.Env = l.dir, l.env
	out, _ := cmd.CombinedOutput() // the results say what failed
	results := map[string]result{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			t.Log(lines.Text())
			continue
		}
		r := results[event.Test]
		switch event.Action {
		case "pass", "fail", "skip":
			r.action = event.Action
		case "output":
			r.output += event.Output
		}
		results[event.Test] = r
	}
	if len(results) == 0 {
		t.Fatal(fmt.Errorf("no test has run:\n%s", out))
	}
	return results
}
