package replica

import (
	"math/rand/v2"
	"time"
)

// The library looks at the master's silence only when a timer of between one
// and two heartbeat time-outs runs out, whose start has nothing to do with when
// the master was last heard, and looks again as much later when it was a little
// too early: a silent master is suspected after one to three time-outs. As
// nobody gets votes, nor pre-votes, from replicas that still believe in the
// master, it is even the later ones that count, and a cell is without a master
// for nearly two time-outs where one would do.
//
// suspectSilence makes the library look when the time-out, and a random part of
// it, has passed. What it then does is its own business: it checks the silence
// again, and asks for pre-votes before it disturbs anybody.
func (r *Replica) suspectSilence() {
	patience := r.patience()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.quit:
			return
		}
		left := patience - time.Since(r.raft.LastContact())
		if !r.following() {
			left = patience
		} else if left <= 0 {
			r.lookAtSilence()
			patience = r.patience()
			left = patience
		}
		timer.Reset(left)
	}
}

// patience is how long to wait before the master is suspected. The random part
// keeps replicas from campaigning at once, which would split the votes; it is
// much longer than a round trip where the time-out is (Raft, section 5.6).
func (r *Replica) patience() time.Duration {
	return r.opts.HeartbeatTimeout + rand.N(r.opts.HeartbeatTimeout/4)
}

// following reports whether this replica believes in another one as the leader.
// Without any, the library's timers keep those apart who try again.
func (r *Replica) following() bool {
	_, leader := r.raft.LeaderWithID()
	return leader != "" && leader != r.self()
}

// lookAtSilence has the library's follower check now for how long the leader
// has been silent. It does so when the heartbeat time-out is made shorter
// (ReloadConfig), be it by a nanosecond, which is given back at once.
func (r *Replica) lookAtSilence() {
	c := r.raft.ReloadableConfig()
	for _, c.HeartbeatTimeout = range []time.Duration{r.opts.HeartbeatTimeout, r.opts.HeartbeatTimeout + 1} {
		if err := r.raft.ReloadConfig(c); err != nil {
			r.opts.Logger.Error().Err(err).Msg("the library refuses its own settings; a dead master is noticed later")
		}
	}
}
