package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted matches quotations in the first cell of a table.
var quoted = regexp.MustCompile("`([^`]+)`")

// aMessage matches a quoted message, in contrast to a name, path or command.
var aMessage = regexp.MustCompile(`^[a-z].* .*`)

// TestQuotedMessages: the programs print the messages that troubleshooting.md quotes,
// word for word. All parts of a message between ellipses are in one source file.
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
			if !printed(sources, found[1]) {
				t.Errorf("docs/troubleshooting.md quotes %q, which no program prints", found[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d messages were checked", checked)
	}
}

// printed reports whether one of the sources has all parts of a message.
func printed(sources []string, message string) bool {
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

// programs returns the source files of the programs and the client, with strings
// joined that continue on the next line.
func programs(t *testing.T) (all []string) {
	t.Helper()
	joint := regexp.MustCompile(`" ?\+\s*"`)
	for _, top := range []string{"cmd", "client", "lockapi", "master", "replica", "internal/audit", "internal/dial", "internal/progress"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			all = append(all, joint.ReplaceAllString(string(source), ""))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
