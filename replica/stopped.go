package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/state"
)

// Stopped is the data directory of a replica that does not run, for a cell whose
// majority is lost: another cell may go on from what it has.
type Stopped struct {
	Saved
	CellID string    // of the cell that it was a member of
	Last   uint64    // the last entry of its log: nobody can tell whether it was committed
	Time   time.Time // of the last command in it, by its master's clock

	dir    *datadir.Dir
	stores datadir.Stores
}

// AlreadyRecovered is the error of a directory from which another cell goes on: an earlier
// Move has founded it, and was killed before it noted that.
type AlreadyRecovered struct {
	From string
	datadir.Recovery
}

func (e *AlreadyRecovered) Error() string {
	return fmt.Sprintf("an earlier run has founded the cell with id %s in %s from data directory %s: start stoutd there", e.CellID, e.Into, e.From)
}

// OpenStopped reads the whole state of a replica that does not run: its latest
// snapshot, and every entry of the log behind it, committed or not. Nobody else can
// have the directory before Close. It goes on where a Move was killed: the error is an
// AlreadyRecovered if there is nothing left to do.
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
		return nil, errors.Join(fmt.Errorf("data directory %s was never a member's: there is nothing to recover", o.DataDir), dir.Close())
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

// read is the state after the last entry.
func (r *Stopped) read() (*state.State, error) {
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
	for index := max(first, upTo+1); index <= r.Last && first > 0; index++ { // what a log has before is no matter
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

// latestSnapshot is the state of the latest that can be read, and the entry up to which
// it has all; an empty one where there is none. That the log has all behind it was made
// sure of.
func (r *Stopped) latestSnapshot() (*state.State, uint64, error) {
	metas, err := r.stores.Snapshots.List()
	if err != nil {
		return nil, 0, err
	}
	for _, m := range metas {
		_, in, err := r.stores.Snapshots.Open(m.ID)
		if err != nil {
			continue // the log goes on from an earlier one
		}
		s, err := state.Restore(in)
		return s, m.Index, errors.Join(err, in.Close())
	}
	return state.New(), 0, nil
}

// Move founds a cell of one from the state, as Saved.Found does, and has the old
// directory never opened again. It notes the new directory there before the cell is
// founded, and the cell's id after: two cells that go on from one log would give the same
// locks. OpenStopped and Move go on where a Move was killed.
func (r *Stopped) Move(o Options, floor uint64) (cellID string, err error) {
	to := datadir.Recovery{Into: o.DataDir}
	to.CellID, err = r.found(o, floor, func() error { return r.dir.Recover(to) })
	if err != nil {
		return "", err
	}
	return to.CellID, r.dir.Recover(to)
}

// finishMove notes the cell that a Move has founded before it was killed. The error is an
// AlreadyRecovered then.
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

// Close lets others have the directory.
func (r *Stopped) Close() error { return errors.Join(r.stores.Close(), r.dir.Close()) }
