package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// FileName is the name of the file in its directory.
const FileName = "raft.wal"

const (
	AreaBlocks  = 2048 // of a generation: 1 MiB
	FullEntries = 512  // that many are enough for a transaction, or half of the area
)

// Mark names a generation, and the number of its first frame, from 1 on. The
// zero Mark names none.
type Mark struct {
	Generation uint64 `json:"generation"`
	Frame      uint64 `json:"frame"`
}

// Log is the file and what is in it. Its methods are called one at a time, but
// for Get and Fresh, which are safe beside others.
type Log struct {
	file      *os.File
	now       Mark // the generation that takes entries, and the number of the next frame
	committed bool // the transaction that the generation began with is on the disk
	next      int  // block of the area
	pending   pending
	failed    error // of a write: what the file holds is not known any more
}

// Create makes an empty one in a directory, durably and with all its blocks.
func Create(dir string) error {
	return disk.WriteFile(filepath.Join(dir, FileName), make([]byte, 2*AreaBlocks*BlockSize))
}

// Remove removes the one of a directory, of which no mark is anywhere. There
// need be none.
func Remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, FileName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Open opens the one of a directory for writing, as empty. No block may be of a
// generation above the given one. The caller rotates before the first entry.
func Open(dir string, generation uint64) (*Log, error) {
	file, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Log{file: file, now: Mark{Generation: generation, Frame: 1}}, nil
}

// Frame is the number of the next frame.
func (w *Log) Frame() uint64 { return w.now.Frame }

// Fits reports whether the generation has room for some entries.
func (w *Log) Fits(logs []*raft.Log) bool {
	size := 0
	for _, l := range logs {
		size += entrySize(l)
	}
	return w.next+blocksOf(size) <= AreaBlocks
}

// Full reports whether the generation holds enough for a transaction.
func (w *Log) Full() bool { return len(w.Fresh()) >= FullEntries || w.next >= AreaBlocks/2 }

// Append writes entries that fit and syncs. After an error nothing is taken any
// more: a later sync could report as written what the disk has lost.
func (w *Log) Append(logs []*raft.Log) error {
	if w.failed != nil {
		return w.failed
	}
	at := areaOf(w.now.Generation) + w.next
	raw := frame(w.now, w.committed, at, logs)
	err := disk.WriteAt(w.file, raw, int64(at)*BlockSize)
	if err == nil {
		err = disk.SyncData(w.file)
	}
	if err != nil {
		w.failed = fmt.Errorf("%s: %w", FileName, err)
		return w.failed
	}
	w.now.Frame++
	w.next += len(raw) / BlockSize
	w.pending.add(logs)
	return nil
}

// Rotate starts the next generation, which begins at the mark. What is in the
// one before it is returned, to be written to the store together with the mark
// before Rotate is called again; see Flushed.
func (w *Log) Rotate() (full []*raft.Log, begin Mark, err error) {
	if w.failed != nil {
		return nil, Mark{}, w.failed
	}
	w.now.Generation, w.committed, w.next = w.now.Generation+1, false, 0
	return w.pending.rotate(), w.now, nil
}

// Flushed ends what Rotate began, after the store has written what that
// returned, or, with an error, perhaps has.
func (w *Log) Flushed(err error) {
	if err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	w.committed = true
	w.pending.flushed()
}

// Get reads an entry that is here and perhaps nowhere else. It is false for any
// other.
func (w *Log) Get(index uint64, l *raft.Log) bool { return w.pending.get(index, l) }

// Fresh are the entries of the generation that takes entries.
func (w *Log) Fresh() []*raft.Log { return w.pending.fresh() }

// Close closes the file. What is in it stays there.
func (w *Log) Close() error { return w.file.Close() }
