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
		if err != nil {
			t.Fatal(err)
		}
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
