package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/boltlog"
	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/snapshots"
)

// Cure tells what to do about a damaged data directory.
const Cure = disk.Cure

// ErrDamaged says that something was read which is not what was written.
var ErrDamaged = disk.ErrDamaged

// LostLog is the error of a data directory whose log has to be there and is
// not.
func LostLog(path string) error { return boltlog.Lost(path) }

// Dir is a data directory that belongs to a replica. It is safe for concurrent
// use.
type Dir struct {
	path string
	lock *os.File // nil where it was not locked

	mu  sync.Mutex // guards who
	who admission.Identity
}

// Open makes the data directory, or makes sure that it belongs to this very
// replica of this very cell. The error says why it must not be opened. Nobody
// else may have it meanwhile: see Lock.
func Open(path, cell, id string) (*Dir, error) { return openIf(path, cell, id, openable) }

// openIf is Claim of a directory for which may is nil.
func openIf(path, cell, id string, may func(dir string) error) (*Dir, error) {
	if err := may(path); err != nil {
		return nil, err
	}
	who, err := identify(path, cell, id)
	return &Dir{path: path, who: who}, err
}

// openable is why a directory is not to be opened as a replica's, nil where it may be.
func openable(dir string) error {
	return cmp.Or(quarantined(dir), recovered(dir))
}

// Lock is Claim in a directory that no other process has, nor gets before
// Close. Of two that start at the same time in a new one, one makes its id.
func Lock(path, cell, id string) (*Dir, error) { return lock(path, cell, id, openable) }

func lock(path, cell, id string, may func(dir string) error) (*Dir, error) {
	if err := disk.MakeDir(path); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	locked, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d, err := openIf(path, cell, id, may)
	if err != nil {
		return nil, errors.Join(err, locked.Close())
	}
	d.lock = locked
	return d, nil
}

// Identity tells whose directory it is, and of which cell.
func (d *Dir) Identity() admission.Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.who
}

// Save keeps a changed identity, durably, and shows it from then on.
func (d *Dir) Save(who admission.Identity) error {
	if err := writeIdentity(d.path, who); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.who = who
	return nil
}

// Close lets others have the directory.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// Stores are what a replica must not forget. Each has synced what it was given
// when it returns.
type Stores struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore
	// Identity tells whose stores they are, and of which cell.
	Identity admission.Identity
	// Save keeps a changed identity, durably.
	Save func(admission.Identity) error
	// Quarantine sees to it, durably, that the stores are not opened again,
	// because the replica's state differs from its peers', or it has forgotten
	// what it had stored. May be nil.
	Quarantine func(why string) error
	// Close closes the stores.
	Close func() error
}

// Open opens the stores, or makes them. It recovers what a crash has left, and
// refuses what is damaged. wal says whether entries go to a write-ahead log
// before they go to raft-boltdb.
func (d *Dir) Open(wal bool, logger zerolog.Logger) (Stores, error) {
	who := d.Identity()
	log, err := boltlog.Open(d.path, who.Founded, wal)
	if err != nil {
		return Stores{}, err
	}
	snaps, err := d.openSnapshots(log, logger)
	if err != nil {
		return Stores{}, errors.Join(err, log.Close())
	}
	return Stores{
		Logs: log, Votes: log, Snapshots: snaps, Identity: who, Save: d.Save,
		Quarantine: func(why string) error { return quarantine(d.path, why) },
		Close:      log.Close,
	}, nil
}

// openSnapshots opens them and makes sure that what the replica has
// acknowledged is all there, in the latest snapshot that can be read and the
// log behind it. Raft itself would take an earlier snapshot, or none, for all
// that there ever was.
func (d *Dir) openSnapshots(log *boltlog.Log, logger zerolog.Logger) (*snapshots.Store, error) {
	snaps, err := snapshots.Open(d.path, logger, log.NoteSnapshot)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.path, err)
	}
	have, err := snaps.LastSound(logger)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.path, err)
	}
	if reach := log.Reach(); !log.Holds(have+1, reach) {
		first, _ := log.FirstIndex()
		last, _ := log.LastIndex()
		return nil, fmt.Errorf("data directory %s: a snapshot in %s is damaged or missing: this replica has acknowledged everything up to entry %d, and has a snapshot up to %d and log entries from %d to %d; %s",
			d.path, snaps.Dir(), reach, have, first, last, disk.Cure)
	}
	return snaps, nil
}
