package replica

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// watch turns the library's observations into Changed, and logs the leader and
// the peers that fell silent. The library's main loop blocks on NotifyCh, so a
// goroutine that neither calls the library nor logs drains it.
func (r *Replica) watch(notify <-chan bool) {
	notices := make(chan raft.Observation, 256)
	observer := raft.NewObserver(notices, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation, raft.RaftState:
			return true
		}
		return false
	})
	r.raft.RegisterObserver(observer)
	r.watching.Go(func() {
		for {
			select {
			case <-notify:
				r.notifyChanged()
			case <-r.quit:
				return
			}
		}
	})
	r.watching.Go(func() {
		defer r.raft.DeregisterObserver(observer)
		silent := map[raft.ServerID]bool{}
		for {
			select {
			case o := <-notices:
				r.noticed(o.Data, silent)
			case <-r.quit:
				return
			}
		}
	})
}

func (r *Replica) notifyChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	r.transfer = 0
}

// noticed handles one observation; silent holds the peers that are known not to
// answer, so that each silence is logged once.
func (r *Replica) noticed(data any, silent map[raft.ServerID]bool) {
	r.vitals.noticed(data, r.self(), r.raft.LastContact(), time.Now())
	switch d := data.(type) {
	case raft.LeaderObservation:
		clear(silent)
		r.notifyChanged()
		switch id, _ := admission.Split(string(d.LeaderID)); id {
		case r.opts.ID: // package master logs when it is in office
		case "":
			r.opts.Logger.Warn().Msg("this replica knows no master")
		default:
			r.opts.Logger.Info().Str("master", id).Msg("this replica follows a master")
		}
	case raft.FailedHeartbeatObservation:
		if !silent[d.PeerID] {
			silent[d.PeerID] = true
			r.opts.Logger.Warn().Str("peer", string(d.PeerID)).Time("last_contact", d.LastContact).
				Msg("a replica does not answer its master")
		}
	case raft.ResumedHeartbeatObservation:
		if silent[d.PeerID] {
			delete(silent, d.PeerID)
			r.opts.Logger.Info().Str("peer", string(d.PeerID)).Msg("a replica answers its master again")
		}
	}
}

// Changed returns a channel that is closed at the next change of leadership
// that this replica learns of. Get it before reading Leading or Leader.
func (r *Replica) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}
