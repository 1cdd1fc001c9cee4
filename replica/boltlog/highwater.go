package boltlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/wal"
)

// highWater is how far the log had come at some time, kept in a file beside it.
// bbolt takes a file as it was for the file as it is, and the write-ahead log
// one that ends early for one that a crash has torn; so one of the two that was
// put back alone would pass, or one whose last writes the disk has lost. The
// note is made at the end of each start, when a snapshot is finished, and at
// the end: never behind an entry, which would have to wait for it.
type highWater struct {
	Transaction uint64 `json:"transaction"` // of the manifest
	Frame       uint64 `json:"frame"`       // of the write-ahead log, the one to come next; 0 without one
}

const highWaterFile = "highwater.json"

// checkHighWater says what is missing of what the log had come to, where next
// is the next frame behind its manifest.
func checkHighWater(dir string, r *manifest, next uint64) error {
	raw, err := os.ReadFile(filepath.Join(dir, highWaterFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var had highWater
	if err := json.Unmarshal(raw, &had); err != nil {
		return fmt.Errorf("%s beside it is damaged: %w", highWaterFile, err)
	}
	switch {
	case r.Transaction < had.Transaction:
		return fmt.Errorf("its manifest is of transaction %d, and it had one of transaction %d, as %s tells: it was put back as it was before, or the disk has lost what it had acknowledged", r.Transaction, had.Transaction, highWaterFile)
	case r.Transaction == had.Transaction && next < had.Frame:
		return fmt.Errorf("it goes on in %s up to frame %d, and did up to frame %d, as %s tells: that was put back as it was before, or the disk has lost what it had acknowledged", wal.FileName, next, had.Frame, highWaterFile)
	}
	return nil
}

// noteHighWater notes how far the log has come. All of that is on the disk.
func (f *Log) noteHighWater() error {
	f.noting.Lock() // two snapshots may be finished at once, and a note never goes back
	defer f.noting.Unlock()
	f.changes.Lock()
	now := highWater{Transaction: f.manifest.Load().Transaction}
	if f.wal != nil {
		now.Frame = f.wal.Frame()
	}
	f.changes.Unlock()
	raw, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(filepath.Dir(f.name), highWaterFile), append(raw, '\n'))
}
