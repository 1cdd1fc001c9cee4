package main

import (
	"testing"

	"github.com/stoutlock/stout/internal/docs"
)

// TestCommandsOfTheDocs: each call of stoutd in the documentation has an existing
// command, existing flags and a valid number of arguments.
func TestCommandsOfTheDocs(t *testing.T) {
	seen := 0
	err := docs.EachCall("../..", "stoutd", func(at string, words []string) {
		seen++
		cmd, rest, err := newRoot(nil).Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %q: %v", at, words, err)
		}
	})
	if err != nil || seen < 5 {
		t.Errorf("%d calls were found: %v", seen, err)
	}
}
