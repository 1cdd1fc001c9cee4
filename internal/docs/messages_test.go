package docs

import (
	"regexp"
	"strings"
	"testing"
)

// aMessage matches a quoted message, in contrast to a name, path or command.
var aMessage = regexp.MustCompile(`^[a-z].* .*`)

// TestQuotedMessages: the programs print the messages that troubleshooting.md quotes,
// word for word. All parts of a message between ellipses are in one source file.
func TestQuotedMessages(t *testing.T) {
	printing := programs(t)
	text := read(t, "docs/troubleshooting.md")
	checked := 0
	for line := range strings.Lines(text) {
		row := cells(strings.TrimSpace(line))
		if len(row) == 0 {
			continue
		}
		for _, found := range quotedSpan.FindAllStringSubmatch(row[0], -1) {
			if !aMessage.MatchString(found[1]) || strings.HasPrefix(found[1], "stout ") {
				continue
			}
			checked++
			if !printed(printing, found[1]) {
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
	sources(t, func(name string) { all = append(all, joint.ReplaceAllString(read(t, name), "")) },
		"cmd", "client", "lockapi", "master", "replica", "internal/audit", "internal/dial", "internal/progress")
	return all
}
