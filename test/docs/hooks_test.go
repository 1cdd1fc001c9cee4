package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
)

// TestClientHooks runs the programs in Python and JavaScript of
// docs/monitoring-clients.md, if this machine has python3 and node.
func TestClientHooks(t *testing.T) {
	t.Parallel()
	blocks, err := docs.Blocks("../..", "docs/monitoring-clients.md")
	must(t, err)
	commands := map[string]string{
		"python": "PYTHONPATH=client/python python3 hooks.python",
		"js":     "mkdir -p hooks/node_modules/@stoutlock && ln -sfn ../../../client/typescript hooks/node_modules/@stoutlock/client && mv hooks.js hooks/main.mjs && node hooks/main.mjs",
	}
	var r *reader
	ran := 0
	for _, b := range blocks {
		if !strings.HasSuffix(b.By, " "+t.Name()) {
			continue
		}
		ran++
		if _, err := exec.LookPath(map[string]string{"python": "python3", "js": "node"}[b.Lang]); err != nil {
			t.Logf("%s: %v", b.Place(), err)
			continue
		}
		if r == nil {
			r = newReader(t, own(t))
			r.cell(t, docs.Block{Page: b.Page, Line: b.Line, Text: makeRun})
		}
		must(t, os.WriteFile(filepath.Join(r.dir, "hooks."+b.Lang), []byte(r.instead.Replace(b.Text)), 0o644))
		b.Text = commands[b.Lang]
		r.do(t, b)
	}
	if ran != 2 {
		t.Errorf("the page has %d such programs", ran)
	}
}
