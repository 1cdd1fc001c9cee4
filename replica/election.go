package replica

import (
	"time"

	"github.com/hashicorp/raft"
)

// suspectSilence makes the library suspect a silent master after about one
// heartbeat time-out. By itself the library needs one to three. It checks when
// a timer of one to two time-outs runs out, and this timer does not start at
// the master's last message. If it runs out a little too early, the next check
// comes one to two time-outs later. A candidate must wait for a majority to
// check, because a replica that still believes in the master grants no vote or
// pre-vote.
//
// So the library gets a longer time-out (libraryTimeout), and suspectSilence
// shortens it when the master is to be suspected. The library then acts as
// usual: it checks the silence again, and asks for pre-votes before it disturbs
// other replicas.
func (r *Replica) suspectSilence() {
	timer := time.NewTimer(r.opts.HeartbeatTimeout)
	defer timer.Stop()
	place := 0 // it keeps its value while there is no master
	var refused *raft.RequestPreVoteRequest
	var instead <-chan time.Time
	for suspected := false; ; {
		select {
		case <-timer.C:
		case refused = <-r.refused:
			if instead == nil {
				before := place
				if string(refused.ID) < string(r.self()) {
					before--
				}
				instead = time.After(r.turns(before))
			}
			continue
		case <-instead:
			instead = nil
			suspected = r.campaignInstead(refused) || suspected
			continue
		case <-r.quit:
			return
		}
		following := r.following()
		if following {
			place = r.place()
		}
		patience := r.patience(place)
		left := patience - time.Since(r.raft.LastContact())
		if suspected {
			r.setTimeout(r.opts.libraryTimeout())
		}
		if suspected = following && left <= 0; suspected {
			r.setTimeout(r.opts.HeartbeatTimeout)
		}
		if left <= 0 || !following {
			left = patience
		}
		timer.Reset(left)
	}
}

// refusedVote notes a candidate that this replica has refused. It never blocks.
func (r *Replica) refusedVote(q *raft.RequestPreVoteRequest) {
	select {
	case r.refused <- q:
	default:
	}
}

// campaignInstead campaigns at once if a candidate was refused because its log
// ends before this replica's. By itself the library waits for an election
// time-out, although this replica is the one that can win. Replicas that
// refused the same candidate take turns, too. It does nothing unless this
// replica is itself a candidate without a leader, one term below the refused
// one. It reports whether it has shortened the library's time-out.
func (r *Replica) campaignInstead(q *raft.RequestPreVoteRequest) bool {
	term := r.raft.CurrentTerm()
	campaigns := func() bool { return !r.following() && r.raft.CurrentTerm() == term && r.raft.State() == raft.Candidate }
	if q.Term != term+1 || !campaigns() {
		return false
	}
	last, err := r.lastStored()
	longer := last.term > q.LastLogTerm || last.term == q.LastLogTerm && last.index > q.LastLogIndex
	if err != nil || !longer || !campaigns() {
		return false
	}
	r.wire.Follow(term, r.quit)
	if r.following() {
		return false
	}
	r.setTimeout(r.opts.libraryTimeout())
	r.setTimeout(r.opts.HeartbeatTimeout)
	return true
}

// libraryTimeout is the library's heartbeat time-out while it need not suspect
// the master.
func (o *Options) libraryTimeout() time.Duration { return o.HeartbeatTimeout * 5 / 4 }

// patience returns how long to wait before the master is suspected. Replicas
// that campaign at once split the votes, which costs another time-out or two.
// Until a majority suspects the master, a candidate is refused anyway. So the
// first voters by place, too few for a majority, wait for one time-out. Each
// later voter waits one turn longer than the voter before it.
func (r *Replica) patience(place int) time.Duration {
	voters := 0
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	return r.opts.HeartbeatTimeout + r.turns(place+1-voters/2)
}

// place returns how many voters, other than the master, come before this replica
// in the order of their ids.
func (r *Replica) place() int {
	_, leader := r.raft.LeaderWithID()
	before := 0
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter && s.ID != leader && s.ID < r.self() {
			before++
		}
	}
	return before
}

// turns returns how long a number of turns takes. A master sends at least one
// message in a turn. The messages reach the replicas at different times. A turn
// is longer than most such differences and an election together.
func (r *Replica) turns(n int) time.Duration {
	return (r.opts.libraryTimeout() - r.opts.HeartbeatTimeout) * time.Duration(max(0, n))
}

// following reports whether this replica believes in another one as the leader.
// Without a leader, the library's own timers keep repeated campaigns apart.
func (r *Replica) following() bool {
	_, leader := r.raft.LeaderWithID()
	return leader != "" && leader != r.self()
}

// setTimeout gives the library a heartbeat time-out. When it becomes shorter, the
// library's follower checks at once how long the leader has been silent.
func (r *Replica) setTimeout(heartbeat time.Duration) {
	c := r.raft.ReloadableConfig()
	c.HeartbeatTimeout = heartbeat
	if err := r.raft.ReloadConfig(c); err != nil {
		r.opts.Logger.Error().Err(err).Msg("the Raft library refused its own settings; a dead master will be noticed later")
	}
}
