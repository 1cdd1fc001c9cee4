package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"data-dir", "master-lease", "max-holds", "max-session-holds", "heartbeat-timeout", "id", "cell", "replica", "config", "version"}
	for _, test := range []struct{ word, want string }{
		{"datadir", "data-dir"},
		{"DATA_DIR", "data-dir"},
		{"master-laese", "master-lease"},
		{"lease", "master-lease"},
		{"max", ""}, // ambiguous
		{"heartbeat", "heartbeat-timeout"},
		{"hearbeat-timeuot", "heartbeat-timeout"},
		{"max-session-hold", "max-session-holds"},
		{"max-hold", "max-holds"},
		{"replicas", "replica"},
		{"verson", "version"},
		{"conf", "config"},
		{"leas", "master-lease"},
		{"co", ""},
		{"x", ""},
		{"", ""},
		{"serve", ""},
		{"ic", "id"},
		{"cell", "cell"},
		{strings.Repeat("data-dir", 100_000), ""},
	} {
		if got := Nearest(test.word, known); got != test.want {
			t.Errorf("Nearest(%.40q) = %q, want %q", test.word, got, test.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
