package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The help of every command fits into 80 columns, and speaks of durations as
// such.
func TestHelp(t *testing.T) {
	a := new(app)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		help := cmd.Long + "\n" + cmd.UsageString()
		for line := range strings.Lines(help) {
			if width := len([]rune(strings.TrimRight(line, "\n"))); width > pageWidth {
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
	walk(a.root())
}
