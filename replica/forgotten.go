package replica

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// notFound is how the library tells that a store has no value under a key.
const notFound = "not found"

// ErrForgotten is the fault of a replica whose directory was found to have
// forgotten what it had promised.
var ErrForgotten = errors.New("has lost what it had acknowledged")

// remembers makes sure, before the library starts, that the stores have what
// others know to be there.
func (r *Replica) remembers() error {
	known := r.peers.Known
	if known == (admission.Stored{}) {
		return nil
	}
	last, err := r.disk.Logs.LastIndex()
	if err != nil {
		return err
	}
	metas, err := r.stores.Snapshots.List()
	if err != nil {
		return err
	}
	if len(metas) > 0 {
		last = max(last, metas[0].Index)
	}
	term, err := r.disk.Votes.GetUint64([]byte(raftstore.KeyTerm))
	if err != nil && err.Error() != notFound {
		return err
	}
	return r.quarantineIf(known.Forgotten(last, term))
}

// forgets is the same for a replica that runs.
func (r *Replica) forgets(answers map[string]admission.Answer) error {
	last := r.raft.LastIndex() // before the term, see Forgotten
	return r.quarantineIf(admission.Known(answers, r.CellID()).Forgotten(last, r.raft.CurrentTerm()))
}

func (r *Replica) quarantineIf(forgotten error) error {
	if forgotten == nil {
		return nil
	}
	err := fmt.Errorf("data directory %s %w: %w; perhaps it was put back as it was some time ago; it is not opened again: %s",
		r.opts.DataDir, ErrForgotten, forgotten, rafttransport.CureForgotten(r.self()))
	if r.stores.Quarantine == nil {
		return err
	}
	return errors.Join(err, r.stores.Quarantine(err.Error()))
}

// tellForgotten logs that a follower is sent nothing more.
func (r *Replica) tellForgotten(id raft.ServerID, why error) {
	r.opts.Logger.Error().Err(why).Str("replica", string(id)).Msg("a replica has lost what it had acknowledged")
}
