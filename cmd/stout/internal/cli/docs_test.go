package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/docs"
)

// TestCommandsOfTheDocs: each call of stout in the documentation has an existing
// command, existing flags and a valid number of arguments.
func TestCommandsOfTheDocs(t *testing.T) {
	seen := 0
	err := docs.EachCall("../../../..", "stout", func(at string, words []string) {
		seen++
		a := new(app.App)
		cmd, rest, err := app.Root(a, commands(a)).Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.Runnable() || len(cmd.Commands()) > 0 {
			t.Errorf("%s: %q: %v", at, words, err)
		}
	})
	if err != nil || seen < 15 {
		t.Errorf("%d calls were found: %v", seen, err)
	}
}

// The help of every command fits into 80 columns, and speaks of durations as
// such.
func TestHelp(t *testing.T) {
	a := new(app.App)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		help := cmd.Long + "\n" + cmd.UsageString()
		for line := range strings.Lines(help) {
			if width := len([]rune(strings.TrimRight(line, "\n"))); width > ui.PageWidth {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), width, line)
			}
			if strings.HasPrefix(strings.TrimSpace(line), "--") && (strings.Contains(line, " long ") || strings.Contains(line, " much ")) {
				t.Errorf("%s: what is it? %s", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(app.Root(a, commands(a)))
}
