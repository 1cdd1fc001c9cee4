package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/settings.md")

const settingsPage = "../../../docs/settings.md"

// TestSettingsPage: docs/settings.md has the tables made from the rows.
func TestSettingsPage(t *testing.T) {
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, quotas := range []bool{false, true} {
		table := regexp.MustCompile(`(?s)\| setting \|[^\n]*\n(\|[^\n]*\n)+`).FindAllStringIndex(text, -1)
		if len(table) != 2 {
			t.Fatalf("docs/settings.md has %d tables of settings, want 2", len(table))
		}
		at := table[0]
		if quotas {
			at = table[1]
		}
		text = text[:at[0]] + settingsTable(quotas) + text[at[1]:]
	}
	switch {
	case text == string(page):
	case *update:
		if err := os.WriteFile(settingsPage, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/settings.md differs from the rows; write its tables with: go test ./cmd/stoutd/config -run TestSettingsPage -update")
	}
}

// settingsTable returns the table of the quotas, or that of all other settings.
func settingsTable(quotas bool) string {
	var b strings.Builder
	b.WriteString("| setting | default | bounds | meaning |\n| --- | --- | --- | --- |\n")
	names := map[string]bool{}
	rows := settings(Default())
	for _, s := range rows {
		names[s.name] = true
	}
	marked := func(text string) string {
		return regexp.MustCompile(`[a-z]+(-[a-z]+)+|--[a-z]+`).ReplaceAllStringFunc(text, func(word string) string {
			if names[strings.TrimPrefix(word, "--")] {
				return "`" + word + "`"
			}
			return word
		})
	}
	for _, s := range rows {
		if (strings.HasPrefix(s.name, "max-") && s.zero == noBound) != quotas {
			continue
		}
		def, meaning := s.get(), marked(s.help)
		if s.unset != "" {
			def = marked(s.unset)
		}
		if s.see != "" {
			page, anchor, _ := strings.Cut(s.see, "#")
			if page == "" {
				page = strings.ToUpper(anchor[:1]) + strings.ReplaceAll(anchor[1:], "-", " ")
			}
			meaning += fmt.Sprintf(": see [%s](%s)", page, s.see)
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", s.name, def, s.bounds(), meaning)
		b.WriteString(strings.ReplaceAll(row, "|  |", "| |"))
	}
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}

// bounds returns the bounds as docs/settings.md shows them.
func (s setting) bounds() string {
	var all []string
	switch {
	case s.least.at != "" && s.most.at != "":
		all = append(all, s.least.at+" to "+s.most.at)
	case s.least.at != "":
		all = append(all, "at least "+s.least.at)
	case s.most.at != "":
		all = append(all, "at most "+s.most.at)
	case s.oneOf != nil:
		all = append(all, "`"+strings.Join(s.oneOf, "`, `")+"`")
	}
	if s.zero != "" {
		all = append(all, "0 for "+s.zero)
	}
	return strings.Join(all, "; ")
}
