package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// roster holds the members that this replica knows, and the removed ones.
type roster struct {
	now     atomic.Pointer[admission.Roster]
	changed chan struct{} // has a value when now is not on the disk yet

	saving sync.Mutex // serializes writes to the disk; locked before mu

	mu   sync.Mutex         // guards what follows, and changes of now; never held for a disk
	kept admission.Identity // the identity as it is on the disk
}

func (l *roster) begin(who admission.Identity) {
	l.kept, l.changed = who, make(chan struct{}, 1)
	l.now.Store(&who.Known)
}

// noteCommitted records a configuration that is known to be committed.
func (r *Replica) noteCommitted(index uint64, conf raft.Configuration) {
	r.committed.note(index, conf)
	var members []string
	for _, s := range conf.Servers {
		members = append(members, string(s.ID))
	}
	r.enroll(func(l *admission.Roster) *admission.Roster { return l.Note(index, members, nil) })
}

// enroll changes the roster, and closes the connections of removed replicas.
func (r *Replica) enroll(change func(*admission.Roster) *admission.Roster) {
	r.roster.mu.Lock()
	was := r.roster.now.Load()
	next := change(was)
	r.roster.now.Store(next)
	r.roster.mu.Unlock()
	if next.Index == was.Index && slices.Equal(next.Removed, was.Removed) {
		return
	}
	select {
	case r.roster.changed <- struct{}{}:
	default:
	}
	if r.peers.host != nil {
		r.peers.host.links.Review()
	}
}

// dirty reports whether the roster on the disk is out of date.
func (l *roster) dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now.Load()
	return now.Index != l.kept.Known.Index || !slices.Equal(now.Removed, l.kept.Known.Removed)
}

// rosterAgain is the pause after a write of the roster that failed.
const rosterAgain = 5 * time.Second

// keepRoster writes the roster to the disk when it has changed. So a replica that
// restarts without a master keeps refusing a removed one. It runs in the
// background, because other work must not wait for a disk.
func (r *Replica) keepRoster() {
	var again <-chan time.Time // nil unless a write has failed
	for open := true; open; {
		select {
		case <-r.roster.changed:
		case <-again:
		case <-r.quit:
			open = false
		}
		repeated := again != nil
		again = nil
		if !r.roster.dirty() {
			continue
		}
		err := r.keep(func(*admission.Identity) {})
		if err != nil {
			again = time.After(rosterAgain)
		}
		if err != nil && !repeated {
			r.opts.Logger.Error().Err(err).Msg("could not write the members of the cell to the data directory; after a restart this replica may accept messages of one that was removed since")
		}
	}
}

// keep writes the changed identity, with the present roster, to the disk.
func (r *Replica) keep(change func(*admission.Identity)) error {
	r.roster.saving.Lock()
	defer r.roster.saving.Unlock()
	r.roster.mu.Lock()
	who := r.roster.kept
	who.Known = *r.roster.now.Load()
	r.roster.mu.Unlock()
	change(&who)
	if err := r.stores.Save(who); err != nil {
		return err
	}
	r.roster.mu.Lock()
	defer r.roster.mu.Unlock()
	r.roster.kept = who
	return nil
}

// CheckSender returns an error if messages of a server must be refused.
//
//   - A member is believed: it is in the latest configuration that this replica
//     knows to be committed, or in a later one in its log, which may be adding
//     it.
//   - A removed server is refused. Removals are on the disk.
//   - Any other server is refused while this replica leads, or has contact with
//     a leader that it knows as a member. The configurations of that leader
//     reach this replica, too.
//   - Without such a leader any other server is believed. This replica may have
//     been away while the members changed, and that server may lead them by
//     now. Raft's servers accept messages "without consulting their current
//     configurations" (Ongaro's thesis, 4.2.2).
//
// A server may be removed and added again while this replica is away. Then this
// replica refuses it until a member reports the later configuration (withoutRemoved).
func (r *Replica) CheckSender(server string) error {
	if r.fsm.restored.Load() {
		r.noteSnapshot()
	}
	now := r.roster.now.Load()
	if now.Lists(server) {
		return nil
	}
	servers := r.logged(now)
	switch {
	case lists(servers, server):
		return nil
	case now.Gone(server):
		return errGone(server)
	case r.isLed(now, servers):
		return fmt.Errorf("%s is not a member of this cell", server)
	}
	return nil
}

// Member returns an error unless this replica knows the server as a member, or
// it is being added. Only a member may report the caller of a forwarded call.
func (r *Replica) Member(server string) error {
	if r.fsm.restored.Load() {
		r.noteSnapshot()
	}
	if now := r.roster.now.Load(); now.Lists(server) || lists(r.logged(now), server) {
		return nil
	}
	return fmt.Errorf("this replica does not know %.80q as a member of the cell", server)
}

// logged returns the servers of the latest configuration in the log if that is
// later than the roster. An earlier one may list a server that was removed since:
// a replica that is added or was away has a log that is behind what members
// have reported.
func (r *Replica) logged(now *admission.Roster) []raft.Server {
	if r.disk.LastConfiguration() <= now.Index {
		return nil
	}
	return r.servers()
}

func errGone(server string) error {
	return fmt.Errorf("%s was removed from this cell; add it again to make it a member", server)
}

func lists(servers []raft.Server, server string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == server })
}

// isLed reports whether this replica leads, or has contact with a leader that
// it knows as a member. It turns false when the library begins to look for
// another leader: a candidate unknown here must still get this replica's vote.
func (r *Replica) isLed(now *admission.Roster, servers []raft.Server) bool {
	_, leader := r.raft.LeaderWithID()
	switch id := string(leader); {
	case id == "":
		return false
	case leader == r.self():
		return r.raft.State() == raft.Leader
	default:
		return (now.Lists(id) || lists(servers, id)) && time.Since(r.raft.LastContact()) < r.opts.HeartbeatTimeout
	}
}

// withoutRemoved returns the answers of replicas that were not removed. It records
// the latest configuration that members among them know.
func (r *Replica) withoutRemoved(answers map[string]admission.Answer) map[string]admission.Answer {
	r.enroll(func(l *admission.Roster) *admission.Roster { return l.Learn(r.CellID(), answers) })
	now := r.roster.now.Load()
	servers := r.logged(now)
	kept := now.Without(answers)
	for name, a := range answers {
		if lists(servers, a.Info.ServerID()) {
			kept[name] = a
		}
	}
	return kept
}
