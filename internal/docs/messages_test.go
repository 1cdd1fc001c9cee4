package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is what the first cell of a table quotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// aMessage is a quotation that somebody says, and no name, path or command.
var aMessage = regexp.MustCompile(`^[a-z].* .*`)

// TestQuotedMessages: what the page of symptoms quotes is what the programs say,
// word for word: all of its parts between ellipses are in one file of the sources.
func TestQuotedMessages(t *testing.T) {
	sources := programs(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		row := cells(strings.TrimSpace(line))
		if len(row) == 0 {
			continue
		}
		for _, found := range quoted.FindAllStringSubmatch(row[0], -1) {
			if !aMessage.MatchString(found[1]) || strings.HasPrefix(found[1], "stout ") {
				continue
			}
			checked++
			if !said(sources, found[1]) {
				t.Errorf("docs/troubleshooting.md quotes %q, which no program says", found[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d messages were checked", checked)
	}
}

func said(sources []string, message string) bool {
	for _, source := range sources {
		all := true
		for part := range strings.SplitSeq(message, "…") {
			all = all && strings.Contains(source, strings.TrimSpace(part))
		}
		if all {
			return true
		}
	}
	return false
}

// programs are the sources of what users run, with strings that go on in the
// next line put together.
func programs(t *testing.T) (all []string) {
	t.Helper()
	goesOn := regexp.MustCompile(`" ?\+\s*"`)
	for _, top := range []string{"cmd", "client", "lockapi", "master", "replica", "internal/audit", "internal/dial", "internal/progress"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			all = append(all, goesOn.ReplaceAllString(string(source), ""))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
