package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
)

// TestThreeMachines: the command that operations.md has for three machines founds a
// cell, run on each with its own id. The machines are addresses of this one.
func TestThreeMachines(t *testing.T) {
	t.Parallel()
	blocks, err := docs.Blocks("../..", "docs/operations.md")
	must(t, err)
	var shown docs.Block
	for _, b := range blocks {
		if strings.HasSuffix(b.By, " "+t.Name()) {
			shown = b
		}
	}
	if !strings.Contains(shown.Text, "--id r1 ") {
		t.Fatalf("docs/operations.md has no such command: %q", shown.Text)
	}
	r := newReader(t, own(t))
	dir, api, raft := t.TempDir(), freePorts(t, 3), freePorts(t, 10)+5
	for i, id := range []string{"r1", "r2", "r3"} {
		own := strings.NewReplacer("--id r1", "--id "+id, "0.0.0.0:7101", fmt.Sprintf("127.0.0.1:%d", api+i), "0.0.0.0:7201", fmt.Sprintf("127.0.0.1:%d", raft+i),
			"/var/lib/stoutd", filepath.Join(dir, id))
		here := strings.NewReplacer("10.0.0.1:7101", fmt.Sprintf("127.0.0.1:%d", api), "10.0.0.2:7101", fmt.Sprintf("127.0.0.1:%d", api+1), "10.0.0.3:7101", fmt.Sprintf("127.0.0.1:%d", api+2),
			"10.0.0.1:7201", fmt.Sprintf("127.0.0.1:%d", raft), "10.0.0.2:7201", fmt.Sprintf("127.0.0.1:%d", raft+1), "10.0.0.3:7201", fmt.Sprintf("127.0.0.1:%d", raft+2))
		b := shown
		b.Text, b.Start = here.Replace(own.Replace(shown.Text)), true
		r.do(t, b)
	}
	r.do(t, docs.Block{Page: shown.Page, Line: shown.Line,
		Text: fmt.Sprintf("until stout --server localhost:%d status --check; do sleep 0.2; done\n", api), Says: []string{"master"}})
}
