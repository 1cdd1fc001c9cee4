package replica

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// notFound is the text of the library's error for a key without a value.
const notFound = "not found"

// ErrForgotten is the fault of a replica with a directory that has forgotten
// its promises.
var ErrForgotten = errors.New("has lost what it had acknowledged")

// remembers checks, before the library starts, that the stores have what other
// replicas know to be there.
func (r *Replica) remembers() error {
	known := r.peers.Known
	if known == (admission.Stored{}) {
		return nil
	}
	last, err := r.lastStored()
	if err != nil {
		return err
	}
	term, err := r.disk.Votes.GetUint64([]byte(raftstore.KeyTerm))
	if err != nil && err.Error() != notFound {
		return err
	}
	return r.quarantineIf(known.Forgotten(last.index, term))
}

// lastStored returns the last entry of the log or a snapshot.
func (r *Replica) lastStored() (last position, err error) {
	if last.index, err = r.disk.Logs.LastIndex(); err != nil {
		return last, err
	}
	if last.index > 0 {
		var l raft.Log
		if err := r.disk.Logs.GetLog(last.index, &l); err != nil {
			return last, fmt.Errorf("log entry %d: %w", last.index, err)
		}
		last.term = l.Term
	}
	metas, err := r.stores.Snapshots.List()
	if err == nil && len(metas) > 0 && metas[0].Index > last.index {
		last.term, last.index = metas[0].Term, metas[0].Index
	}
	return last, err
}

// forgets is the check of remembers for a replica that runs.
func (r *Replica) forgets(answers map[string]admission.Answer) error {
	last := r.raft.LastIndex() // before the term, see Forgotten
	return r.quarantineIf(admission.Known(answers, r.CellID()).Forgotten(last, r.raft.CurrentTerm()))
}

func (r *Replica) quarantineIf(forgotten error) error {
	if forgotten == nil {
		return nil
	}
	err := fmt.Errorf("data directory %s %w: %w; an older copy may have been restored over it; it will not be opened again: %s",
		r.opts.DataDir, ErrForgotten, forgotten, rafttransport.CureForgotten(r.self()))
	if r.stores.Quarantine == nil {
		return err
	}
	return errors.Join(err, r.stores.Quarantine(err.Error()))
}

// logForgotten logs that this leader sends a follower no more messages.
func (r *Replica) logForgotten(id raft.ServerID, why error) {
	r.opts.Logger.Error().Err(why).Str("replica", string(id)).Msg("a replica has lost what it had acknowledged")
}
