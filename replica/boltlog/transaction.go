package boltlog

import (
	"slices"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/faultpoint"
)

// write stores a change of the manifest, and entries that follow it, in one
// transaction, together with the contents of the write-ahead log. The
// write-ahead log keeps accepting entries during the transaction; they follow
// the change.
func (f *Log) write(logs []*raft.Log, change func(manifest) manifest) error {
	f.transactions.Lock()
	defer f.transactions.Unlock()
	return f.transact(logs, change)
}

// transact is write for a caller that holds transactions, or has the file
// alone.
func (f *Log) transact(logs []*raft.Log, change func(manifest) manifest) error {
	if f.failed != nil {
		return f.failed
	}
	next, full, err := f.rotate(change)
	if err != nil {
		return err
	}
	next = next.including(logs)
	err = f.commit(slices.Concat(full, logs), &next)
	f.failed = err
	f.changes.Lock()
	defer f.changes.Unlock()
	if f.wal != nil {
		f.wal.Flushed(err)
	}
	if err != nil {
		return err
	}
	if f.wal != nil {
		next = next.including(f.wal.Fresh())
	}
	f.manifest.Store(&next)
	return nil
}

// rotate starts the next generation of the write-ahead log. It returns the
// manifest that names it, and the entries of the previous generation.
func (f *Log) rotate(change func(manifest) manifest) (next manifest, full []*raft.Log, err error) {
	f.changes.Lock()
	defer f.changes.Unlock()
	next = change(*f.manifest.Load())
	if f.wal != nil {
		full, next.WAL, err = f.wal.Rotate()
	}
	return next, full, err
}

func unchanged(r manifest) manifest { return r }

// flush moves the entries of the write-ahead log to raft-boltdb, while the log
// accepts more. The next write returns its error.
func (f *Log) flush() {
	_ = f.write(nil, unchanged) // the write-ahead log keeps the error
	f.changes.Lock()
	defer f.changes.Unlock()
	f.flushing = false
}

// commit makes one transaction, and records its number in the manifest.
func (f *Log) commit(logs []*raft.Log, next *manifest) error {
	latest, _, err := readMetas(f.metas)
	if err != nil {
		return err
	}
	next.Transaction = latest.txid + 1
	entry, err := next.entry()
	if err != nil {
		return err
	}
	all := make([]*raft.Log, 0, len(logs)+1)
	for _, l := range logs {
		all = append(all, sealed(l))
	}
	all = append(all, sealed(entry))
	if err := faultpoint.Err(faultpoint.StoreCommit); err != nil {
		return err
	}
	return recovering(func() error { return f.bolt.StoreLogs(all) })
}

// erase deletes entries that the manifest lists as deleted. Its callers are as
// for transact.
func (f *Log) erase(from, to uint64) error {
	if err := faultpoint.Err(faultpoint.StoreCommit); err != nil {
		return err
	}
	return recovering(func() error { return f.bolt.DeleteRange(from, to) })
}

// storeAhead stores entries in the write-ahead log, and starts a flush in time.
// It returns false if there is no write-ahead log or no space in it. The latter
// happens when entries come faster than the disk stores them.
func (f *Log) storeAhead(logs []*raft.Log) (stored bool, err error) {
	f.changes.Lock()
	defer f.changes.Unlock()
	if f.wal == nil || !f.wal.Fits(logs) {
		return false, nil
	}
	if err := f.wal.Append(logs); err != nil {
		return false, err
	}
	next := f.manifest.Load().including(logs)
	f.manifest.Store(&next)
	if f.wal.Full() && !f.flushing {
		f.flushing = true
		f.work.Go(f.flush)
	}
	return true, nil
}
