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

// highWater records how far the log had come at some time, in a file beside it.
// It detects two cases that the other checks accept: one of the two files was
// replaced by an older copy, or the disk has lost its last writes. bbolt
// accepts an older copy of its file as current. The write-ahead log treats a
// file that ends early as one that a crash has torn.
//
// The note is written at the end of each start, when a snapshot is finished,
// and when the log is closed. It is not written for each entry, because the
// entry would have to wait for it.
type highWater struct {
	Transaction uint64 `json:"transaction"` // of the manifest
	Frame       uint64 `json:"frame"`       // next frame of the write-ahead log; 0 without one
}

const highWaterFile = "highwater.json"

// checkHighWater returns an error if the log has lost something that it had
// when the note was written. next is the next frame behind its manifest.
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
		return fmt.Errorf("its manifest is of transaction %d, but %[3]s records transaction %[2]d: an older copy of it was restored, or the disk has lost what it had acknowledged", r.Transaction, had.Transaction, highWaterFile)
	case r.Transaction == had.Transaction && next < had.Frame:
		return fmt.Errorf("it continues in %s up to frame %d, but %[4]s records frame %[3]d: an older copy of that file was restored, or the disk has lost what it had acknowledged", wal.FileName, next, had.Frame, highWaterFile)
	}
	return nil
}

// noteHighWater records how far the log on the disk reaches.
func (f *Log) noteHighWater() error {
	f.noting.Lock() // two snapshots may finish at once, and a note must never go back
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
