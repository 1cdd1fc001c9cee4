package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
	"github.com/stoutlock/stout/internal/testrun"
)

// always lists the pages that every run reads.
var always = []string{"README.md", "docs/tutorial.md"}

// TestPages types all blocks of a page, from the first to the last: of those
// in always, and of some others.
func TestPages(t *testing.T) {
	pages, err := docs.Pages("../..")
	must(t, err)
	ran := 0
	toType := map[string][]docs.Block{}
	for _, page := range pages {
		blocks, err := docs.Blocks("../..", page)
		must(t, err)
		var mine []docs.Block
		for _, b := range blocks {
			if b.Run {
				mine = append(mine, b)
			}
		}
		if len(mine) == 0 {
			continue
		}
		ran += len(mine)
		toType[page] = mine
	}
	if ran < 20 {
		t.Errorf("the pages have only %d blocks that can be run", ran)
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(toType)), func(page string) bool { return slices.Contains(always, page) })
	for _, page := range always {
		runPage(t, page, toType[page])
	}
	for _, n := range testrun.Sample(t, 5, len(others)) {
		runPage(t, others[n], toType[others[n]])
	}
}

func runPage(t *testing.T, page string, blocks []docs.Block) {
	t.Helper()
	if len(blocks) == 0 {
		t.Fatalf("%s has no block that can be run", page)
	}
	t.Run(page, func(t *testing.T) {
		t.Parallel()
		read(t, blocks)
	})
}

// read types the blocks of one page.
func read(t *testing.T, blocks []docs.Block) {
	r := newReader(t, own(t))
	shown := func(b docs.Block) bool { return b.Text == makeRun }
	if !slices.ContainsFunc(blocks, shown) {
		r.cell(t, docs.Block{Page: blocks[0].Page, Text: makeRun})
	}
	for _, b := range blocks {
		if b.Fresh {
			r.endAll(t)
			r.cell(t, docs.Block{Page: b.Page, Line: b.Line, Text: makeRun})
		}
		if shown(b) {
			r.cell(t, b)
			continue
		}
		r.do(t, b)
	}
}

// makeRun starts the cell for a page's other blocks.
const makeRun = "make run\n"

// newReader returns a reader with a clone, and with a cell unless the page
// itself starts one.
func newReader(t *testing.T, clone string) *reader {
	t.Helper()
	bare, err := tools()
	must(t, err)
	first := freePorts(t, 120)
	r := &reader{dir: clone, first: first, elsewhere: t.TempDir()}
	r.env = environment(map[string]string{
		"PATH":         filepath.Join(clone, "bin") + ":" + os.Getenv("PATH") + ":" + bare,
		"STOUT_SERVER": fmt.Sprintf("localhost:%d,localhost:%d,localhost:%d", first, first+1, first+2),
		"FREE_API":     fmt.Sprint(first + 5), "FREE_RAFT": fmt.Sprint(first + 105),
		// curl makes each call once, so a busy machine must not cost the master
		// its office.
		"ARGS": fmt.Sprintf("--port %d --stoutd-arg=--heartbeat-timeout=2s", first),
	})
	r.instead = elsewhere(first, r.elsewhere)
	r.resettle(t, "configs/r1.yaml")
	t.Cleanup(func() { r.endAll(t) })
	return r
}

// resettle makes the replacements of typed text in a file of the clone, too.
func (r *reader) resettle(t *testing.T, name string) {
	t.Helper()
	name = filepath.Join(r.dir, name)
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(r.instead.Replace(string(text))), 0o644)
	}
	must(t, err)
}

// endAll ends everything that runs, the last first, and removes the cell's
// data.
func (r *reader) endAll(t *testing.T) {
	t.Helper()
	for i := len(r.running) - 1; i >= 0; i-- {
		r.running[i].end(t)
	}
	r.running = nil
	if err := os.RemoveAll(filepath.Join(r.dir, ".stout")); err != nil {
		t.Error(err)
	}
}

// elsewhere replaces addresses and directories that this machine does not have.
func elsewhere(first int, dir string, pairs ...string) *strings.Replacer {
	for i := range 3 {
		here := fmt.Sprintf("localhost:%d", first+i)
		pairs = append(pairs, fmt.Sprintf("localhost:%d", 7101+i), here, fmt.Sprintf("127.0.0.1:%d", 7101+i), here,
			fmt.Sprintf("10.0.0.%d:7101", i+1), here, fmt.Sprintf("127.0.0.1:%d", 7201+i), fmt.Sprintf("127.0.0.1:%d", first+115+i))
	}
	pairs = append(pairs, "--cell prod --id r4", "--cell local --id r4", "5f0a81c2d3e4b697", "$(cat r4.directory)",
		"10.0.0.4:7101", fmt.Sprintf("127.0.0.1:%d", first+3), "10.0.0.4:7201", fmt.Sprintf("127.0.0.1:%d", first+103),
		"10.0.0.1:7201", fmt.Sprintf("127.0.0.1:%d", first+110),
		"/var/lib/stoutd --id r1", filepath.Join(dir, "restored")+" --id r1")
	pairs = append(pairs, "localhost:7301", fmt.Sprintf("localhost:%d", first+50), "localhost:7302", fmt.Sprintf("localhost:%d", first+51), "localhost:8500", fmt.Sprintf("localhost:%d", first+52),
		"/etc/stout", filepath.Join(dir, "etc"), "/var/lib/stoutd", filepath.Join(dir, "lib"))
	return strings.NewReplacer(pairs...)
}

// cell types `make run`. The process id in a page's commands is replaced by
// that of this cell's master.
func (r *reader) cell(t *testing.T, b docs.Block) {
	t.Helper()
	b.Start = true
	b.Says = append(b.Says, "Ctrl-C stops the cell.")
	r.do(t, b)
	now := r.running[len(r.running)-1]
	said := now.said()
	found := killMaster.FindStringSubmatch(said)
	if found == nil {
		t.Fatal("make run does not show how to kill the master")
	}
	r.instead = elsewhere(r.first, r.elsewhere, "kill -9 4711", "kill -9 "+found[1])
	r.env = append(r.env, "SAID="+now.out)
	rows := processes.FindAllStringSubmatch(said, -1)
	if len(rows) != 3 {
		t.Fatalf("make run shows %d replicas:\n%s", len(rows), said)
	}
	for _, row := range rows {
		r.env = append(r.env, "PID_R"+row[1]+"="+row[2])
	}
}

// processes matches the rows of make run's table of replicas: name, API, Raft,
// process.
var processes = regexp.MustCompile(`(?m)^  r(\d) +http\S+ +\S+:\d+ +(\d+)\b`)

var killMaster = regexp.MustCompile(`Kill the master \(kill -9 (\d+)\)`)
