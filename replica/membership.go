package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// CellID returns the id of the cell that this replica belongs to.
func (r *Replica) CellID() string { return r.stores.Identity.CellID }

// Directory returns the id of this replica's data directory.
func (r *Replica) Directory() string { return r.stores.Identity.Directory }

func (r *Replica) self() raft.ServerID { return raft.ServerID(r.stores.Identity.ServerID()) }

// Membership returns the latest configuration in this replica's log, committed
// or not.
func (r *Replica) Membership() (membership.Membership, error) {
	changing := r.changing.Load() > 0 // before the configuration, which includes changes that have ended since
	future := r.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return membership.Membership{}, err
	}
	r.noteSnapshot()
	m := membership.Membership{Index: max(r.disk.LastConfiguration(), r.committed.latest()), Changing: changing}
	for _, s := range future.Configuration().Servers {
		m.Members = append(m.Members, r.statusOf(s))
	}
	slices.SortStableFunc(m.Members, func(a, b membership.MemberStatus) int { return strings.Compare(a.ID, b.ID) })
	return m, nil
}

// Members returns the members of Membership, sorted by name.
func (r *Replica) Members() []membership.MemberStatus {
	m, _ := r.Membership()
	return m.Members
}

func (r *Replica) statusOf(s raft.Server) membership.MemberStatus {
	name, directory := admission.Split(string(s.ID))
	_, at := rafttransport.SplitAddress(s.Address)
	m := r.member(name)
	if m.RaftAddr == "" {
		m.RaftAddr = at
	}
	id := string(s.ID)
	return membership.MemberStatus{
		Member: m, Directory: directory, Voter: s.Suffrage == raft.Voter, At: at,
		Answers: r.wire.Answers(id), Refuses: r.wire.Refuses(id),
	}
}

// voter returns the voting member of a name.
func (r *Replica) voter(name string) (raft.Server, error) {
	future := r.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return raft.Server{}, err
	}
	for _, s := range future.Configuration().Servers {
		if n, _ := admission.Split(string(s.ID)); n == name && s.Suffrage == raft.Voter {
			return s, nil
		}
	}
	return raft.Server{}, fmt.Errorf("replica %q does not vote in this cell", name)
}

// changeTimeout is how long a change waits until an earlier change, and a
// leader's first entry, are committed.
const changeTimeout = 500 * time.Millisecond

// ChangeMember makes one change of the membership, if the latest configuration
// is still the one at index since. It returns when the change is committed.
// Before the change, the library waits until the previous one and an entry of
// the leader's own term are committed. The error is membership.ErrBusy,
// membership.ErrNotApplied or membership.ErrUnknown. A change that ctx cut
// short may still be made; Membership reports it as changing until it ends.
func (r *Replica) ChangeMember(ctx context.Context, since uint64, change membership.Change, s membership.MemberStatus) error {
	server := admission.ServerID(s.ID, s.Directory)
	id, addr := raft.ServerID(server), rafttransport.Address(server, s.RaftAddr)
	var future raft.IndexFuture
	r.changing.Add(1)
	switch change {
	case membership.AddNonvoter:
		future = r.raft.AddNonvoter(id, addr, since, changeTimeout)
	case membership.MakeVoter:
		future = r.raft.AddVoter(id, addr, since, changeTimeout)
	case membership.RemoveMember:
		future = r.raft.RemoveServer(id, since, changeTimeout)
	case membership.DemoteMember:
		future = r.raft.DemoteVoter(id, since, changeTimeout)
	case membership.MoveMember:
		// AddNonvoter changes only the address of an existing member: a voter
		// stays one.
		future = r.raft.AddNonvoter(id, addr, since, changeTimeout)
	}
	select {
	case err := <-wait.Err(func() error { defer r.changing.Add(-1); return future.Error() }):
		return r.classifyChange(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", membership.ErrUnknown, ctx.Err())
	}
}

func (r *Replica) classifyChange(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return membership.ErrBusy
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", membership.ErrNotApplied, err)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%w: %w", membership.ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", membership.ErrBusy, err) // the library checked since itself
}

// committed is the latest configuration that is known to be committed.
type committed struct {
	mu     sync.Mutex
	index  uint64
	ids    []string
	voters []string // a subset of ids
}

func (c *committed) note(index uint64, conf raft.Configuration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if index <= c.index {
		return
	}
	c.index, c.ids, c.voters = index, nil, nil
	for _, s := range conf.Servers {
		c.ids = append(c.ids, string(s.ID))
		if s.Suffrage == raft.Voter {
			c.voters = append(c.voters, string(s.ID))
		}
	}
}

func (c *committed) latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index
}

