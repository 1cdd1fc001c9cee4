package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// follows are the defaults that docs/settings.md has in words.
var follows = map[string]string{
	nameElection: "heartbeat-timeout", nameLease: "1.5 × heartbeat-timeout", nameAPIClientAuth: "optional with a CA, else none", nameStaleFor: "1m",
}

// TestSettingsNameEverySetting: docs/settings.md has each setting under its name, with
// its default.
func TestSettingsNameEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = strings.TrimSpace(row[2])
	}
	for _, s := range settings() {
		if !strings.Contains(string(page), "`"+s.name+"`") {
			t.Errorf("docs/settings.md does not name the setting `%s` (%s)", s.name, s.usage)
		}
		want := s.get(Default())
		if words, ok := follows[s.name]; ok {
			want = words
		}
		if got, alone := documented[s.name]; alone && got != want {
			t.Errorf("docs/settings.md has the default %q of `%s`, which is %q", got, s.name, want)
		}
	}
}
