package docs

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/testing.md anew")

const (
	promisesBegin = "<!-- promises: go test ./internal/docs -run TestPromises -update -->\n"
	promisesEnd   = "<!-- end of promises -->\n"
)

var (
	promise  = regexp.MustCompile(`(?m)^(\d+)\. `)
	attacker = regexp.MustCompile("`([a-z0-9/]+)`((?:,? (?:(?:Test|Fuzz)[A-Z][\\w/]*|testdata/[\\w/.]+|property tests))+)")
)

// TestPromisesHaveTargets: the table of docs/testing.md names, for each promise
// of guarantees.md, the packages that attack it, by the target that runs them. A
// promise that no test attacks fails here.
func TestPromisesHaveTargets(t *testing.T) {
	const page = "docs/testing.md"
	text := read(t, page)
	before, rest, found := strings.Cut(text, promisesBegin)
	table, after, ended := strings.Cut(rest, promisesEnd)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", page, promisesBegin, promisesEnd)
	}
	want := promiseTable(t)
	if *update {
		write(t, page, before+promisesBegin+want+promisesEnd+after)
	} else if table != want {
		t.Errorf("%s is out of date: go test ./internal/docs -run TestPromises -update", page)
	}
}

func promiseTable(t *testing.T) string {
	t.Helper()
	text := read(t, "docs/guarantees.md")
	race, err := exec.Command(filepath.Join(root, ".ci/packages"), "race").Output()
	must(t, err)
	raced, processes := strings.Fields(string(race)), processTests(t)
	all := promise.FindAllStringSubmatchIndex(text, -1)
	var b strings.Builder
	b.WriteString("| promise | `make test` (\\*: and `make race`) | `make e2e` |\n| ---: | --- | --- |\n")
	for i, at := range all {
		end := strings.Index(text, "\nBeside the tests named:")
		if i+1 < len(all) {
			end = min(all[i+1][0], end)
		}
		if end < at[0] {
			break
		}
		body := strings.Join(strings.Fields(string(text[at[1]:end])), " ")
		var quick, e2e []string
		for _, found := range attacker.FindAllStringSubmatch(body, -1) {
			pkg, star := found[1], ""
			if slices.Contains(raced, "./"+pkg) {
				star = " \\*"
			}
			for _, name := range strings.Fields(strings.ReplaceAll(found[2], ",", " ")) {
				if name, _, _ = strings.Cut(name, "/"); processes[pkg] || processes[pkg+" "+name] {
					e2e = append(e2e, "`"+pkg+"`")
				} else {
					quick = append(quick, "`"+pkg+"`"+star)
				}
			}
		}
		if strings.Contains(strings.ToLower(body), "simulator") {
			quick = append(quick, "simulator")
		}
		if len(quick)+len(e2e) == 0 {
			t.Errorf("promise %s of guarantees.md names no test", text[at[2]:at[3]])
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", text[at[2]:at[3]], unique(quick), unique(e2e))
	}
	return b.String()
}

func unique(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

var mainOfProcesses = regexp.MustCompile(`[^"]testrun\.Main\(`)

var bodyOfTest = regexp.MustCompile(`(?ms)^func ((?:Test|Fuzz)\w*)\(.*?^}`)

// processTests returns the packages with tests of processes only (testrun.Main),
// and "package Test" for each other test that make e2e runs alone.
func processTests(t *testing.T) map[string]bool {
	t.Helper()
	out, seen := map[string]bool{}, map[string]bool{}
	for _, in := range tests(t) {
		for _, pkg := range in {
			if !seen[pkg] {
				seen[pkg] = true
				markProcesses(t, pkg, out)
			}
		}
	}
	return out
}

func markProcesses(t *testing.T, pkg string, out map[string]bool) {
	t.Helper()
	for _, f := range glob(t, pkg+"/*_test.go") {
		source := read(t, f)
		out[pkg] = out[pkg] || mainOfProcesses.MatchString(source)
		for _, fn := range bodyOfTest.FindAllStringSubmatch(source, -1) {
			if strings.Contains(fn[0], "testrun.E2E(") {
				out[pkg+" "+fn[1]] = true
			}
		}
	}
}
