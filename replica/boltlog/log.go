package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// FirstIndex returns the index of the first entry, 0 in an empty log.
func (f *Log) FirstIndex() (uint64, error) { return f.manifest.Load().Entries.first(), nil }

// LastIndex returns the index of the last entry, 0 in an empty log.
func (f *Log) LastIndex() (uint64, error) { return f.manifest.Load().Entries.last(), nil }

// GetLog reads an entry. It returns raft.ErrLogNotFound for a missing one.
func (f *Log) GetLog(index uint64, l *raft.Log) error {
	if !f.manifest.Load().Entries.covers(index, index) {
		return raft.ErrLogNotFound
	}
	if f.wal != nil && f.wal.Get(index, l) {
		return nil
	}
	err := readEntry(f.bolt, index, l)
	if !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	// It was deleted in between, or is lost.
	f.changes.Lock()
	defer f.changes.Unlock()
	if !f.manifest.Load().Entries.covers(index, index) {
		return raft.ErrLogNotFound
	}
	if f.wal != nil && f.wal.Get(index, l) { // deleted, then stored again
		return nil
	}
	if err = readEntry(f.bolt, index, l); errors.Is(err, raft.ErrLogNotFound) {
		return fmt.Errorf("%s has lost log entry %d", FileName, index)
	}
	return err
}

// StoreLog stores one entry.
func (f *Log) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries, all or none of them: in the write-ahead log if
// there is one and they fit, else in one transaction.
func (f *Log) StoreLogs(logs []*raft.Log) error {
	if stored, err := f.storeAhead(logs); stored || err != nil {
		return err
	}
	return f.write(logs, unchanged)
}

// mostDeleted bounds the entries that one transaction deletes. It keeps them in
// memory, and other writes wait for it.
const mostDeleted = 1 << 14

// DeleteRange deletes the entries from one index to another, both included. It
// compacts the log in parts if they are very many. If a crash comes between two
// parts, the log begins with the second one. All entries together go at once: a part
// of a log that differs from its snapshot would not show that.
func (f *Log) DeleteRange(from, to uint64) error {
	for {
		there := f.manifest.Load().Entries
		first := there.first()
		if first == 0 || from > first || to >= there.last() || to < first+mostDeleted {
			return f.deleteAtOnce(from, to)
		}
		if err := f.deleteAtOnce(first, first+mostDeleted-1); err != nil {
			return err
		}
	}
}

// deleteAtOnce deletes entries in two transactions. The first one removes them from
// the manifest, and moves the entries of the write-ahead log to raft-boltdb. The
// second one deletes them. If a crash comes in between, the next start deletes the
// rest.
func (f *Log) deleteAtOnce(from, to uint64) error {
	f.transactions.Lock()
	defer f.transactions.Unlock()
	there := f.manifest.Load().Entries
	from, to = max(from, there.first()), min(to, there.last())
	if from > to {
		return nil
	}
	err := f.transact(nil, func(r manifest) manifest {
		r.Entries, r.Deleted = r.Entries.without(from, to), r.Deleted.with(from, to)
		return r
	})
	if err != nil {
		return err
	}
	if f.failed = f.erase(from, to); f.failed != nil {
		return f.failed // the manifest still lists the deletion, and the next start completes it
	}
	f.changes.Lock()
	defer f.changes.Unlock()
	next := *f.manifest.Load()
	next.Deleted = next.Deleted.without(from, to)
	f.manifest.Store(&next)
	return nil
}

var errNotFound = errors.New("not found") // the library compares this text

// Get reads one of Raft's values.
func (f *Log) Get(key []byte) ([]byte, error) {
	value, ok := f.manifest.Load().Votes[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return append([]byte(nil), value...), nil
}

// Set stores one of Raft's values.
func (f *Log) Set(key, value []byte) error {
	return f.write(nil, func(r manifest) manifest { return r.with(string(key), value) })
}

// GetUint64 reads a value that SetUint64 stored.
func (f *Log) GetUint64(key []byte) (uint64, error) {
	value, err := f.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%s has %d bytes; a number has 8", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 stores a number.
func (f *Log) SetUint64(key []byte, value uint64) error {
	return f.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// Reach returns the highest index that the replica has acknowledged.
func (f *Log) Reach() uint64 { return f.manifest.Load().reach() }

// Holds reports whether the log has all entries from one index to another.
func (f *Log) Holds(from, to uint64) bool { return f.manifest.Load().Entries.covers(from, to) }

// AfterGap returns the first index behind the last gap of the log, 0 without a
// gap.
func (f *Log) AfterGap() uint64 {
	runs := f.manifest.Load().Entries
	if len(runs) < 2 {
		return 0
	}
	return runs[len(runs)-1].First
}

// NoteSnapshot records that a snapshot up to an index is finished.
func (f *Log) NoteSnapshot(index uint64) error {
	err := f.write(nil, func(r manifest) manifest {
		r.Snapshot = max(r.Snapshot, index)
		return r
	})
	if err != nil {
		return err
	}
	return f.noteHighWater()
}

// Close closes the files. No call of another method may be under way, or follow.
// Entries in the write-ahead log stay there.
func (f *Log) Close() error {
	f.work.Wait()
	var errs []error
	if f.opened {
		errs = append(errs, f.noteHighWater())
	}
	errs = append(errs, f.metas.Close(), f.bolt.Close())
	if f.wal != nil {
		errs = append(errs, f.wal.Close())
	}
	return errors.Join(errs...)
}
