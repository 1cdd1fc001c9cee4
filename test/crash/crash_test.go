package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/overlay"
)

// trial builds package trial with some edits of the product, and runs some
// lives.
func trial(t *testing.T, lives string, edits ...overlay.Edit) (said string, err error) {
	t.Helper()
	root, err := cell.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var o overlay.Overlay
	for _, e := range edits {
		if o, err = overlay.Mutated(o, root, e); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "trial")
	if err := build(t.Context(), root, program, o); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "-seed=1", "-lives="+lives, "-dir="+dir).CombinedOutput()
	return string(out), err
}

// TestCrashAnywhere: whatever was acknowledged is there after a loss of power
// at any point, and nothing else is.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	said, err := trial(t, "4")
	if err != nil || !strings.Contains(said, "4 lives") {
		t.Errorf("%v\n%s", err, said)
	}
	t.Log(said)
}

// TestDeliberateFaults: each sync counts, and so does the order of things.
func TestDeliberateFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			said, err := trial(t, "60", f.Edit)
			if err == nil || !strings.Contains(said, "FAILED") {
				t.Errorf("not found: %v\n%s", err, said)
			}
		})
	}
}
