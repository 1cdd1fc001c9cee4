package cli

import (
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