// Info returns what this replica reports about itself to the others.
func (r *Replica) Info() admission.Info {
	card := r.opts.card(r.stores.Identity)
	// Read the state's index before the configuration. Configurations arrive in
	// the log's order, so the configuration is then the latest up to that
	// index. The library's own index includes entries that it has only queued.
	applied := r.State().Index
	known := r.noteSnapshot()
	r.committed.mu.Lock()
	card.Members, card.Voters, card.ConfigIndex = r.committed.ids, r.committed.voters, r.committed.index
	r.committed.mu.Unlock()
	if card.Applied = card.ConfigIndex; known {
		card.Applied = max(applied, card.ConfigIndex)
	}
	card.HasLeader = r.hasLeader()
	card.Sync, card.Writing = uint64(r.disk.Sync().Microseconds()), uint64(r.disk.WritingFor().Microseconds())
	card.Unsent = r.snapshots.unsent.Load()
	card.Removed = r.roster.now.Load().Removed
	return card
}

// InfoFor is Info for a directory that asks, named by its server id.
func (r *Replica) InfoFor(server string) admission.Info {
	card := r.Info()
	if card.Leads = r.raft.State() == raft.Leader; card.Leads {
		card.Stored = r.wire.Stored(server, r.raft.CurrentTerm())
	}
	return card
}

// noteSnapshot records the configuration of the latest snapshot:
// StoreConfiguration does not receive the configurations of an installed
// snapshot. It reports whether the configuration of every snapshot restored
// before the call is recorded.
func (r *Replica) noteSnapshot() (known bool) {
	r.notingSnapshot.Lock()
	defer r.notingSnapshot.Unlock()
	if !r.fsm.restored.Swap(false) {
		return true
	}
	metas, err := r.stores.Snapshots.List()
	if err != nil || len(metas) == 0 {
		r.fsm.restored.Store(true)
		return false
	}
	r.noteCommitted(metas[0].ConfigurationIndex, metas[0].Configuration)
	return true
}

// hasLeader reports whether this replica leads, or has had contact with a leader
// lately.
func (r *Replica) hasLeader() bool {
	if r.raft.State() == raft.Leader {
		return true
	}
	last := r.raft.LastContact()
	return !last.IsZero() && time.Since(last) < 2*r.opts.HeartbeatTimeout
}

