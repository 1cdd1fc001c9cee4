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

// Cure describes what to do about a damaged data directory.
const Cure = disk.Cure

// ErrDamaged reports that the contents read differ from the contents written.
var ErrDamaged = disk.ErrDamaged

// LostLog returns the error of a data directory that has lost its log.
func LostLog(path string) error { return boltlog.Lost(path) }

// Dir is a data directory that belongs to a replica. It is safe for concurrent
// use.
type Dir struct {
	path string
	lock *os.File // nil if the directory was not locked

	mu       sync.Mutex // guards identity
	identity admission.Identity
}

// Open creates the data directory, or checks that it belongs to this replica of
// this cell. The error is the reason why it must not be opened. No other
// process may have it open: see Lock.
func Open(path, cell, id string) (*Dir, error) { return openIf(path, cell, id, openable) }

// openIf is Open with may as the check whether the directory can be opened.
func openIf(path, cell, id string, may func(dir string) error) (*Dir, error) {
	if err := may(path); err != nil {
		return nil, err
	}
	who, err := identify(path, cell, id)
	return &Dir{path: path, identity: who}, err
}

// openable returns why a directory must not be opened as a replica's, nil if it
// may be.
func openable(dir string) error {
	return cmp.Or(quarantined(dir), recovered(dir))
}

// Lock is Open, and locks the directory against other processes until Close. If
// two processes start at the same time in a new one, only one creates its id.
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

// Identity returns the replica and the cell that the directory belongs to.
func (d *Dir) Identity() admission.Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity
}

// Save stores a changed identity durably; Identity returns it from then on.
func (d *Dir) Save(who admission.Identity) error {
	if err := writeIdentity(d.path, who); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = who
	return nil
}

// Close unlocks the directory.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// Stores hold what a replica must not forget. Each write is synced when the
// call returns.
type Stores struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore
	// Identity is the replica and the cell that the stores belong to.
	Identity admission.Identity
	// Save stores a changed identity durably.
	Save func(admission.Identity) error
	// Quarantine durably prevents the stores from being opened again. The
	// reason is a state that differs from its peers', or that the replica has
	// forgotten what it had stored. May be nil.
	Quarantine func(why string) error
	// Close closes the stores.
	Close func() error
}

// Open opens or creates the stores. It recovers from a crash, and refuses
// damaged stores. wal turns on the write-ahead log before raft-boltdb.
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

// openSnapshots opens the snapshots. It checks that everything the replica has
// acknowledged is in the latest readable snapshot and the log behind it. Raft
// itself would use an earlier snapshot, or an empty state, as if it were
// complete.
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
		return nil, fmt.Errorf("data directory %s: a snapshot in %s is damaged or missing: this replica has acknowledged everything up to entry %d, but has a snapshot up to %d and log entries from %d to %d; %s",
			d.path, snaps.Dir(), reach, have, first, last, disk.Cure)
	}
	return snaps, nil
}
