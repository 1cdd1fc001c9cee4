package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const logFileName = "raft.db"

// cure tells what to do about a damaged data directory. The directory is
// evidence, and what it held of votes and entries is gone.
const cure = "keep the directory for analysis, and bring the replica back with an empty one as docs/operations.md says"

// logFile is the log and the votes on disk, in a file of bbolt; see logrecord.go
// for what is in it. It is a raft.LogStore and a raft.StableStore. Each change is
// one transaction, and on the disk when the call returns.
type logFile struct {
	name    string
	db      *bbolt.DB
	changes sync.Mutex             // held over each transaction that writes
	record  atomic.Pointer[record] // as the last transaction wrote it
	checked *contents              // what was found when the file was opened
}

// openLog opens the log in a data directory, or makes one where there is none
// and the replica has not been founded yet. What it opens has been checked from
// end to end; a file that is damaged is not opened, nor changed.
func openLog(dir string, founded bool) (*logFile, error) {
	f := &logFile{name: filepath.Join(dir, logFileName)}
	switch info, err := os.Stat(f.name); {
	case errors.Is(err, os.ErrNotExist) && founded:
		return nil, lostLog(dir)
	case errors.Is(err, os.ErrNotExist):
		return f, f.create(dir)
	case err != nil:
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	case info.Size() == 0 && !founded:
		return f, f.create(dir)
	}
	if err := f.check(dir); err != nil && founded {
		return nil, err
	} else if err != nil {
		// A crash while the replica was founded: nothing was promised yet.
		if err := os.Remove(f.name); err != nil {
			return nil, err
		}
		return f, f.create(dir)
	}
	if err := f.open(dir); err != nil {
		return nil, err
	}
	f.record.Store(&f.checked.record)
	return f, nil
}

func lostLog(dir string) error {
	return fmt.Errorf("data directory %s has lost its log (%s), and with it what this replica has voted and promised; restore the directory as it was, or %s", dir, logFileName, cure)
}

// check reads the whole file while no process writes to it.
func (f *logFile) check(dir string) error {
	var lock *bbolt.DB
	err := guarded(func() (err error) {
		lock, err = bbolt.Open(f.name, 0o600, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return f.inUse(dir)
	}
	if err == nil {
		defer lock.Close()
	}
	f.checked, err = checkLog(f.name)
	if err != nil {
		return fmt.Errorf("data directory %s: %s is damaged: %w; %s", dir, logFileName, err, cure)
	}
	return nil
}

func (f *logFile) inUse(dir string) error {
	return fmt.Errorf("data directory %s is in use by another process (%s is locked)", dir, f.name)
}

// open opens the file for writing, which locks it.
func (f *logFile) open(dir string) error {
	err := guarded(func() (err error) {
		f.db, err = bbolt.Open(f.name, 0o600, &bbolt.Options{
			Timeout:        time.Second,
			FreelistType:   bbolt.FreelistMapType,
			NoFreelistSync: true, // else a file that a burst has grown rewrites its free list in each commit
		})
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return f.inUse(dir)
	case err != nil:
		return fmt.Errorf("data directory %s: open %s: %w", dir, f.name, err)
	}
	return nil
}

func (f *logFile) create(dir string) error {
	if err := f.open(dir); err != nil {
		return err
	}
	f.checked = &contents{}
	err := f.change(func(tx *bbolt.Tx, r *record) error {
		_, err := tx.CreateBucketIfNotExists(logBucket)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("data directory %s: make %s: %w", dir, f.name, err), f.db.Close())
	}
	return nil
}

// guarded turns a panic of bbolt on a damaged file, and a fault in the memory
// that it maps the file to, into an error.
func guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the file is damaged or cannot be read: %v", p)
		}
	}()
	return do()
}

// change is one transaction: what do writes, and the record as do leaves it.
func (f *logFile) change(do func(*bbolt.Tx, *record) error) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	var next record
	if have := f.record.Load(); have != nil {
		next = *have
	}
	err := guarded(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			if err := do(tx, &next); err != nil {
				return err
			}
			b, err := tx.CreateBucketIfNotExists(recordBucket)
			if err != nil {
				return err
			}
			value, err := next.encode()
			if err != nil {
				return err
			}
			return b.Put(recordKey, value)
		})
	})
	if err == nil {
		f.record.Store(&next)
	}
	return err
}

// FirstIndex is the index of the first entry, 0 where there is none.
func (f *logFile) FirstIndex() (uint64, error) { return f.record.Load().First, nil }

// LastIndex is the index of the last entry, 0 where there is none.
func (f *logFile) LastIndex() (uint64, error) { return f.record.Load().Last, nil }

// GetLog reads an entry. It is raft.ErrLogNotFound where there is none.
func (f *logFile) GetLog(index uint64, l *raft.Log) error {
	return guarded(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			key := indexKey(index)
			value := tx.Bucket(logBucket).Get(key)
			if value == nil {
				return raft.ErrLogNotFound
			}
			return decodeEntry(key, value, l)
		})
	})
}

// StoreLog stores one entry.
func (f *logFile) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries, all or none of them.
func (f *logFile) StoreLogs(logs []*raft.Log) error {
	return f.change(func(tx *bbolt.Tx, r *record) error {
		b := tx.Bucket(logBucket)
		for _, l := range logs {
			key, value, err := encodeEntry(l)
			if err != nil {
				return err
			}
			if l.Index > r.Last || b.Get(key) == nil {
				r.Count++
			}
			if err := b.Put(key, value); err != nil {
				return err
			}
			r.Last = max(r.Last, l.Index)
			if r.First == 0 || l.Index < r.First {
				r.First = l.Index
			}
		}
		return nil
	})
}

// DeleteRange deletes the entries from one index to another, both included.
func (f *logFile) DeleteRange(from, to uint64) error {
	return f.change(func(tx *bbolt.Tx, r *record) error {
		b := tx.Bucket(logBucket)
		for i := max(from, r.First); i <= min(to, r.Last) && r.Last > 0; i++ {
			key := indexKey(i)
			if b.Get(key) == nil {
				continue
			}
			if err := b.Delete(key); err != nil {
				return err
			}
			r.Count--
		}
		r.First, r.Last = 0, 0
		if first, _ := b.Cursor().First(); first != nil {
			last, _ := b.Cursor().Last()
			r.First, r.Last = binary.BigEndian.Uint64(first), binary.BigEndian.Uint64(last)
		}
		return nil
	})
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
	return f.change(func(_ *bbolt.Tx, r *record) error {
		*r = r.with(string(key), value)
		return nil
	})
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
	return f.change(func(_ *bbolt.Tx, r *record) error {
		r.Snapshot = max(r.Snapshot, index)
		return nil
	})
}

func (f *logFile) Close() error { return f.db.Close() }
