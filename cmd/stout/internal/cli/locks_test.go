package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Holders that the cell counts but does not show count here as well.
func TestHoldersThatAreNotShown(t *testing.T) {
	var out bytes.Buffer
	a := &app{ui: &ui{out: paint(&out, termenv.Ascii)}}
	l := lockapi.Lock{Path: "/a", State: lockapi.StateHeld, Mode: lockapi.Shared, Limit: 5000, Holders: make([]lockapi.Holder, 12), MoreHolders: 1000}
	if mode := a.lockRows([]lockapi.Lock{l})[0][2]; mode != "shared 1012/5000" {
		t.Errorf("mode %q", mode)
	}
	if got := inTheWay("/a", l.Holders[:1], 0, 0); strings.Contains(got, "1 holder") {
		t.Errorf("one holder goes by its name: %q", got)
	}
	for more, want := range map[int]string{0: "/a has 12 holders", 1000: "/a has 1012 holders"} {
		if got := inTheWay("/a", l.Holders, more, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a.showHolders(l)
	if got := out.String(); strings.Count(got, "is held by") != mostHolders || !strings.HasSuffix(got, "and 1002 holders more\n") {
		t.Errorf("%s", got)
	}
}

// Each of these words has a special meaning for some shell, or counts as
// several words.
func TestIsLiteral(t *testing.T) {
	for _, word := range []string{
		"", "-rf", "~root", "@splat", "+x", ".",
		"/a`id`", "/a$(id)", "/a${IFS}b", "/a$b", "/a;id", "/a&id", "/a|id", "/a>b", "/a<b", "/a(b)",
		"/a b", "/a\tb", "/a\nb", "/a\\b", "/a'b", `/a"b`, "/a*", "/a?", "/a[b]", "/a{b,c}", "/a,b",
		"/a!b", "/a#b", "/a^b", "/a=b", "/a:b", "/a%b", "/a~b",
		"/gr\u00f6\u00dfe", "/a\u00a0b", "/a\u2019b", "/a\u202eb", "/a\xff",
	} {
		if format.IsLiteral(word) {
			t.Errorf("%q is offered", word)
		}
		if got := offer(nil, word, ""); got != nil {
			t.Errorf("offered %q", got)
		}
	}
	for _, word := range []string{"/", "/jobs/nightly", "/db-1/a_b.c/42", "/mail/me@host7+tag", "session-1", "r1"} {
		if !format.IsLiteral(word) {
			t.Errorf("%q is not offered", word)
		}
	}
}

func TestLiteralText(t *testing.T) {
	const in, want = "`id`: $(id), \u00f6 \x1b[0m\nme@host-7", "?id?? ??id?? ? ??0m?me@host-7"
	if got := format.LiteralText(in); got != want {
		t.Errorf("format.LiteralText(%q) = %q, want %q", in, got, want)
	}
}
