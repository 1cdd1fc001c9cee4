package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// A write-ahead log takes entries before raft-boltdb does (option WAL). bbolt
// syncs twice for each write and writes four or five pages; here it is one write,
// behind the last one, and one sync that has nothing to note but the data, for the
// file has all its blocks from the beginning. What has gathered in it goes to
// raft-boltdb in one transaction, when there is enough of it, and with whatever else
// is written there: a vote, a deletion, the note of a snapshot. So raft-boltdb
// remains the home of log and votes, and its checks hold as they stand; the
// write-ahead log only has what came after its last transaction.
//
// Entries do not wait for a transaction. The file has two areas, which generations
// of entries take in turn. A transaction begins with a new generation, which takes
// the entries from then on, and brings what is in the one before it, with a record
// that tells the new one. Transactions come one after the other, so that no more
// than two generations count at any time, one in each area:
//
//   - Before the transaction of generation g+1 is on the disk, the record tells g.
//     Behind what it tells come the entries of g, and then those of g+1, if any.
//   - From then on it tells g+1, and g counts for nothing. Only now may there be a
//     transaction of g+2, which takes the area of g.
//
// A crash comes before or after the instant at which the transaction is on the disk,
// and either way what the record tells, the generation that it tells and the next are
// all that was acknowledged. Frames are numbered on from a generation to the next,
// and the record tells the number of its generation's first: so the loss of the last
// one of g is found when g+1 has any. And each frame says whether it was written before
// or after its generation's transaction was on the disk: so the loss of that is found
// as well, once a frame has followed it.
//
// At a start the entries behind the record are read, checked and handed to
// raft-boltdb before anything else happens, and the generation that follows is one
// that no block is of.
const (
	walFileName = "raft.wal"
	walBlocks   = 2048 // of an area: 1 MiB
	walEntries  = 512  // that many are enough for a transaction, or half of the area
)

// wal is the file and what is in it. Its methods are called with logFile.changes
// held; pending may be read without.
type wal struct {
	file       *os.File
	generation uint64 // that takes entries
	told       bool   // by the record on the disk
	frames     uint64 // number of the next
	next       int    // block of the area
	pending    walPending
	failed     error // of a write: what the file holds is not known any more
}

// openWAL opens the write-ahead log of a data directory for writing. No block may
// be of a generation above the given one.
func openWAL(dir string, generation uint64) (*wal, error) {
	file, err := os.OpenFile(filepath.Join(dir, walFileName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &wal{file: file, generation: generation, frames: 1}, nil
}

// makeWAL makes an empty one, durably and with all its blocks.
func makeWAL(dir string) error {
	return writeDurably(filepath.Join(dir, walFileName), make([]byte, 2*walBlocks*walBlock))
}

// checkWAL reads the entries that the write-ahead log holds behind a record, and which
// frame comes next.
func checkWAL(dir string, r *record) (logs []*raft.Log, next uint64, err error) {
	if r.WAL == 0 {
		return nil, 0, nil
	}
	if r.Frame == 0 {
		return nil, 0, fmt.Errorf("it goes on in %s, which a version from before the first release has laid out otherwise: "+
			"start that version once more, with log-store bolt, before this one", walFileName)
	}
	file, err := os.Open(filepath.Join(dir, walFileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("it goes on in %s, which is lost", walFileName)
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	logs, next, err = readWAL(file, r.WAL, r.Frame)
	if err != nil {
		return nil, 0, fmt.Errorf("it goes on in %s, which is damaged: %w", walFileName, err)
	}
	return logs, next, nil
}

// readWAL reads the entries of a generation, whose first frame has the given number,
// and of the one behind it. It returns the number of the frame to come next.
func readWAL(file io.ReaderAt, generation, frame uint64) (logs []*raft.Log, next uint64, err error) {
	logs, next, err = readWALArea(file, generation, frame, true)
	if err != nil {
		return nil, 0, err
	}
	behind, next, err := readWALArea(file, generation+1, next, false)
	return append(logs, behind...), next, err
}

// dropWAL removes the file of a write-ahead log of which no record tells.
func dropWAL(dir string) error {
	if err := os.Remove(filepath.Join(dir, walFileName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// fits reports whether the generation has room for some entries.
func (w *wal) fits(logs []*raft.Log) bool {
	size := 0
	for _, l := range logs {
		size += walEntrySize(l)
	}
	return w.next+walBlocksOf(size) <= walBlocks
}

// enough reports whether the generation should be handed over.
func (w *wal) enough() bool {
	return len(w.pending.fresh()) >= walEntries || w.next >= walBlocks/2
}

// append writes entries that fit and syncs. After an error nothing is taken any
// more: a later sync could report as written what the disk has lost.
func (w *wal) append(logs []*raft.Log) error {
	if w.failed != nil {
		return w.failed
	}
	at := walArea(w.generation) + w.next
	frame := walFrame(w.generation, w.frames, w.told, at, logs)
	_, err := w.file.WriteAt(frame, int64(at)*walBlock)
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

// turn starts the next generation. What is in the one before it is returned, to be
// handed to raft-boltdb before there is another turn.
func (w *wal) turn() (full []*raft.Log, err error) {
	if w.failed != nil {
		return nil, w.failed
	}
	w.generation, w.told, w.next = w.generation+1, false, 0
	return w.pending.turn(), nil
}

// handedOver ends a turn, after raft-boltdb was given what it returned, or, with an
// error, perhaps was.
func (w *wal) handedOver(err error) {
	if err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	w.told = true
	w.pending.handedOver()
}

func (w *wal) close() error { return w.file.Close() }
