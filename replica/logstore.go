package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// write stores entries and the record in one transaction, and with them what the
// write-ahead log holds. It is called with changes held, or before anybody else has
// the file.
func (f *logFile) write(logs []*raft.Log, next record) error {
	if f.wal == nil {
		return f.commit(logs, next)
	}
	if f.wal.failed != nil {
		return f.wal.failed
	}
	next.WAL = f.wal.generation + 1
	err := f.commit(slices.Concat(f.wal.pending.all(), logs), next)
	f.wal.handedOver(err)
	return err
}

func (f *logFile) commit(logs []*raft.Log, next record) error {
	latest, _, err := readMetas(f.metas)
	if err != nil {
		return err
	}
	next.Transaction = latest.txid + 1
	told, err := next.entry()
	if err != nil {
		return err
	}
	all := make([]*raft.Log, 0, len(logs)+1)
	for _, l := range logs {
		all = append(all, sealed(l))
	}
	all = append(all, sealed(told))
	if err := guarded(func() error { return f.home.StoreLogs(all) }); err != nil {
		return err
	}
	f.record.Store(&next)
	return nil
}

// erase deletes entries that the record tells to be deleted. It is called as write is.
func (f *logFile) erase(from, to uint64) error {
	return guarded(func() error { return f.home.DeleteRange(from, to) })
}

// FirstIndex is the index of the first entry, 0 where there is none.
func (f *logFile) FirstIndex() (uint64, error) { return f.record.Load().Entries.first(), nil }

// LastIndex is the index of the last entry, 0 where there is none.
func (f *logFile) LastIndex() (uint64, error) { return f.record.Load().Entries.last(), nil }

// GetLog reads an entry. It is raft.ErrLogNotFound where there is none.
func (f *logFile) GetLog(index uint64, l *raft.Log) error {
	if !f.record.Load().Entries.covers(index, index) {
		return raft.ErrLogNotFound
	}
	if f.wal != nil && f.wal.pending.get(index, l) {
		return nil
	}
	err := readEntry(f.home, index, l)
	if !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	// It was deleted meanwhile, or is lost.
	f.changes.Lock()
	defer f.changes.Unlock()
	if !f.record.Load().Entries.covers(index, index) {
		return raft.ErrLogNotFound
	}
	if f.wal != nil && f.wal.pending.get(index, l) { // deleted, and stored anew
		return nil
	}
	if err = readEntry(f.home, index, l); errors.Is(err, raft.ErrLogNotFound) {
		return fmt.Errorf("%s has lost log entry %d", logFileName, index)
	}
	return err
}

// StoreLog stores one entry.
func (f *logFile) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries, all or none of them: in the write-ahead log where there
// is one and they fit, else in one transaction.
func (f *logFile) StoreLogs(logs []*raft.Log) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	next := f.record.Load().including(logs)
	if f.wal == nil || !f.wal.fits(logs) {
		return f.write(logs, next)
	}
	if err := f.wal.append(logs); err != nil {
		return err
	}
	f.record.Store(&next)
	return nil
}

// DeleteRange deletes the entries from one index to another, both included. They
// are struck from the record first, and deleted in a transaction of its own: what
// a crash in between leaves of them the next start deletes.
func (f *logFile) DeleteRange(from, to uint64) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	next := *f.record.Load()
	from, to = max(from, next.Entries.first()), min(to, next.Entries.last())
	if from > to {
		return nil
	}
	next.Entries, next.Deleted = next.Entries.without(from, to), next.Deleted.with(from, to)
	if err := f.write(nil, next); err != nil {
		return err
	}
	if err := f.erase(from, to); err != nil {
		return err // the record tells of the deletion until it is done
	}
	next = *f.record.Load()
	next.Deleted = next.Deleted.without(from, to)
	f.record.Store(&next)
	return nil
}

var errNotFound = errors.New("not found") // the library knows it by its text

// Get reads one of the values that Raft remembers.
func (f *logFile) Get(key []byte) ([]byte, error) {
	value, ok := f.record.Load().Votes[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return append([]byte(nil), value...), nil
}

// Set stores one of the values that Raft remembers.
func (f *logFile) Set(key, value []byte) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	return f.write(nil, f.record.Load().with(string(key), value))
}

// GetUint64 reads a value that SetUint64 stored.
func (f *logFile) GetUint64(key []byte) (uint64, error) {
	value, err := f.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%s has %d bytes and is no number", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 stores a number.
func (f *logFile) SetUint64(key []byte, value uint64) error {
	return f.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// noteSnapshot notes that a snapshot up to an index is finished.
func (f *logFile) noteSnapshot(index uint64) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	next := *f.record.Load()
	next.Snapshot = max(next.Snapshot, index)
	return f.write(nil, next)
}

// Close closes the files. What is in the write-ahead log stays there.
func (f *logFile) Close() error {
	errs := []error{f.metas.Close(), f.home.Close()}
	if f.wal != nil {
		errs = append(errs, f.wal.close())
	}
	return errors.Join(errs...)
}
