package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// bashCompletion is where systems that have bash's completion functions keep
// them.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// standIn is the one function of bash-completion that stout's script needs, for
// systems that do not have it. Words are cut at blanks only, as with -n =:.
const standIn = `_get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}
}
`

// inBash types keys into an interactive bash that completes stout's command
// line, as in ~/.bashrc, and returns what the terminal showed. It runs in dir.
func inBash(t *testing.T, c *testCell, dir, keys string) string {
	t.Helper()
	testrun.E2E(t) // it takes bash
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	rc := standIn
	if functions, err := os.ReadFile(bashCompletion); err == nil {
		rc = string(functions)
	}
	rc += "PS1='$ '; bind 'set bell-style none'; source <(stout completion bash)\n"
	rcFile := filepath.Join(t.TempDir(), "bashrc")
	if err := os.WriteFile(rcFile, []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "--noprofile", "--rcfile", rcFile, "-i")
	cmd.Dir = dir
	tt := startOnTerminal(t, c, 60, cmd, "TERM=dumb", "HISTFILE=", "INPUTRC=/dev/null")
	tt.until("$ ")
	tt.press(keys + "\x01\x0bexit\n")
	return tt.wait()
}

// The Tab key never runs text from names: neither by its insertion nor at the
// next Tab, when the shell evaluates the line.
func TestBashCompletionRunsNothing(t *testing.T) {
	for name, words := range map[string][2]string{
		"backticks":     {"/x`touch ran`/a", "/x`touch ran`/b"},
		"substitution":  {"/x$(touch ran)/a", "/x$(touch ran)/b"},
		"operator":      {"/x;touch ran;a", "/x;touch ran;b"},
		"a single one":  {"/x`touch ran`/a", "/other"},
		"beside colons": {"/x:`touch ran`/a", "/x:`touch ran`/b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCell(t)
			for _, word := range words {
				c.seize(t, word, word)
			}
			dir := t.TempDir()
			shown := inBash(t, c, dir,
				"stout locks /x\t\t\t\x01\x0bstout session show \t\t\t\x01\x0bstout release /\t\t --session \t\t\t")
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Errorf("a Tab ran a command; the terminal showed:\n%s", shown)
			}
		})
	}
}

// Plain words are completed: first the common prefix, then the rest.
func TestBashCompletion(t *testing.T) {
	c := startCell(t)
	for i, path := range []string{"/jobs/nightly", "/jobs/nightmare", "/jobs/`x`"} {
		c.seize(t, fmt.Sprint("s", i), path)
	}
	shown := inBash(t, c, t.TempDir(), "stout locks /j\tl\t| tr a-z A-Z\n")
	if !strings.Contains(shown, "\n/JOBS/NIGHTLY ") {
		t.Errorf("not completed:\n%s", shown)
	}
}
