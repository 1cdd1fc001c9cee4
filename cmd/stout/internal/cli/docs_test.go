package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
)

var (
	shellBlocks = regexp.MustCompile("(?s)```sh\n(.*?)```")
	shellWords  = regexp.MustCompile(`'[^']*'|"[^"]*"|\$\([^)]*\)`) // taken for one word each
	variables   = regexp.MustCompile(`\$\w+`)                       // taken for numbers
	shellEnds   = regexp.MustCompile(`\s(#|\||>|<|&|;).*`)
)

// TestCommandsOfTheDocs: each call of stout in a block of the documentation is one that
// there is, with flags that it has and as many arguments as it takes.
func TestCommandsOfTheDocs(t *testing.T) {
	const top = "../../../.."
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
				words := strings.Fields(strings.TrimSuffix(variables.ReplaceAllString(line, "1"), " …"))
				if len(words) == 0 || words[0] != "stout" {
					continue
				}
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
					t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d calls were found", seen)
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
