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

// roll holds the members that this replica knows, and those that were removed.
type roll struct {
	now     atomic.Pointer[admission.Roll]
	changed chan struct{} // has a value when now is not on the disk yet

	saving sync.Mutex // one writes to the disk at a time; it is taken before mu

	mu   sync.Mutex         // guards what follows, and changes of now; never held for a disk
	kept admission.Identity // as it is on the disk
}

func (l *roll) begin(who admission.Identity) {
	l.kept, l.changed = who, make(chan struct{}, 1)
	l.now.Store(&who.Known)
}

// noteCommitted takes a configuration that is known to be committed.
func (r *Replica) noteCommitted(index uint64, conf raft.Configuration) {
	r.committed.note(index, conf)
	var members []string
	for _, s := range conf.Servers {
		members = append(members, string(s.ID))
	}
	r.enroll(func(l *admission.Roll) *admission.Roll { return l.Note(index, members, nil) })
}

// enroll changes the roll, and closes the connections of replicas that were removed.
func (r *Replica) enroll(change func(*admission.Roll) *admission.Roll) {
	r.roll.mu.Lock()
	was := r.roll.now.Load()
	next := change(was)
	r.roll.now.Store(next)
	r.roll.mu.Unlock()
	if next.Index == was.Index && slices.Equal(next.Removed, was.Removed) {
		return
	}
	select {
	case r.roll.changed <- struct{}{}:
	default:
	}
	if r.peers.host != nil {
		r.peers.host.links.Review()
	}
}

// dirty reports whether the disk has another roll.
func (l *roll) dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now.Load()
	return now.Index != l.kept.Known.Index || !slices.Equal(now.Removed, l.kept.Known.Removed)
}

// keepRoll writes the roll to the disk when it has changed: a replica that is started
// again while it has no master believes a removed one no more than before. It is
// beside the work of others, who must not wait for a disk.
func (r *Replica) keepRoll() {
	for open := true; open; {
		select {
		case <-r.roll.changed:
		case <-r.quit:
			open = false
		}
		if !r.roll.dirty() {
			continue
		}
		if err := r.keep(func(*admission.Identity) {}); err != nil {
			r.opts.Logger.Error().Err(err).Msg("the members of the cell could not be written to the data directory; after a restart this replica may believe one that was removed since")
		}
	}
}

// keep changes the identity on the disk.
func (r *Replica) keep(change func(*admission.Identity)) error {
	r.roll.saving.Lock()
	defer r.roll.saving.Unlock()
	r.roll.mu.Lock()
	who := r.roll.kept
	who.Known = *r.roll.now.Load()
	r.roll.mu.Unlock()
	change(&who)
	if err := r.stores.Save(who); err != nil {
		return err
	}
	r.roll.mu.Lock()
	defer r.roll.mu.Unlock()
	r.roll.kept = who
	return nil
}

// Believes returns an error if nothing that a server sends is to be taken.
//
//   - A member is believed: the latest configuration that this replica knows to be
//     committed lists it, or a later one in its log, which may be adding it.
//   - A removed server is refused. Removals are on the disk.
//   - Any other is refused while this replica leads, or hears a leader that it knows
//     as a member: the configurations of that leader reach this replica, too.
//   - Without such a leader it is believed. This replica may have been away while the
//     members changed, and the other may lead them by now. Raft has servers take
//     messages "without consulting their current configurations" (Ongaro's thesis,
//     4.2.2).
//
// A server may be removed and added again while this replica is away. Then it is
// refused here until a member tells the later configuration (believed).
func (r *Replica) Believes(server string) error {
	if r.fsm.restored.Load() {
		r.noteSnapshot()
	}
	now := r.roll.now.Load()
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

// Member returns an error unless a server is a member, as far as this replica knows,
// or is being added: only a member may say who calls.
func (r *Replica) Member(server string) error {
	if r.fsm.restored.Load() {
		r.noteSnapshot()
	}
	if now := r.roll.now.Load(); now.Lists(server) || lists(r.logged(now), server) {
		return nil
	}
	return fmt.Errorf("%.80q is not a member of the cell, as far as this replica knows", server)
}

// logged returns the servers of the latest configuration in the log if that is later
// than the roll. An earlier one may list a server that was removed since: the log of a
// replica that is added or was away is behind what members have told.
func (r *Replica) logged(now *admission.Roll) []raft.Server {
	if r.disk.LastConfiguration() <= now.Index {
		return nil
	}
	return r.servers()
}

func errGone(server string) error {
	return fmt.Errorf("%s was removed from this cell; if it is to be a member again, add it again", server)
}

func lists(servers []raft.Server, server string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == server })
}

// isLed reports whether this replica leads, or hears a leader that is a member as
// far as it knows. It ends when the library begins to look for another leader: a
// candidate that is not known here must get this replica's vote.
func (r *Replica) isLed(now *admission.Roll, servers []raft.Server) bool {
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

// believed returns the answers of replicas that were not removed. It notes the
// latest configuration that members among them know.
func (r *Replica) believed(answers map[string]admission.Answer) map[string]admission.Answer {
	r.enroll(func(l *admission.Roll) *admission.Roll { return l.Learn(r.CellID(), answers) })
	now := r.roll.now.Load()
	servers := r.logged(now)
	kept := now.Without(answers)
	for name, a := range answers {
		if lists(servers, a.Card.ServerID()) {
			kept[name] = a
		}
	}
	return kept
}
