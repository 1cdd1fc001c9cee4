package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// applied returns the index of the last entry from a master that this replica
// has applied.
func (r *Replica) applied() uint64 { return r.fsm.current.Load().Index }

// CureLostChanges describes what to do when a replica knows of acknowledged
// changes that its master lacks.
const CureLostChanges = "an older copy of another member's data directory was restored, or its disk lost writes; " +
	`keep every data directory unchanged, and see "When acknowledged changes are lost" in docs/operations.md`

// lost ends this replica, which knows of committed entries that its master
// lacks. If it followed that master, now or after a restart, it would remove
// the last copy of them. Before it ends it refuses the master's messages, so
// that the master logs the fault.
func (r *Replica) lost(why error) {
	err := fmt.Errorf("%w; %s", why, CureLostChanges)
	if !r.lacking.CompareAndSwap(nil, &err) {
		return
	}
	if r.stores.Quarantine != nil {
		err = errors.Join(err, r.stores.Quarantine(err.Error()))
	}
	r.opts.Logger.Error().Err(err).Msg("the cell has lost acknowledged changes; this replica does not follow its master")
	time.AfterFunc(r.opts.HeartbeatTimeout, func() { r.fail(err) })
}

// lostChanges returns the error of lost, nil before.
func (r *Replica) lostChanges() error {
	if err := r.lacking.Load(); err != nil {
		return *err
	}
	return nil
}

// logLost logs at the master that a follower refuses its entries.
func (r *Replica) logLost(id raft.ServerID, why error) {
	r.opts.Logger.Error().Err(why).Str("replica", string(id)).Msg("a replica knows of acknowledged changes that this master lacks")
}
