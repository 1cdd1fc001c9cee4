package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watchSyncs calls a function with the name of each file and directory that is
// about to be synced, until the test ends.
func watchSyncs(t *testing.T, see func(name string)) {
	t.Helper()
	wholly, data := SyncFile, SyncData
	t.Cleanup(func() { SyncFile, SyncData = wholly, data })
	SyncFile = func(f *os.File) error { see(f.Name()); return wholly(f) }
	SyncData = func(f *os.File) error { see(f.Name()); return data(f) }
}

// TestPutInPlace: a file is on the disk before it gets its name, and the name
// is on the disk before the call returns.
func TestPutInPlace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	var seen []string
	watchSyncs(t, func(synced string) {
		in, _ := os.ReadFile(name)
		aside, _ := os.ReadFile(name + ".new")
		seen = append(seen, fmt.Sprintf("%s, with %q and %q", filepath.Base(synced), in, aside))
	})
	must(t, WriteFile(name, []byte("new")))
	want := []string{`file.new, with "old" and "new"`, filepath.Base(filepath.Dir(name)) + `, with "new" and ""`}
	if !slices.Equal(seen, want) {
		t.Errorf("synced: %q, want %q", seen, want)
	}
}
