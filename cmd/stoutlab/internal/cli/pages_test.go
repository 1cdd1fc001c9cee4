package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

const docs = "../../../../docs"

var update = flag.Bool("update", false, "rewrite the figures of the pages")

// command matches a line of a page that a reader may type.
var command = regexp.MustCompile(`(?m)^stoutlab (.*?)(?:  # exits (\d+))?$`)

// figure matches a drawing in a page, and the command below it that draws it.
var figure = regexp.MustCompile("!\\[[^\\]]*\\]\\(((?:lab/)?figures/[^)]+)\\)\n\n```sh\nstoutlab (.*)\n")

// measured matches a line of a page's table of counts.
var measured = regexp.MustCompile("(?m)^\\| `stoutlab (run .*)` \\| (\\d+) \\| .* \\| (\\d+) \\|$")

// TestPages: every algorithm has a page; every command in it works with the
// stated exit code; every figure equals the command's drawing; every count is
// right.
func TestPages(t *testing.T) {
	pages := []string{filepath.Join(docs, "lab.md")}
	for _, a := range lab.Algorithms() {
		pages = append(pages, filepath.Join(docs, "lab", a.Name+".md"))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Errorf("%v: every algorithm has a page", err)
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			checkCommands(t, string(text))
			checkFigures(t, filepath.Dir(page), string(text))
			checkCounts(t, string(text))
		})
	}
}

// example matches a line of a command's help that a reader may type.
var example = regexp.MustCompile(`(?m)^  stoutlab (.*)$`)

// TestHelp: each example in the help of each command works.
func TestHelp(t *testing.T) {
	t.Chdir(t.TempDir()) // some write a file
	root := (&app{}).root()
	shown := 0
	for _, cmd := range append(root.Commands(), root) {
		for _, found := range example.FindAllStringSubmatch(cmd.Long+"\n"+cmd.Example, -1) {
			shown++
			if _, code := stoutlab(t, found[1]); code != exitOK && code != exitBroken {
				t.Errorf("stoutlab %s: exit code %d", found[1], code)
			}
		}
	}
	if shown < 10 {
		t.Errorf("the help has %d examples", shown)
	}
}

func stoutlab(t *testing.T, line string) (out string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run("", strings.Fields(line), &stdout, &stderr)
	if stderr.Len() > 0 {
		t.Errorf("stoutlab %s: %s", line, &stderr)
	}
	return stdout.String(), code
}

func checkCommands(t *testing.T, text string) {
	for _, found := range command.FindAllStringSubmatch(text, -1) {
		want := 0
		if found[2] == "3" {
			want = exitBroken
		}
		if _, code := stoutlab(t, found[1]); code != want {
			t.Errorf("stoutlab %s: exit code %d, want %d", found[1], code, want)
		}
	}
}

func checkFigures(t *testing.T, dir, text string) {
	all := figure.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Error("there is no figure")
	}
	for _, found := range all {
		file := filepath.Join(dir, found[1])
		want, _ := stoutlab(t, found[2])
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what stoutlab %s draws (%v); go test -C cmd/stoutlab ./internal/cli -update", file, found[2], err)
		}
	}
}

func checkCounts(t *testing.T, text string) {
	for _, found := range measured.FindAllStringSubmatch(text, -1) {
		out, _ := stoutlab(t, found[1]+" -o json")
		for _, want := range []string{`"total":` + found[2] + `,`, `"turnaround":` + found[3] + `,`} {
			if !strings.Contains(out, want) {
				t.Errorf("stoutlab %s: the page says %s, measured is %s", found[1], want, out)
			}
		}
	}
}
