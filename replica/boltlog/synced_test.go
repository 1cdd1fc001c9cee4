package boltlog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/wal"
)

// watchSyncs calls a function with the name of each file and directory that is
// about to be synced, until the test ends.
func watchSyncs(t *testing.T, see func(name string)) {
	t.Helper()
	wholly, data := disk.SyncFile, disk.SyncData
	t.Cleanup(func() { disk.SyncFile, disk.SyncData = wholly, data })
	disk.SyncFile = func(f *os.File) error { see(f.Name()); return wholly(f) }
	disk.SyncData = func(f *os.File) error { see(f.Name()); return data(f) }
}

// TestAcknowledgedEntriesAreSynced: all of them are synced in the write-ahead
// log.
func TestAcknowledgedEntriesAreSynced(t *testing.T) {
	f := ahead(t)
	name := filepath.Join(filepath.Dir(f.name), wal.FileName)
	read := func() string {
		raw, err := os.ReadFile(name)
		must(t, err)
		return string(raw)
	}
	synced := ""
	watchSyncs(t, func(of string) {
		if of == name {
			synced = read()
		}
	})
	for i := uint64(1); i < 20; i += 3 {
		must(t, f.StoreLogs(entries(i, i+2, 1)))
		if read() != synced {
			t.Fatalf("entries %d to %d are acknowledged before they are synced", i, i+2)
		}
	}
}
