package replica

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// A write-ahead log takes entries before raft-boltdb does (option WAL). bbolt
// syncs twice for each write and writes four or five pages; here it is one write,
// behind the last one, and one sync that has nothing to note but the data, for the
// file has all its blocks from the beginning. What has gathered in it goes to
// raft-boltdb in one transaction, when the file is full, and with whatever else is
// written there: a vote, a deletion, the note of a snapshot. So raft-boltdb remains
// the home of log and votes, and its checks hold as they stand; the write-ahead log
// only has what came after its last transaction.
//
// Each transaction starts the file anew by giving it a generation, which the record
// tells: blocks of an earlier one count for nothing. At a start the entries of the
// record's generation are read, checked and handed to raft-boltdb before anything
// else happens.
const (
	walFileName = "raft.wal"
	walBlocks   = 4096 // 2 MiB
	walEntries  = 512  // more of them are handed to raft-boltdb, to keep that short
)

// wal is the file and what is in it. Its methods are called with logFile.changes
// held; pending may be read without.
type wal struct {
	file       *os.File
	generation uint64
	frames     uint64 // of this generation
	next       int    // block
	pending    walPending
	failed     error // of a write: what the file holds is not known any more
}

// openWAL opens the write-ahead log of a data directory for writing.
func openWAL(dir string, generation uint64) (*wal, error) {
	file, err := os.OpenFile(filepath.Join(dir, walFileName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &wal{file: file, generation: generation}, nil
}

// makeWAL makes an empty one, durably and with all its blocks.
func makeWAL(dir string) error {
	return writeDurably(filepath.Join(dir, walFileName), make([]byte, walBlocks*walBlock))
}

// checkWAL reads the entries that the write-ahead log holds behind a record.
func checkWAL(dir string, r *record) ([]*raft.Log, error) {
	if r.WAL == 0 {
		return nil, nil
	}
	file, err := os.Open(filepath.Join(dir, walFileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("it goes on in %s, which is lost", walFileName)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	logs, err := readWAL(bufio.NewReader(file), r.WAL)
	if err != nil {
		return nil, fmt.Errorf("it goes on in %s, which is damaged: %w", walFileName, err)
	}
	return logs, nil
}

// dropWAL removes the file of a write-ahead log of which no record tells.
func dropWAL(dir string) error {
	if err := os.Remove(filepath.Join(dir, walFileName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// fits reports whether the file has room for some entries.
func (w *wal) fits(logs []*raft.Log) bool {
	size := 0
	for _, l := range logs {
		size += walEntrySize(l)
	}
	return w.next+walBlocksOf(size) <= walBlocks && len(w.pending.all())+len(logs) <= walEntries
}

// append writes entries that fit and syncs. After an error nothing is taken any
// more: a later sync could report as written what the disk has lost.
func (w *wal) append(logs []*raft.Log) error {
	if w.failed != nil {
		return w.failed
	}
	frame := walFrame(w.generation, w.frames, w.next, logs)
	_, err := w.file.WriteAt(frame, int64(w.next)*walBlock)
	if err == nil {
		err = syncData(w.file)
	}
	if err != nil {
		w.failed = fmt.Errorf("%s: %w", walFileName, err)
		return w.failed
	}
	w.frames++
	w.next += len(frame) / walBlock
	w.pending.add(logs)
	return nil
}

// handedOver starts the next generation, after raft-boltdb was given all that is in
// this one, or, with an error, perhaps was.
func (w *wal) handedOver(err error) {
	if err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	w.generation, w.frames, w.next = w.generation+1, 0, 0
	w.pending.clear()
}

func (w *wal) close() error { return w.file.Close() }
