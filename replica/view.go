package replica

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// ID returns this replica's id.
func (r *Replica) ID() string { return r.opts.ID }

// Now reads the replica's clock.
func (r *Replica) Now() time.Duration { return r.opts.Clock() }

// Drift bounds how far the replica's clock runs from true time.
func (r *Replica) Drift() lease.Drift { return r.opts.drift() }

// LeaseTerm returns the term of the lease that this replica's batches carry
// when it is master.
func (r *Replica) LeaseTerm() time.Duration { return r.opts.MasterLease }

// State returns the state after the last entry applied here. On a master that
// holds its lease it has every acknowledged change; elsewhere it may lag.
func (r *Replica) State() *state.State { return r.fsm.current.Load() }

// Events returns the latest events applied here. State shows a change before
// Events reports it.
func (r *Replica) Events() *events.Ring { return r.fsm.publisher.events }

// Leading reports whether this replica leads, and in which Raft term. Leading
// does not authorize acting; see package master.
func (r *Replica) Leading() (term uint64, ok bool) {
	if r.raft.State() != raft.Leader {
		return 0, false
	}
	return r.raft.CurrentTerm(), true
}

// Leader returns the name of the replica that this one believes to lead, or "".
func (r *Replica) Leader() string {
	_, id := r.raft.LeaderWithID()
	name, _ := admission.Split(string(id))
	return name
}

// PromisedBefore returns the instant from which a master of the given Raft term
// must wait out its predecessors: see lease.Promises.Before.
func (r *Replica) PromisedBefore(term uint64) time.Duration { return r.promises.Before(term) }

// Promise returns what this replica has promised: the only master that may act,
// and for how much longer. It is false if nothing is promised.
func (r *Replica) Promise() (to string, remaining time.Duration, ok bool) {
	office := r.State().Office
	if !office.Open {
		return "", 0, false
	}
	term := time.Duration(office.LeaseMS) * time.Millisecond
	remaining = r.promises.Last() + r.Drift().Long(term) - r.Now()
	return office.Master, remaining, remaining > 0
}

// URL returns the base URL of a replica's API, empty for an unknown one.
func (r *Replica) URL(id string) string {
	return r.member(id).APIURL
}

// member returns a member's addresses. The cell's state counts first if the
// addresses were put there (state.PutMember), then this replica's settings,
// then a master's settings. For a name that is unknown, or known only to Raft's
// configuration, the addresses are empty.
func (r *Replica) member(name string) membership.Member {
	noted, known := r.State().MemberNamed(name)
	if m, ok := r.opts.member(name); ok && !noted.Put {
		return m
	}
	if !known {
		return membership.Member{ID: name}
	}
	return membership.Member{ID: name, RaftAddr: noted.RaftAddr, APIURL: noted.URL}
}

// Health describes the replica now.
func (r *Replica) Health() membership.Health {
	h := membership.Health{Applied: r.raft.AppliedIndex(), HasLeader: true}
	if commit := r.raft.CommitIndex(); commit > h.Applied {
		h.Behind = commit - h.Applied
	}
	if r.raft.State() == raft.Leader {
		return h
	}
	last := r.raft.LastContact()
	if h.HasLeader = !last.IsZero(); h.HasLeader {
		h.Contact = time.Since(last)
	}
	return h
}
