package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = "../.."

// page is one document, with its path relative to the root.
type page struct {
	name string
	text string
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	must(t, err)
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
}

// glob returns the files of the repository that match a pattern.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(root), pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return names
}

// sources calls visit with each Go file below some folders, tests left out.
func sources(t *testing.T, visit func(name string), tops ...string) {
	t.Helper()
	for _, top := range tops {
		err := fs.WalkDir(os.DirFS(root), top, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				visit(name)
			}
			return err
		})
		must(t, err)
	}
}

func pages(t *testing.T) []page {
	t.Helper()
	names, err := Pages(root)
	must(t, err)
	var all []page
	for _, name := range names {
		all = append(all, page{name, read(t, name)})
	}
	if len(all) < 5 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

// TestLinesAreShort: prose is wrapped at 100 columns. Tables, code and longer words
// are exempt.
func TestLinesAreShort(t *testing.T) {
	const columns = 100
	for _, p := range pages(t) {
		code := false
		for i, line := range strings.Split(p.text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			one := !strings.Contains(strings.TrimSpace(line), " ")
			if utf8.RuneCountInString(line) > columns && !code && !one && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns; wrap it at %d", p.name, i+1, utf8.RuneCountInString(line), columns)
			}
		}
	}
}

// TestCellsAreShort: a long cell of a table is a paragraph that lost its place.
func TestCellsAreShort(t *testing.T) {
	const limit = 200
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			for _, cell := range cells(line) {
				if n := utf8.RuneCountInString(cell); n >= limit {
					t.Errorf("%s:%d has a cell of %d characters; keep it below %d: %s", p.name, i+1, n, limit, cell)
				}
			}
		}
	}
}

// cells returns the cells of a line of a table, and nothing of any other line.
func cells(line string) []string {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	const bar = "\x00" // an escaped bar is part of its cell
	line = strings.ReplaceAll(strings.Trim(line, "| "), `\|`, bar)
	var all []string
	for cell := range strings.SplitSeq(line, "|") {
		all = append(all, strings.ReplaceAll(strings.TrimSpace(cell), bar, "|"))
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// TestLinksLead: links of pages within the repository have a target.
func TestLinksLead(t *testing.T) {
	for _, p := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(p.name), found[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", p.name, found[1])
			}
		}
	}
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
)

// TestNamedTestsAreThere: the tests that pages name exist. A pattern after -run may be
// the beginning of a name.
func TestNamedTestsAreThere(t *testing.T) {
	there := tests(t)
	for _, p := range pages(t) {
		for _, line := range strings.Split(p.text, "\n") {
			for _, name := range testName.FindAllString(line, -1) {
				if there[name] == nil && !(strings.Contains(line, "-run") && begins(there, name)) {
					t.Errorf("%s names %s, but no such test exists", p.name, name)
				}
			}
		}
	}
}

// testsOf matches a package and the tests after it: `lease` TestA, TestB.
var testsOf = regexp.MustCompile("`([a-z0-9/]+)`((?:,? (?:Test|Fuzz)[A-Z][\\w/]*)+)")

// TestNamedTestsAreInTheirPackage: a package before names of tests has these tests, so
// that a reader can run them.
func TestNamedTestsAreInTheirPackage(t *testing.T) {
	there := tests(t)
	for _, p := range pages(t) {
		text := strings.Join(strings.Fields(p.text), " ")
		for _, found := range testsOf.FindAllStringSubmatch(text, -1) {
			for _, name := range testName.FindAllString(found[2], -1) {
				if at := there[name]; at != nil && !slices.Contains(at, found[1]) {
					t.Errorf("%s has %s in `%s`; it is in %v", p.name, name, found[1], at)
				}
			}
		}
	}
}

// tests returns, for each test of this repository, the packages that have one
// of that name, as paths from the root.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	there := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != "." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(name)
		in, _ := filepath.Rel(root, filepath.Dir(name))
		for _, found := range testFunc.FindAllStringSubmatch(string(source), -1) {
			there[found[1]] = append(there[found[1]], filepath.ToSlash(in))
		}
		return err
	})
	must(t, err)
	return there
}

// begins reports whether one of the names has the given prefix.
func begins(names map[string][]string, with string) bool {
	for name := range names {
		if strings.HasPrefix(name, with) {
			return true
		}
	}
	return false
}

var (
	makeCall   = regexp.MustCompile(`\bmake ([a-z]+)\b(?:[^a-z]|$)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// TestWordsAreExplained: the glossary has each of Stout's own words that the tutorial
// introduces, once.
func TestWordsAreExplained(t *testing.T) {
	there := map[string]int{}
	for line := range strings.Lines(read(t, "docs/glossary.md")) {
		if row := cells(strings.TrimSpace(line)); len(row) == 3 {
			there[row[0]]++
		}
	}
	words := regexp.MustCompile(`\*\*(\w+)\*\*`).FindAllStringSubmatch(read(t, "docs/tutorial.md"), -1)
	if len(words) < 5 {
		t.Errorf("the tutorial introduces only %q", words)
	}
	for _, found := range words {
		if there[found[1]] == 0 && found[1] != "held" { // a form of hold
			t.Errorf("docs/tutorial.md introduces %q, which docs/glossary.md does not explain", found[1])
		}
	}
	for word, times := range there {
		if times > 1 && word != "word" && !strings.HasPrefix(word, "---") {
			t.Errorf("docs/glossary.md explains %q %d times", word, times)
		}
	}
}

// TestMakeTargetsAreThere: the Makefile has each target that the pages name.
func TestMakeTargetsAreThere(t *testing.T) {
	makefile := read(t, "Makefile")
	there := map[string]bool{}
	for _, found := range makeTarget.FindAllStringSubmatch(makefile, -1) {
		there[found[1]] = true
	}
	quoted := regexp.MustCompile("(?m)`[^`\n]*`|^make .*$")
	for _, p := range pages(t) {
		for _, command := range quoted.FindAllString(p.text, -1) {
			for _, found := range makeCall.FindAllStringSubmatch(command, -1) {
				if !there[found[1]] {
					t.Errorf("%s shows %s, and the Makefile has no target %s", p.name, command, found[1])
				}
			}
		}
	}
}
