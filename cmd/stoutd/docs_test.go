package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlocks = regexp.MustCompile("(?s)```sh\n(.*?)```")
	shellWords  = regexp.MustCompile(`'[^']*'|"[^"]*"|\$\([^)]*\)`) // each counts as one word
	shellEnds   = regexp.MustCompile(`\s(#|\||>|<|&|;).*`)
)

// TestCommandsOfTheDocs: each call of stoutd in the documentation has an existing
// command, existing flags and a valid number of arguments.
func TestCommandsOfTheDocs(t *testing.T) {
	const top = "../.."
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlocks.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				line = shellEnds.ReplaceAllString(shellWords.ReplaceAllString(strings.TrimSpace(line), "word"), "")
				words := strings.Fields(strings.TrimSuffix(line, " …"))
				if len(words) == 0 || words[0] != "stoutd" {
					continue
				}
				seen++
				cmd, rest, err := newRoot(nil).Find(words[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d calls were found", seen)
	}
}
