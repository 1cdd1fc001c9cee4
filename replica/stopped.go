package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/state"
)

// CellOf returns the id of the cell that a data directory belongs to; empty for
// a new or missing directory.
func CellOf(dir string) (string, error) { return datadir.FoundedIn(dir) }

// Stopped is the data directory of a stopped replica, for a cell that has lost
// its majority. Another cell may continue from it.
type Stopped struct {
	Saved
	CellID string    // of the cell that the replica was a member of
	Last   uint64    // index of the log's last entry, which may not be committed
	Time   time.Time // of the log's last command, by its master's clock

	dir    *datadir.Dir
	stores datadir.Stores
}

// AlreadyRecovered is the error of a directory from which another cell
// continues. An earlier Move has founded that cell, and was killed before it
// recorded that.
type AlreadyRecovered struct {
	From string
	datadir.Recovery
}

func (e *AlreadyRecovered) Error() string {
	return fmt.Sprintf("an earlier run founded the cell with id %s in %s from data directory %s: start stoutd on the new directory", e.CellID, e.Into, e.From)
}

// OpenStopped reads the whole state of a replica that does not run: its latest
// snapshot and every entry of the log that continues from it, committed or not. The
// directory stays locked until Close. If a Move was killed, OpenStopped
// completes it; the error is an AlreadyRecovered if nothing is left to do.
func OpenStopped(o Options) (*Stopped, error) {
	o.setDefaults()
	if err := datadir.Empty(o.DataDir); err == nil {
		return nil, fmt.Errorf("data directory %s is empty: there is nothing to recover", o.DataDir)
	}
	dir, begun, err := datadir.LockStopped(o.DataDir, o.Cell, o.ID)
	if err != nil {
		return nil, err
	}
	if err := finishMove(dir, o.DataDir, begun); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	r := &Stopped{dir: dir, CellID: dir.Identity().CellID}
	if !dir.Identity().Founded {
		return nil, errors.Join(fmt.Errorf("data directory %s never belonged to a member: there is nothing to recover", o.DataDir), dir.Close())
	}
	if r.stores, err = dir.Open(o.WAL, o.Logger); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	s, err := r.read()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", o.DataDir, err), r.Close())
	}
	r.Saved, r.Time = Saved{s}, time.Unix(0, s.Now).UTC()
	return r, nil
}

// read returns the state after the last entry.
func (r *Stopped) read() (*state.State, error) {
	if err := raftstore.Continue(r.stores); err != nil {
		return nil, err
	}
	s, upTo, err := r.latestSnapshot()
	if err != nil {
		return nil, err
	}
	if r.Last, err = r.stores.Logs.LastIndex(); err != nil {
		return nil, err
	}
	r.Last = max(r.Last, upTo)
	first, err := r.stores.Logs.FirstIndex()
	if err != nil {
		return nil, err
	}
	for index := max(first, upTo+1); index <= r.Last && first > 0; index++ { // entries before the snapshot do not matter
		var entry raft.Log
		if err := r.stores.Logs.GetLog(index, &entry); err != nil {
			return nil, fmt.Errorf("log entry %d: %w", index, err)
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		batch, err := state.DecodeBatch(entry.Data)
		if err != nil {
			return nil, fmt.Errorf("log entry %d: %w", index, err)
		}
		s, _ = s.Apply(index, entry.Term, batch)
	}
	return s, s.Check()
}

// latestSnapshot returns the state of the latest readable snapshot and the
// index of its last entry; an empty state if there is no snapshot. An earlier
// check ensures that the log has everything behind it.
func (r *Stopped) latestSnapshot() (*state.State, uint64, error) {
	metas, err := r.stores.Snapshots.List()
	if err != nil {
		return nil, 0, err
	}
	for _, m := range metas {
		_, in, err := r.stores.Snapshots.Open(m.ID)
		if err != nil {
			continue // the log reaches back to an earlier one
		}
		s, err := state.Restore(in)
		return s, m.Index, errors.Join(err, in.Close())
	}
	return state.New(), 0, nil
}

// Move founds a cell of one member from the state, as Saved.Found does, and
// ensures that the old directory is never opened again. Two cells that continue
// from one log would grant the same locks, so the order is:
//
//  1. Move records the new directory in the old one.
//  2. It founds the cell.
//  3. It records the cell's id in the old directory.
//
// If a Move is killed, OpenStopped and Move continue from there.
func (r *Stopped) Move(o Options, floor uint64) (cellID string, err error) {
	to := datadir.Recovery{Into: o.DataDir}
	to.CellID, err = r.found(o, floor, func() error { return r.dir.Recover(to) })
	if err != nil {
		return "", err
	}
	return to.CellID, r.dir.Recover(to)
}

// finishMove records the cell that a Move had founded before it was killed.
// Then the error is an AlreadyRecovered.
func finishMove(dir *datadir.Dir, from string, begun datadir.Recovery) (err error) {
	if begun.Into == "" {
		return nil
	}
	if begun.CellID, err = datadir.FoundedIn(begun.Into); err != nil || begun.CellID == "" {
		return err
	}
	if err := dir.Recover(begun); err != nil {
		return err
	}
	return &AlreadyRecovered{from, begun}
}

// Close closes the stores and unlocks the directory.
func (r *Stopped) Close() error { return errors.Join(r.stores.Close(), r.dir.Close()) }
