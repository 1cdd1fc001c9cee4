package boltlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/wal"
)

// FileName is the name of raft-boltdb's file in the data directory.
const FileName = "raft.db"

// Log is the log and the votes on disk; see the package comment. It is a
// raft.LogStore and a raft.StableStore. Each change is on the disk when the
// call returns.
type Log struct {
	name  string
	bolt  boltStore
	metas *os.File // the same file, to read its meta pages
	wal   *wal.Log // nil without one

	opened bool // completely

	transactions sync.Mutex // held over each transaction, and over both of a deletion; locked before changes. Guards failed
	failed       error      // of a transaction; none follows it: a later sync could report lost writes as stored
	noting       sync.Mutex // of the high-water mark; locked before changes

	changes  sync.Mutex               // guards wal, flushing and each change of manifest
	manifest atomic.Pointer[manifest] // the contents after the last write
	flushing bool                     // flush runs or is about to
	work     sync.WaitGroup           // runs flush
}

// boltStore is the part of raft-boltdb that Log needs. It stores the entries of
// one call all or not at all, in any order and with gaps.
type boltStore interface {
	raft.LogStore
	io.Closer
}

// Open opens the log in a data directory. If the log is missing and the replica
// has not been founded yet, Open creates one. The log is checked from end to
// end before it is opened for writing. A damaged file is not opened for
// writing, and not changed.
//
// ahead turns on a write-ahead log. Entries that the last start left in one are
// found in either case.
func Open(dir string, founded, ahead bool) (*Log, error) {
	f := &Log{name: filepath.Join(dir, FileName)}
	switch info, err := os.Stat(f.name); {
	case errors.Is(err, os.ErrNotExist) && founded:
		return nil, Lost(dir)
	case errors.Is(err, os.ErrNotExist):
		return f.orNone(f.create(dir, ahead))
	case err != nil:
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	case info.Size() == 0 && !founded:
		return f.orNone(f.create(dir, ahead))
	}
	checked, left, err := checkLog(f.name)
	var behind []*raft.Log
	if err == nil {
		var next uint64
		if behind, next, err = checked.readWAL(dir); err == nil {
			err = checkHighWater(dir, checked, next)
		}
	}
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, f.inUse(dir)
	case err != nil && founded:
		return nil, fmt.Errorf("data directory %s: %s is damaged: %w; %s", dir, FileName, err, disk.Cure)
	case err != nil:
		// A crash interrupted the founding: the replica had promised nothing
		// yet.
		if err := os.Remove(f.name); err != nil {
			return nil, fmt.Errorf("data directory %s: %w", dir, err)
		}
		return f.orNone(f.create(dir, ahead))
	}
	return f.orNone(f.open(dir, checked, left, behind, ahead))
}

// orNone returns the log, or nil and the error of opening it.
func (f *Log) orNone(err error) (*Log, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Lost returns the error of a log that must exist and does not.
func Lost(dir string) error {
	return fmt.Errorf("data directory %s has lost its log (%s), and with it this replica's votes and promises; restore the complete directory, or %s", dir, FileName, disk.Cure)
}

func (f *Log) inUse(dir string) error {
	return fmt.Errorf("data directory %s is in use by another process (%s is locked)", dir, f.name)
}

// openBolt opens a file of raft-boltdb, which locks it.
func openBolt(name string, readOnly bool) (store *raftboltdb.BoltStore, err error) {
	err = recovering(func() (err error) {
		store, err = raftboltdb.New(raftboltdb.Options{
			Path: name,
			BoltOptions: &bbolt.Options{
				Timeout:        time.Second,
				ReadOnly:       readOnly,
				FreelistType:   bbolt.FreelistMapType,
				NoFreelistSync: true, // otherwise a file that a burst has grown rewrites its free list in each commit
			},
		})
		return err
	})
	return store, err
}

// lock opens the file for writing.
func (f *Log) lock(dir string) error {
	store, err := openBolt(f.name, false)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return f.inUse(dir)
	case err != nil:
		return fmt.Errorf("data directory %s: open %s: %w", dir, f.name, err)
	}
	f.bolt = store
	if f.metas, err = os.Open(f.name); err != nil {
		return errors.Join(fmt.Errorf("data directory %s: %w", dir, err), store.Close())
	}
	return nil
}

// create creates the files, with the first manifest.
func (f *Log) create(dir string, ahead bool) error {
	if err := f.lock(dir); err != nil {
		return err
	}
	f.manifest.Store(&manifest{})
	err := f.begin(dir, nil, ahead)
	if err == nil {
		err = f.noteHighWater()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("data directory %s: make %s: %w", dir, f.name, err), f.Close())
	}
	f.opened = true
	return nil
}

// open opens files that were checked, deletes left-over entries, and moves the
// entries behind the manifest to raft-boltdb.
func (f *Log) open(dir string, checked *manifest, left spans, behind []*raft.Log, ahead bool) error {
	if err := f.lock(dir); err != nil {
		return err
	}
	have, err := readManifest(f.bolt)
	if err == nil && !reflect.DeepEqual(have, checked) {
		err = errors.New("another process wrote to it after it was checked")
	}
	if err == nil {
		err = f.eraseLeftovers(*have, left)
	}
	if err == nil {
		err = f.begin(dir, behind, ahead)
	}
	if err == nil {
		err = f.noteHighWater()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("data directory %s: open %s: %w", dir, f.name, err), f.Close())
	}
	f.opened = true
	return nil
}

// begin writes the manifest and the entries behind it again. The check may have
// read the last transaction from the system's cache, and the disk may not have
// it. Then the write-ahead log is empty; without ahead it is removed.
func (f *Log) begin(dir string, behind []*raft.Log, ahead bool) error {
	if !ahead {
		err := f.transact(behind, func(r manifest) manifest { r.WAL = wal.Mark{}; return r })
		if err != nil {
			return err // the entries of the write-ahead log are nowhere else
		}
		return wal.Remove(dir)
	}
	used := uint64(0) // highest generation
	if was := f.manifest.Load().WAL; was != (wal.Mark{}) {
		used = was.Generation + 1
	} else if err := wal.Create(dir); err != nil {
		return err
	}
	ready, err := wal.Open(dir, used)
	if err != nil {
		return err
	}
	f.wal = ready
	return f.transact(behind, unchanged)
}

func (f *Log) eraseLeftovers(r manifest, left spans) error {
	f.manifest.Store(&r)
	for ; len(left) > 0; left = left[1:] {
		if err := f.transact(nil, func(r manifest) manifest { r.Deleted = left; return r }); err != nil {
			return err
		}
		if err := f.erase(left[0].First, left[0].Last); err != nil {
			return err
		}
	}
	r = *f.manifest.Load()
	r.Deleted = nil
	f.manifest.Store(&r)
	return nil
}

// recovering turns two failures into an error: a panic of bbolt on a damaged
// file, and a fault in the memory that it maps the file to.
func recovering(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the file is damaged or cannot be read: %v", p)
		}
	}()
	return do()
}
