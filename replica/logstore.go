package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// write stores a change of the record, and entries that follow it, in one
// transaction, and with them what the write-ahead log holds. That goes on taking
// entries meanwhile: they come behind the change.
func (f *logFile) write(logs []*raft.Log, change func(record) record) error {
	f.transactions.Lock()
	defer f.transactions.Unlock()
	return f.transact(logs, change)
}

// transact is write, with transactions held, or before anybody else has the file.
func (f *logFile) transact(logs []*raft.Log, change func(record) record) error {
	next, full, err := f.turn(change)
	if err != nil {
		return err
	}
	next = next.including(logs)
	err = f.commit(slices.Concat(full, logs), &next)
	f.changes.Lock()
	defer f.changes.Unlock()
	if f.wal != nil {
		f.wal.handedOver(err)
	}
	if err != nil {
		return err
	}
	if f.wal != nil {
		next = next.including(f.wal.pending.fresh())
	}
	f.record.Store(&next)
	return nil
}

// turn starts the next generation of the write-ahead log, and returns the record
// that tells it, and what is in the one before.
func (f *logFile) turn(change func(record) record) (next record, full []*raft.Log, err error) {
	f.changes.Lock()
	defer f.changes.Unlock()
	next = change(*f.record.Load())
	if f.wal != nil {
		full, err = f.wal.turn()
		next.WAL, next.Frame = f.wal.generation, f.wal.frames
	}
	return next, full, err
}

// unchanged changes nothing.
func unchanged(r record) record { return r }

// handOver hands over what the write-ahead log holds, beside the taking of entries.
// An error of it is that of the next write.
func (f *logFile) handOver() {
	_ = f.write(nil, unchanged) // the write-ahead log keeps the error
	f.changes.Lock()
	defer f.changes.Unlock()
	f.leaving = false
}

// commit makes one transaction, and notes its number in the record.
func (f *logFile) commit(logs []*raft.Log, next *record) error {
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
	return guarded(func() error { return f.home.StoreLogs(all) })
}

// erase deletes entries that the record tells to be deleted. It is called as transact is.
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
	if stored, err := f.storeAhead(logs); stored || err != nil {
		return err
	}
	return f.write(logs, unchanged)
}

// storeAhead stores entries in the write-ahead log, and sees to it that it is handed
// over in time. It is false where there is none, or no room: on a disk that is slower
// than the entries come.
func (f *logFile) storeAhead(logs []*raft.Log) (stored bool, err error) {
	f.changes.Lock()
	defer f.changes.Unlock()
	if f.wal == nil || !f.wal.fits(logs) {
		return false, nil
	}
	if err := f.wal.append(logs); err != nil {
		return false, err
	}
	next := f.record.Load().including(logs)
	f.record.Store(&next)
	if f.wal.enough() && !f.leaving {
		f.leaving = true
		f.work.Go(f.handOver)
	}
	return true, nil
}

// DeleteRange deletes the entries from one index to another, both included. They
// are struck from the record first, and deleted in a transaction of its own: what
// a crash in between leaves of them the next start deletes. Those that are in the
// write-ahead log go to raft-boltdb with the first of the two.
func (f *logFile) DeleteRange(from, to uint64) error {
	f.transactions.Lock()
	defer f.transactions.Unlock()
	there := f.record.Load().Entries
	from, to = max(from, there.first()), min(to, there.last())
	if from > to {
		return nil
	}
	err := f.transact(nil, func(r record) record {
		r.Entries, r.Deleted = r.Entries.without(from, to), r.Deleted.with(from, to)
		return r
	})
	if err != nil {
		return err
	}
	if err := f.erase(from, to); err != nil {
		return err // the record tells of the deletion until it is done
	}
	f.changes.Lock()
	defer f.changes.Unlock()
	next := *f.record.Load()
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
	return f.write(nil, func(r record) record { return r.with(string(key), value) })
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
	err := f.write(nil, func(r record) record {
		r.Snapshot = max(r.Snapshot, index)
		return r
	})
	if err != nil {
		return err
	}
	return f.noteReached()
}

// Close closes the files, once nobody uses them. What is in the write-ahead log stays
// there.
func (f *logFile) Close() error {
	f.work.Wait()
	var errs []error
	if f.opened {
		errs = append(errs, f.noteReached())
	}
	errs = append(errs, f.metas.Close(), f.home.Close())
	if f.wal != nil {
		errs = append(errs, f.wal.close())
	}
	return errors.Join(errs...)
}
