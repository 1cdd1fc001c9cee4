package config

import (
	"os"
	"strings"
	"testing"
)

// TestSettingsNameEverySetting: an operator finds each setting, under its
// very name, on one page.
func TestSettingsNameEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		if !strings.Contains(string(page), "`"+s.name+"`") {
			t.Errorf("docs/settings.md does not name the setting `%s` (%s)", s.name, s.usage)
		}
	}
}
