package imports

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the picture of docs/design.md anew")

// TestPicture: docs/design.md shows the arrows as they are.
func TestPicture(t *testing.T) {
	const (
		page  = "../../docs/design.md"
		begin = "<!-- arrows: go test ./internal/imports -run TestPicture -update -->\n"
		end   = "<!-- end of arrows -->\n"
	)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", page, begin, end)
	}
	want := picture()
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if shown != want {
		t.Errorf("%s is out of date: go test ./internal/imports -run TestPicture -update", page)
	}
}

// picture draws each row of arrows, and a table of those that run up.
func picture() string {
	const columns = 100
	var b strings.Builder
	b.WriteString("```text\n")
	for _, a := range arrows {
		line := fmt.Sprintf("%-28s →", strings.TrimSuffix(a.from, "/..."))
		if len(a.to) == 0 {
			line = a.from
		}
		for _, name := range short(a) {
			if utf8.RuneCountInString(line+" "+name) > columns {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", 30)
			}
			line += " " + name
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("```\n\nArrows that run up:\n\n| from | to | why |\n| --- | --- | --- |\n")
	for _, u := range ups {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", u.from, u.to, u.why)
	}
	return b.String()
}

// short returns the names that a row imports, without its own; helpers are
// internal.
func short(a arrow) []string {
	var names []string
	for _, to := range a.to {
		if strings.HasPrefix(to, "internal/") && to != "internal/memlog" {
			to = "internal"
		}
		if to = strings.TrimSuffix(to, "/..."); to+"/..." != a.from && !slices.Contains(names, to) {
			names = append(names, to)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return room(a) - room(b) })
	return names
}

// room returns the number of the top folder of a path.
func room(path string) int {
	top, _, _ := strings.Cut(path, "/")
	return slices.Index(rooms, top)
}
