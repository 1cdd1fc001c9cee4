package lockapi_test

import (
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

func TestParseSequencer(t *testing.T) {
	for value, want := range map[string]lockapi.Sequencer{
		"exclusive:42:/db/migrate":    {Mode: lockapi.Exclusive, Token: 42, Path: "/db/migrate"},
		"shared:1:/a:b:c":             {Mode: lockapi.Shared, Token: 1, Path: "/a:b:c"},
		"shared:9007199254740991:/é ": {Mode: lockapi.Shared, Token: lockapi.MaxToken, Path: "/é "},
	} {
		got, err := lockapi.ParseSequencer(value)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
		if got.String() != value {
			t.Errorf("%q is written as %q", value, got.String())
		}
	}
	for _, bad := range []string{
		"", ":", "::", "exclusive", "exclusive:42", "exclusive:42:", "exclusive:42:a", "exclusive:42:/", "exclusive:42:/a/", "exclusive:42:/..",
		"exclusive::/a", "exclusive:0:/a", "exclusive:-1:/a", "exclusive:+1:/a", "exclusive:01:/a", "exclusive: 1:/a", "exclusive:1.0:/a",
		"exclusive:9007199254740992:/a", "exclusive:99999999999999999999:/a", "Exclusive:1:/a", "free:1:/a", ":1:/a", "exclusive:1:/\xff",
		"exclusive:1:/a\n", strings.Repeat("x", 5000), "exclusive:" + strings.Repeat("1", 5000) + ":/a", "exclusive:1:/" + strings.Repeat("x", 5000),
	} {
		_, err := lockapi.ParseSequencer(bad)
		wantInvalid(t, bad, err, "value")
	}
}

// ParseSequencer accepts exactly the output of String for valid sequencers.
func FuzzParseSequencer(f *testing.F) {
	for _, seed := range []string{"exclusive:42:/db/migrate", "shared:1:/a:b", "exclusive:042:/a", "shared:9007199254740992:/a", "::", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		s, err := lockapi.ParseSequencer(value)
		if err != nil {
			wantInvalid(t, value, err, "value")
			return
		}
		if s.String() != value {
			t.Errorf("%q is written as %q", value, s.String())
		}
		if !s.Mode.Valid() || s.Token == 0 || s.Token > lockapi.MaxToken || lockapi.ValidatePath(s.Path) != nil {
			t.Errorf("%q gives %+v", value, s)
		}
	})
}
