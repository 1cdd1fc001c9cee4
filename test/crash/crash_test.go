package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/overlay"
)

// trial builds package trial with some edits of the product and runs some
// lives.
func trial(t *testing.T, seed uint64, lives int, edits ...overlay.Edit) (said string, err error) {
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
	out, err := exec.CommandContext(t.Context(), program, "-seed="+strconv.FormatUint(seed, 10), "-lives="+strconv.Itoa(lives), "-dir="+dir).CombinedOutput()
	return string(out), err
}

// TestCrashAnywhere: after a loss of power at any point, everything
// acknowledged is there, and nothing else. Each run tries new lives; make crash
// tries as many as wanted.
func TestCrashAnywhere(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	seed, lives := uint64(time.Now().UnixMilli()), testrun.Times(2, 40)
	said, err := trial(t, seed, lives)
	if err != nil || !strings.Contains(said, fmt.Sprintf("%d lives", lives)) {
		t.Errorf("%d lives from seed %d on: %v\n%s", lives, seed, err, said)
	}
	t.Log(said)
}

// TestDeliberateFaults: each sync counts, and so does the order of operations.
// A short run tries some of the faults.
func TestDeliberateFaults(t *testing.T) {
	testrun.E2E(t)
	for _, n := range testrun.Sample(t, 3, len(faults)) {
		f := faults[n]
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			said, err := trial(t, 1, 60, f.Edit)
			if err == nil || !strings.Contains(said, "FAILED") {
				t.Errorf("not found: %v\n%s", err, said)
			}
		})
	}
}
