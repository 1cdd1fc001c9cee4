package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestScenariosAreListed: docs/writing-a-client.md names each scenario of the
// conformance suite under the rule that it tests, and no other.
func TestScenariosAreListed(t *testing.T) {
	page := read(t, "docs/writing-a-client.md")
	_, rules, found := strings.Cut(page, "\n## The rules\n")
	rules, _, ended := strings.Cut(rules, "\n## ")
	if !found || !ended {
		t.Fatal("docs/writing-a-client.md has no section The rules, or none after it")
	}
	var listed, there []string
	for _, line := range regexp.MustCompile("(?m)^    - `.*$").FindAllString(rules, -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(line, -1) {
			listed = append(listed, name[1])
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\t\{"([a-z-]+)", \w+\},$`).FindAllStringSubmatch(read(t, "test/conformance/suite_test.go"), -1) {
		there = append(there, row[1])
	}
	if len(there) < 20 {
		t.Fatalf("only %d scenarios were found", len(there))
	}
	for _, name := range there {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/writing-a-client.md does not name the scenario %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(there, name) {
			t.Errorf("docs/writing-a-client.md names %s, which is not a scenario of test/conformance", name)
		}
	}
	for _, rule := range regexp.MustCompile(`(?m)^\d+\. `).Split(rules, -1)[1:] {
		if !strings.Contains(rule, "\n    - `") {
			t.Errorf("a rule of docs/writing-a-client.md has no scenario: %.60s", rule)
		}
	}
}
