package docs

import (
	"slices"
	"strings"
	"testing"
)

// notRun lists the reasons not to run a block.
var notRun = []string{
	"it needs a published release",
	"it needs root and systemd",
	"it needs a registry of containers",
	"it needs a Kubernetes cluster",
	"it needs an issuer of JWTs",
	"it needs a terminal",
	"it needs the servers of others",
	"it is what runs this",
}

// labPages is the test that runs the lab's pages as a whole: each line calls stoutlab.
const labPages = "cmd/stoutlab/internal/cli TestPages"

// TestBlocksAreRun: test/docs or a named test runs each block of commands, unless the
// block gives one of the few reasons not to run it.
func TestBlocksAreRun(t *testing.T) {
	there, used := tests(t), map[string]bool{}
	total := 0
	for _, p := range pages(t) {
		blocks, err := parse(p.name, p.text)
		must(t, err)
		for _, b := range blocks {
			if b.Lang != "sh" && !b.Marked {
				continue
			}
			total++
			by := b.By
			if !b.Marked && (p.name == "docs/lab.md" || strings.HasPrefix(p.name, "docs/lab/")) && onlyStoutlab(b.Text) {
				by = labPages
			}
			pkg, test, _ := strings.Cut(by, " ")
			switch {
			case b.Run:
			case by != "":
				if !slices.Contains(there[test], pkg) {
					t.Errorf("%s is run by %s, but that package has no such test", b.Place(), by)
				}
			case b.Not != "":
				used[b.Not] = true
				if !slices.Contains(notRun, b.Not) {
					t.Errorf("%s is not run: %q is not among the reasons (notRun)", b.Place(), b.Not)
				}
			default:
				t.Errorf("%s: write a comment above the block about how to run it (see Block):\n%s", b.Place(), b.Text)
			}
		}
	}
	for _, reason := range notRun {
		if !used[reason] {
			t.Errorf("no block uses the reason %q: remove it", reason)
		}
	}
	if total < 100 {
		t.Errorf("only %d blocks were found", total)
	}
}

func onlyStoutlab(text string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "stoutlab ") {
			return false
		}
	}
	return true
}

func TestParse(t *testing.T) {
	const page = "text\n<!-- run\nstart\nin: a b\nbefore: x=1\nsays: one: two\n-->\n```sh\necho\n```\n\n```\nshown\n```\n" +
		"```\nnothing\n```\n1. item\n\n   <!-- not run: it\n   is so -->\n   ```sh\n   one\n     two\n   ```\n" +
		"<!-- run by a/b TestC -->\n```go\n```\n<!-- run -->\n\n```sh\nfar\n```\n"
	blocks, err := parse("p", page)
	if err != nil || len(blocks) != 5 {
		t.Fatalf("%v, %d blocks: %+v", err, len(blocks), blocks)
	}
	first, third := blocks[0], blocks[2]
	if !first.Run || !first.Start || first.In != "a b" || !slices.Equal(first.Before, []string{"x=1"}) ||
		!slices.Equal(first.Says, []string{"one: two", "shown"}) || first.Text != "echo\n" || first.Line != 8 {
		t.Errorf("%+v", first)
	}
	if third.Not != "it is so" || third.Text != "one\n  two\n" {
		t.Errorf("%+v", third)
	}
	if blocks[1].Marked || blocks[3].By != "a/b TestC" || blocks[4].Marked {
		t.Errorf("%+v", blocks)
	}
	for _, bad := range []string{"```sh\n", "<!-- run\n", "<!-- run\nsay: x\n-->\n```sh\n```\n"} {
		if _, err := parse("p", bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
