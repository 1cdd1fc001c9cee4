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
	AreaBlocks  = 2048 // size of a generation's area: 1 MiB
	FullEntries = 512  // this many are enough for a transaction; so is half of the area
)

// mostKept bounds the room that is kept for the next frame.
const mostKept = 256 << 10

// Mark names a generation, and the number of its first frame, from 1 on. The
// zero Mark names no generation.
type Mark struct {
	Generation uint64 `json:"generation"`
	Frame      uint64 `json:"frame"`
}

// Log is the file and its contents. Its methods are called one at a time,
// except Get and Fresh, which are safe for concurrent use.
type Log struct {
	file      *os.File
	now       Mark   // the current generation, and the number of the next frame
	committed bool   // the transaction with which the generation began is on the disk
	next      int    // next block of the area
	raw       []byte // room for a frame, reused
	pending   pending
	failed    error // of a write: the contents of the file are unknown after it
}

// Create creates an empty log in a directory, durably and with all its blocks.
func Create(dir string) error {
	return disk.WriteFile(filepath.Join(dir, FileName), make([]byte, 2*AreaBlocks*BlockSize))
}

// Remove removes a directory's log, if it has one. No mark may name one of its
// generations.
func Remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, FileName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Open opens a directory's log for writing, as empty. No block may have a
// generation above the given one. The caller must call Rotate before it appends
// the first entry.
func Open(dir string, generation uint64) (*Log, error) {
	file, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Log{file: file, now: Mark{Generation: generation, Frame: 1}}, nil
}

// Frame returns the number of the next frame.
func (w *Log) Frame() uint64 { return w.now.Frame }

// Fits reports whether the generation has space for some entries.
func (w *Log) Fits(logs []*raft.Log) bool {
	size := 0
	for _, l := range logs {
		size += entrySize(l)
	}
	return w.next+blocksOf(size) <= AreaBlocks
}

// Full reports whether the generation holds enough for a transaction.
func (w *Log) Full() bool { return len(w.Fresh()) >= FullEntries || w.next >= AreaBlocks/2 }

// Append writes entries that fit, and syncs. After an error it accepts no more
// entries: a later sync could report writes as stored that the disk has lost.
func (w *Log) Append(logs []*raft.Log) error {
	if w.failed != nil {
		return w.failed
	}
	at := areaOf(w.now.Generation) + w.next
	raw := frame(w.raw, w.now, w.committed, at, logs)
	err := disk.WriteAt(w.file, raw, int64(at)*BlockSize)
	if w.raw = raw; cap(raw) > mostKept {
		w.raw = nil
	}
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

// Rotate starts the next generation, which begins at the mark. It returns the
// entries of the previous generation. The caller must write them to the store
// together with the mark, and call Flushed, before it calls Rotate again.
func (w *Log) Rotate() (full []*raft.Log, begin Mark, err error) {
	if w.failed != nil {
		return nil, Mark{}, w.failed
	}
	w.now.Generation, w.committed, w.next = w.now.Generation+1, false, 0
	return w.pending.rotate(), w.now, nil
}

// Flushed completes a Rotate after the store has written the entries that
// Rotate returned. With an error the store may or may not have written them.
func (w *Log) Flushed(err error) {
	if err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	w.committed = true
	w.pending.flushed()
}

// Get reads an entry that is here and perhaps nowhere else. It returns false
// for any other.
func (w *Log) Get(index uint64, l *raft.Log) bool { return w.pending.get(index, l) }

// Fresh returns the entries of the current generation.
func (w *Log) Fresh() []*raft.Log { return w.pending.fresh() }

// Close closes the file. Its entries stay there.
func (w *Log) Close() error { return w.file.Close() }
