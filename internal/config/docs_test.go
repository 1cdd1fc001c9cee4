package config

import (
	"os"
	"strings"
	"testing"
)

// TestOperationsNameEverySetting: an operator finds each setting, under its
// very name, on one page.
func TestOperationsNameEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		if !strings.Contains(string(page), "`"+s.name+"`") {
			t.Errorf("docs/operations.md does not name the setting `%s` (%s)", s.name, s.usage)
		}
	}
}
