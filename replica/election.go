package replica

import (
	"math/rand/v2"
	"time"
)

// By itself the library suspects a silent master only after one to three
// heartbeat time-outs. It checks when a timer of one to two time-outs runs out.
// That timer does not start at the master's last message. If it runs out a
// little too early, the next check comes one to two time-outs later. Among the
// replicas the later checks count, because a replica that still believes in the
// master grants no vote or pre-vote. So a cell is without a master for nearly
// two time-outs where one would do.
//
// suspectSilence makes the library check after one time-out plus a random part
// of it. The library then acts as usual: it checks the silence again, and asks
// for pre-votes before it disturbs other replicas.
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

// patience returns how long to wait before the master is suspected. The random
// part keeps replicas from campaigning at once, which would split the votes. It
// is much longer than a round trip if the time-out is (Raft, section 5.6).
func (r *Replica) patience() time.Duration {
	return r.opts.HeartbeatTimeout + rand.N(r.opts.HeartbeatTimeout/4)
}

// following reports whether this replica believes in another one as the leader.
// Without a leader, the library's own timers keep repeated campaigns apart.
func (r *Replica) following() bool {
	_, leader := r.raft.LeaderWithID()
	return leader != "" && leader != r.self()
}

// lookAtSilence makes the library's follower check now how long the leader has
// been silent. The library does so when ReloadConfig shortens the heartbeat
// time-out, if only by a nanosecond. The nanosecond is given back at once.
func (r *Replica) lookAtSilence() {
	c := r.raft.ReloadableConfig()
	for _, c.HeartbeatTimeout = range []time.Duration{r.opts.HeartbeatTimeout, r.opts.HeartbeatTimeout + 1} {
		if err := r.raft.ReloadConfig(c); err != nil {
			r.opts.Logger.Error().Err(err).Msg("the Raft library refused its own settings; a dead master will be noticed later")
		}
	}
}