// askNames returns the names of replicas that may know this one: the names in
// the founding list, or of the cell to join, and the names in the
// configurations of its log.
func (r *Replica) askNames(ctx context.Context) []string {
	names := r.opts.names()
	if r.peers.Others != nil {
		names, _ = r.peers.Others(ctx) // on an error, the names that are known
	}
	for _, id := range r.memberIDs() {
		if name, _ := admission.Split(id); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Ask asks a member for its card. id is a server id, or a name, which means the
// voting directory of that name. It returns the card of another directory of
// that name only if the wanted one answers at no known address.
func (r *Replica) Ask(ctx context.Context, id string) (admission.Info, error) {
	name, directory := admission.Split(id)
	if name == r.opts.ID {
		return r.Info(), nil
	}
	if votes, err := r.voter(name); directory == "" && err == nil {
		id = string(votes.ID)
	}
	if r.peers.Ask == nil {
		return admission.Info{}, errors.New("this replica has no way to ask other replicas")
	}
	return r.peers.Ask(ctx, id)
}

// ErrReplaced is the fault of a replica that another directory has replaced in
// the cell. ErrRemoved is the fault of a replica that the cell has removed.
var (
	ErrReplaced = errors.New("this directory is no longer a member of the cell")
	ErrRemoved  = errors.New("this replica was removed from the cell")
)

// replacementPace is how often a replica without a leader asks whether it was
// replaced.
const replacementPace = 2 * time.Second

// watchReplacement fails the replica when others know that its directory is no
// longer a member. From the next start on it waits to be admitted again. It
// also fails the replica when a master knows that the directory has forgotten
// what it had stored.
func (r *Replica) watchReplacement() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-r.quit
		cancel()
	}()
	pace := time.NewTicker(replacementPace)
	defer pace.Stop()
	foreign := ""
	for {
		select {
		case <-pace.C:
		case <-r.quit:
			return
		}
		if r.hasLeader() {
			continue
		}
		answers := r.withoutRemoved(admission.AskAll(ctx, r.opts.ID, r.askNames(ctx), r.peers.Ask))
		if err := r.isReplaced(answers); err != nil {
			r.fail(err)
			return
		}
		if err := r.forgets(answers); err != nil {
			r.fail(err)
			return
		}
		if now := admission.Foreign(answers, r.stores.Identity.CellID); now != foreign {
			if foreign = now; foreign != "" {
				r.opts.Logger.Warn().Str("cell_id", r.stores.Identity.CellID).Str("others", foreign).
					Msg("this data directory and the other replicas' belong to different cells: one of them may be the wrong one")
			}
		}
	}
}

// isReplaced returns the fault of a replica that, as others know, is no longer
// a member. It returns ErrReplaced or ErrRemoved only once that is on the disk;
// otherwise the next start would continue as a member and find the same.
func (r *Replica) isReplaced(answers map[string]admission.Answer) error {
	own, err := r.Membership()
	if err != nil {
		return nil
	}
	// Members that reported the removal may have been removed since; their
	// answers no longer count. The roster has what they reported.
	answers = maps.Clone(answers)
	answers[r.opts.ID] = admission.Answer{Info: r.roster.now.Load().Info(r.opts.ID, r.CellID())}
	d, ok := admission.FindReplaced(admission.Self{Identity: r.stores.Identity, ConfigIndex: own.Index}, answers)
	if !ok {
		return nil
	}
	if err := r.keep(func(who *admission.Identity) { who.Replaced = d.Identity.Replaced }); err != nil {
		return fmt.Errorf("record that this directory is no longer a member of the cell (%s): %w", d.Why, err)
	}
	if !d.Member {
		return fmt.Errorf("%w: %s", ErrRemoved, d.Why)
	}
	return fmt.Errorf("%w: %s", ErrReplaced, d.Why)
}

// Calls returns the listener of the connections that other members have opened
// for calls.
func (r *Replica) Calls() net.Listener { return r.peers.host.links.Kind(peerconn.Call) }

// FoundedWithAccess reports whether the founders agreed to found the cell with
// access on and this directory belongs to one of them.
func (r *Replica) FoundedWithAccess() bool { return r.stores.Identity.Access != "" }

// Proven reports whether connections between members use TLS, which proves the
// identity of both ends.
func (r *Replica) Proven() bool { return r.peers.host.opts.Security != nil }

// Caller returns the server id of the replica that opened a connection of
// Calls.
func (*Replica) Caller(c net.Conn) string { return peerconn.From(c) }

// DialCall opens a connection for calls to the member of that name.
func (r *Replica) DialCall(ctx context.Context, name string) (net.Conn, error) {
	// If two directories have this name, use the one that votes.
	var to *membership.MemberStatus
	for _, m := range r.Members() {
		if m.ID == name && (to == nil || m.Voter) {
			to = &m
		}
	}
	if to == nil {
		return nil, fmt.Errorf("replica %q is not a member of the cell", name)
	}
	return r.peers.host.dial(ctx, peerconn.Call, admission.ServerID(to.ID, to.Directory), to.RaftAddr)
}
