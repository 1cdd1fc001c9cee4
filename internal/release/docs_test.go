package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the pages for operators, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) < 5 {
		t.Fatalf("%q, %v", names, err)
	}
	all := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		all[filepath.Base(name)] = string(text)
	}
	return all
}

// TestDocsDirectoriesMayBeMissing: systemd does not start a service with a missing
// directory in ReadWritePaths, unless its name has a "-" before it.
func TestDocsDirectoriesMayBeMissing(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		for _, is := range regexp.MustCompile("ReadWritePaths=[^\\s`]*").FindAllString(text, -1) {
			if n++; !strings.HasPrefix(is, "ReadWritePaths=-/") {
				t.Errorf("%s: the replica does not start without the directory of %s", name, is)
			}
		}
	}
	if n == 0 {
		t.Error("no page has ReadWritePaths")
	}
}

// TestDocsUpgradesKeepValues: without -f or --reuse-values, "helm upgrade --set" resets the
// other values of the installation to the chart's.
func TestDocsUpgradesKeepValues(t *testing.T) {
	all := pages(t)
	all["NOTES.txt"] = rendered(t, renderings["defaults"]).notes
	for _, name := range []string{"operations.md", "NOTES.txt"} {
		commands := regexp.MustCompile(`(?m)helm -n \S+ (?:upgrade|install) .*`).FindAllString(all[name], -1)
		if len(commands) == 0 {
			t.Errorf("%s shows no upgrade", name)
		}
		for _, c := range commands {
			if !strings.Contains(c, " -f ") && !strings.Contains(c, " --reuse-values ") {
				t.Errorf("%s: the values of the installation are lost by %q", name, c)
			}
		}
	}
}
