package format

import "testing"

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
		if IsLiteral(word) {
			t.Errorf("%q is offered", word)
		}
	}
	for _, word := range []string{"/", "/jobs/nightly", "/db-1/a_b.c/42", "/mail/me@host7+tag", "session-1", "r1"} {
		if !IsLiteral(word) {
			t.Errorf("%q is not offered", word)
		}
	}
}

func TestLiteralText(t *testing.T) {
	const in, want = "`id`: $(id), \u00f6 \x1b[0m\nme@host-7", "?id?? ??id?? ? ??0m?me@host-7"
	if got := LiteralText(in); got != want {
		t.Errorf("LiteralText(%q) = %q, want %q", in, got, want)
	}
}
