// Command prose counts habits of writing that stop a reader, in comments, errors,
// help texts, pages and openapi.yaml, and fails where a package or a page has
// more of them than well-read Go code. With --commits it checks the subjects of
// commits.
//
//	go run ./internal/docs/prose .                 each finding, and the share per package
//	go run ./internal/docs/prose --summary .       only those over the bound
//	go run ./internal/docs/prose --commits BASE    the subjects since BASE
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bound is the share of blocks with a habit that a package or a page may have.
const bound = 0.02

// few is the number of blocks with a habit that a group of any size may have. Without
// it a small group could have none.
const few = 1

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("prose", flag.ContinueOnError)
	summary := flags.Bool("summary", false, "print only the findings of packages and pages over the bound")
	commits := flags.String("commits", "", "check the subjects of the commits since this `commit`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *commits != "" {
		return checkCommits(*commits, out)
	}
	files, err := find(flags.Args())
	if err != nil {
		return err
	}
	counts := map[string]*count{}
	for _, file := range files {
		found, err := blocks(file)
		if err != nil {
			return err
		}
		of := counts[group(file)]
		if of == nil {
			of = &count{}
			counts[group(file)] = of
		}
		for _, b := range found {
			of.add(b, check(b.text))
		}
	}
	return report(counts, *summary, out)
}

// A count has the numbers of a group.
type count struct {
	blocks, words, marked, never int
	lines                        []string // the findings
}

func (c *count) add(b block, found []finding) {
	c.blocks++
	c.words += len(strings.Fields(b.text))
	if len(found) > 0 {
		c.marked++
	}
	if slices.ContainsFunc(found, func(f finding) bool { return f.habit.never }) {
		c.never++
	}
	for _, f := range found {
		c.lines = append(c.lines, fmt.Sprintf("%s:%d: …%s…: %s", b.file, b.line, f.words, f.habit.name))
	}
}

func (c *count) exceeds() bool {
	return c.never > 0 || c.marked > few && float64(c.marked) > bound*float64(c.blocks)
}

// report prints the findings, the groups that exceed the bound, the worst last, and
// the sum. In a summary it prints only the findings of these groups.
func report(counts map[string]*count, summary bool, out io.Writer) error {
	var sum count
	over := 0
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a].marked, counts[b].marked), strings.Compare(a, b))
	})
	for _, name := range names {
		c := counts[name]
		sum.blocks, sum.words, sum.marked, sum.never = sum.blocks+c.blocks, sum.words+c.words, sum.marked+c.marked, sum.never+c.never
		if c.exceeds() || !summary {
			for _, line := range c.lines {
				fmt.Fprintln(out, line)
			}
		}
		if c.exceeds() {
			over++
			fmt.Fprintf(out, "%6.1f of 100 blocks have a habit (%d of %d, %d words): %s\n", share(c), c.marked, c.blocks, c.words, name)
		}
	}
	fmt.Fprintf(out, "%6.1f of 100 blocks have a habit (%d of %d, %d words): all\n", share(&sum), sum.marked, sum.blocks, sum.words)
	if over > 0 {
		return fmt.Errorf("prose: %d packages or pages have more than %.0f of 100 blocks with a habit, or a sentence that begins with `Who`, `Whose` or `Whatever` (CONTRIBUTING.md, Prose)", over, 100*bound)
	}
	return nil
}

func share(c *count) float64 { return 100 * float64(c.marked) / float64(max(1, c.blocks)) }

// find returns the files below the given paths, except data and other people's texts.
func find(paths []string) (files []string, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata", "node_modules", "lab"}, d.Name()) && name != path:
				return fs.SkipDir
			case !d.IsDir():
				files = append(files, filepath.Clean(name))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
