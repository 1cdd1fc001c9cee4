package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCounterpartsAreRun: each call in a table of docs/from-*.md, by HTTP, in Go and
// with stout, is in a block of that page that test/docs runs.
func TestCounterpartsAreRun(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/from-") {
			continue
		}
		checked++
		blocks, err := parse(p.name, p.text)
		must(t, err)
		var shell, source string
		for _, b := range blocks {
			switch {
			case b.Run && b.Lang == "sh":
				shell += b.Text
			case b.Run && b.Lang == "go":
				source += b.Text
			}
		}
		calls := counterparts(p.text)
		for _, call := range calls {
			if !call.isRun(shell, source) {
				t.Errorf("%s has %q, which no block that is run has", p.name, call.text)
			}
		}
		if len(calls) < 40 {
			t.Errorf("%s: only %d calls were found", p.name, len(calls))
		}
	}
	if checked < 4 {
		t.Errorf("only %d pages were checked", checked)
	}
}

func TestCounterpartIsRun(t *testing.T) {
	const shell = "id=$(curl -s -d '{}' $api/sessions | sed 1)\ncurl -s -X PUT -d 1 $api/files/a/b\ncurl -s \"$api/events?after=1\"\nstout lock /a --try -- true\n"
	for _, c := range []struct {
		column, text string
		want         bool
	}{
		{"HTTP", "POST /v1/sessions", true},
		{"HTTP", "GET /v1/sessions", false},
		{"HTTP", "PUT /v1/files/{path}", true},
		{"HTTP", "PUT /v1/files/{path}?ephemeral=true", false},
		{"HTTP", "PUT /v1/locks/{path}", false},
		{"HTTP", "GET /v1/events?after=", true},
		{"Go", "cell.Get", true},
		{"Go", "cell.Put", false},
		{"`stout`", "stout lock --try", true},
		{"`stout`", "stout lock --shared", false},
	} {
		if got := (counterpart{c.column, c.text}).isRun(shell, "cell.Get(ctx)"); got != c.want {
			t.Errorf("%s %s: %v", c.column, c.text, got)
		}
	}
}

// counterpart is a call in a cell of the table, between backquotes.
type counterpart struct {
	column string // HTTP, Go or `stout`
	text   string
}

// counterparts reads the table with columns for HTTP, Go and stout.
func counterparts(text string) (all []counterpart) {
	var columns []string
	for line := range strings.Lines(text) {
		row := cells(strings.TrimSpace(line))
		switch {
		case row == nil:
			columns = nil
		case slices.Contains(row, "HTTP") && slices.Contains(row, "`stout`"):
			columns = row
		case len(row) == len(columns):
			for i, cell := range row[1:] {
				for _, span := range quotedSpan.FindAllStringSubmatch(cell, -1) {
					all = append(all, counterpart{columns[i+1], span[1]})
				}
			}
		}
	}
	return all
}

var (
	quotedSpan = regexp.MustCompile("`([^`]+)`")
	httpCall   = regexp.MustCompile(`^(GET|PUT|POST|DELETE) /v1(/[^? ]*)\??(.*)$`)
	method     = regexp.MustCompile(`curl .*-X (\w+)`)
)

// isRun reports whether the shell commands, or the Go source, have the call.
func (c counterpart) isRun(shell, source string) bool {
	switch c.column {
	case "HTTP":
		call := httpCall.FindStringSubmatch(c.text)
		if call == nil { // a header, or a field of a body
			return strings.Contains(shell, c.text)
		}
		at := regexp.MustCompile(regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(call[2]), `[^ "?]+`) + `["? \n)]`)
		for line := range strings.Lines(shell) {
			made := "GET"
			if found := method.FindStringSubmatch(line); found != nil {
				made = found[1]
			} else if strings.Contains(line, " -d ") {
				made = "POST"
			}
			if strings.Contains(line, "curl ") && made == call[1] && at.MatchString(line) && hasParameters(line, call[3]) {
				return true
			}
		}
		return false
	case "Go":
		return strings.Contains(source, c.text+"(") || strings.Contains(source, c.text+"[")
	default:
		words := strings.Fields(c.text)
		for line := range strings.Lines(shell) {
			if i := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(line, w) }); i < 0 {
				return true
			}
		}
		return false
	}
}

// hasParameters reports whether a line has each parameter of a query.
func hasParameters(line, query string) bool {
	for parameter := range strings.SplitSeq(query, "&") {
		if !strings.Contains(line, parameter) {
			return false
		}
	}
	return true
}
