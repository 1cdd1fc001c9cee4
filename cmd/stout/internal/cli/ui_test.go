package cli

import (
	"strings"
	"testing"
	"time"
)

func TestHuman(t *testing.T) {
	tests := map[time.Duration]string{
		0:                         "0ms",
		999 * time.Microsecond:    "0ms",
		120 * time.Millisecond:    "120ms",
		time.Second:               "1s",
		1299 * time.Millisecond:   "1.2s",
		9999 * time.Millisecond:   "9.9s",
		59 * time.Second:          "59s",
		time.Minute:               "1m00s",
		200 * time.Second:         "3m20s",
		time.Hour + 5*time.Minute: "1h05m",
		51 * time.Hour:            "2d3h",
		-1500 * time.Millisecond:  "-1.5s",
	}
	for d, want := range tests {
		if got := human(d); got != want {
			t.Errorf("human(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	tests := map[string]string{
		"":                    "-",
		"billing@host7":       "billing@host7",
		"größe \"x\"":         "größe \"x\"",
		"red \x1b[31m":        `red \x1b[31m`,
		"two\nlines":          `two\nlines`,
		"bad \xff":            `bad \xff`,
		"turned \u202e round": `turned \u202e round`,
	}
	for in, want := range tests {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		head, text string
		want       string
	}{
		{"r1  ", "does not answer", "r1  does|  not|  answer"},
		{"r1  ", "a b c d", "r1  a b c|  d"},
		{"", "a wordofmorethanten b", "a|  wordofmorethanten|  b"},
		{"x ", "", "x "},
	} {
		if got := strings.Join(wrap(tt.head, tt.text, 10, 2), "|"); got != tt.want {
			t.Errorf("wrap(%q, %q) is %q, want %q", tt.head, tt.text, got, tt.want)
		}
	}
}

func TestFit(t *testing.T) {
	columns := []column{left("ID"), left("PROMISE").sparing(2), right("CONTACT").sparing(1), left("ADDRESS")}
	rows := [][]string{{"r1", "r2 1.8s", "12ms", "127.0.0.1:7101"}}
	for width, want := range map[int]string{
		80: "ID PROMISE CONTACT ADDRESS", 36: "ID PROMISE CONTACT ADDRESS", 35: "ID CONTACT ADDRESS",
		27: "ID CONTACT ADDRESS", 26: "ID ADDRESS", 5: "ID ADDRESS",
	} {
		got, cells := fit(columns, rows, width)
		var titles []string
		for _, c := range got {
			titles = append(titles, c.title)
		}
		if strings.Join(titles, " ") != want || len(cells[0]) != len(got) || cells[0][len(got)-1] != "127.0.0.1:7101" {
			t.Errorf("%d columns: %q, %q; want %q", width, titles, cells, want)
		}
	}
	if len(rows[0]) != 4 || columns[1].title != "PROMISE" {
		t.Error("the table itself was changed")
	}
}
