package lockapi_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// Quotes in an error are short and never cut a character in two.
func TestErrorsAreBounded(t *testing.T) {
	for name, character := range map[string]string{"ascii": "x", "two bytes": "é", "three": "語", "four": "😀"} {
		for offset := range 4 {
			long := strings.Repeat("-", offset) + strings.Repeat(character, 60_000/len(character))
			for what, got := range map[string]struct {
				text string
				most int
			}{
				"clip":   {lockapi.Clip(long), 80},
				"detail": {lockapi.Errorf(lockapi.CodeConflict, "%s", long).Detail, lockapi.MaxDetailBytes},
				"field":  {lockapi.Invalid(long, "x").Field, 80},
				"blamed": {lockapi.Invalid("x", "%s", long).Detail, lockapi.MaxDetailBytes},
			} {
				kept, whole := strings.CutSuffix(got.text, "…")
				if !whole || !utf8.ValidString(kept) || !strings.HasPrefix(long, kept) || len(kept) > got.most || len(kept) <= got.most-len(character) {
					t.Errorf("%s, %d, %s: %d bytes are kept of at most %d: %q", name, offset, what, len(kept), got.most, lockapi.Clip(got.text))
				}
			}
		}
	}
	for _, short := range []string{"", "s", strings.Repeat("x", 80), "\xff\xfe"} {
		if got := lockapi.Clip(short); got != short {
			t.Errorf("%q is clipped to %q", short, got)
		}
	}
	garbage := strings.Repeat("\x80", 100)
	if got := lockapi.Clip(garbage); len(got) > 83 {
		t.Errorf("garbage is clipped to %d bytes", len(got))
	}
}
