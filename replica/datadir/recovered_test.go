package datadir

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFlippedBitsInTheRecord: no flipped bit opens a directory from which another
// cell continues, or makes it one from which none continues yet.
func TestFlippedBitsInTheRecord(t *testing.T) {
	dir := t.TempDir()
	must(t, (&Dir{path: dir}).Recover(Recovery{Into: "/new", CellID: "5cfd2797946bf3c3"}))
	name := filepath.Join(dir, recoveredFile)
	raw, err := os.ReadFile(name)
	must(t, err)
	for at := range raw {
		for bit := range 8 {
			flipped := bytes.Clone(raw)
			flipped[at] ^= 1 << bit
			must(t, os.WriteFile(name, flipped, 0o600))
			if recovered(dir) == nil {
				t.Errorf("it can be opened with %s", flipped)
			}
			if r, err := readRecovery(dir); err == nil && r.CellID == "" {
				t.Errorf("no cell continues from it with %s", flipped)
			}
		}
	}
}
