package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
	"github.com/stoutlock/stout/internal/testrun"
)

// smaller are the flags that set the size of a work.
var smaller = []string{"--n", "--runs", "--duration", "--warmup", "--rules", "--ttl"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestShownCommands: each measuring command of the pages runs as shown, except
// that its size is reduced here.
func TestShownCommands(t *testing.T) {
	testrun.E2E(t)
	const makeBench, root = `make bench ARGS="`, "../.."
	pages, err := docs.Pages(root)
	must(t, err)
	lines := 0
	for _, page := range pages {
		blocks, err := docs.Blocks(root, page)
		must(t, err)
		for _, b := range blocks {
			if b.By != "test/bench "+t.Name() {
				continue
			}
			for line := range strings.Lines(b.Text) {
				args, ok := strings.CutPrefix(strings.TrimSuffix(line, "\"\n"), makeBench)
				if !ok {
					t.Errorf("%s: not of the form %s…\": %s", b.Place(), makeBench, line)
					continue
				}
				lines++
				t.Run(args, func(t *testing.T) {
					t.Parallel()
					runSmall(t, strings.Fields(args))
				})
			}
		}
	}
	if lines < 5 {
		t.Errorf("only %d lines were run", lines)
	}
}

// TestShownWorks: the commands in the table of figures are valid.
func TestShownWorks(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "## Figures by release")
	table, _, _ = strings.Cut(table, "\n## ")
	shown := regexp.MustCompile("(?m)\\| `([a-z][^`]*)` \\|$").FindAllStringSubmatch(table, -1)
	if len(shown) < 10 {
		t.Errorf("only %d commands were found", len(shown))
	}
	for _, found := range shown {
		if _, err := parse(strings.Fields(found[1]), io.Discard); err != nil {
			t.Errorf("%s: %v", found[1], err)
		}
	}
}

// runSmall checks a command line as shown, and runs it with its works as small
// as possible.
func runSmall(t *testing.T, args []string) {
	var stderr strings.Builder
	if _, err := parse(args, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	small := append([]string{"--n", "4", "--runs", "1", "--duration", "50ms", "--warmup", "50ms"}, patient...)
	for i := 0; i < len(args); i++ {
		if slices.Contains(smaller, args[i]) {
			i++
			continue
		}
		small = append(small, args[i])
	}
	var stdout strings.Builder
	if code := run(t.Context(), small, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d of bench %q\n%s", code, small, stderr.String())
	}
}
