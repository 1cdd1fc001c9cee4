package master

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
)

// fakeConf is the membership of a fake cell, with the directories that run at
// each name. The cell's mu guards it; the log's own mutex may be taken under
// that.
type fakeConf struct {
	index    uint64
	members  []membership.MemberStatus
	at       map[string]string // name → directory that answers there; absent while it is away
	behind   map[string]uint64 // directory → how far it lags
	level    map[string]uint64 // directory → the level that its release knows, if it is not 1
	blank    map[string]bool   // directories that belong to no cell
	deaf     map[string]bool   // names that get no messages of a master
	sync     map[string]uint64 // name → microseconds of a disk sync; absent for an earlier release
	writing  map[string]uint64 // name → microseconds so far of a write under way
	unsent   map[string]uint64 // name → snapshots in a row that it failed to send
	busy     bool              // an earlier change is not committed
	late     bool              // the next change takes effect when lands is called
	lands    func()            // nil otherwise
	changes  []string          // changes made so far
	onAsk    func()            // if set, is called, with the cell's mu held, when a member is polled
	onChange func(n *node)     // if set, is called, with the cell's mu held, after a change
	most     int               // most voters of one name at any time
	lost     bool              // whether a name was ever without a member
}

// founder returns the first directory of a member of the fake cell.
func founder(id string) string { return memlog.Directory(id) }

func newFakeConf(nodes []*node) fakeConf {
	c := fakeConf{index: 1, at: map[string]string{}, behind: map[string]uint64{}}
	for _, r := range nodes {
		c.members = append(c.members, standing(r.id, founder(r.id), true))
		c.at[r.id] = founder(r.id)
	}
	return c
}

func standing(name, directory string, voter bool) membership.MemberStatus {
	return membership.MemberStatus{Member: membership.Member{ID: name, RaftAddr: name + ":7201", APIURL: "http://" + name}, Directory: directory, Voter: voter, At: name + ":7201"}
}

func (c *fakeConf) change(what membership.Change, s membership.MemberStatus) {
	i := slices.IndexFunc(c.members, func(o membership.MemberStatus) bool { return o.ID == s.ID && o.Directory == s.Directory })
	all := slices.Clone(c.members)
	switch {
	case what == membership.RemoveMember && i >= 0:
		all = slices.Delete(all, i, i+1)
	case what == membership.MakeVoter && i >= 0:
		all[i].Voter = true
	case what == membership.AddNonvoter && i < 0:
		s.Voter, s.At = false, s.RaftAddr
		all = append(all, s)
	case what == membership.DemoteMember && i >= 0:
		all[i].Voter = false
	case what == membership.MoveMember && i >= 0:
		all[i].RaftAddr, all[i].At = s.RaftAddr, s.RaftAddr
	}
	for _, m := range c.members {
		c.lost = c.lost || !slices.ContainsFunc(all, func(o membership.MemberStatus) bool { return o.ID == m.ID })
	}
	c.members = all
	c.index++
	c.changes = append(c.changes, fmt.Sprintf("%s %s/%s", what, s.ID, s.Directory))
	for _, m := range all {
		n := 0
		for _, o := range all {
			if o.ID == m.ID && o.Voter {
				n++
			}
		}
		c.most = max(c.most, n)
	}
}

// set changes fields that c.mu guards.
func (c *fakeCell) set(change func(*fakeConf)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.conf)
}

// The methods below make a node a Membership.

func (n *node) Members() []membership.MemberStatus {
	m, _ := n.Membership()
	return m.Members
}

func (n *node) Membership() (membership.Membership, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return membership.Membership{Index: n.c.conf.index, Members: n.c.conf.members, Changing: n.c.conf.lands != nil}, nil
}

func (n *node) ChangeMember(_ context.Context, since uint64, change membership.Change, s membership.MemberStatus) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	switch conf := &n.c.conf; {
	case !n.leads():
		return fmt.Errorf("%w: not the leader", membership.ErrNotApplied)
	case conf.busy || since != 0 && since != conf.index:
		return membership.ErrBusy
	case conf.late:
		conf.late, conf.lands = false, func() { conf.change(change, s) }
		return membership.ErrUnknown
	default:
		conf.change(change, s)
		if conf.onChange != nil {
			conf.onChange(n)
		}
	}
	return nil
}

func (n *node) Ask(_ context.Context, id string) (admission.Info, error) {
	name, _ := admission.Split(id)
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.c.conf.onAsk != nil && name != n.id {
		n.c.conf.onAsk()
	}
	directory, ok := n.c.conf.at[name]
	if name == n.id {
		directory, ok = n.Directory(), true // a replica knows its own directory
	}
	if !ok {
		return admission.Info{}, errors.New("nobody answers")
	}
	applied := n.Node.Health().Applied
	in := "c1"
	if n.c.conf.blank[directory] && !slices.ContainsFunc(n.c.conf.members, func(s membership.MemberStatus) bool { return s.Directory == directory }) {
		in = ""
	}
	return admission.Info{ID: name, Directory: directory, CellID: in, HasLeader: !n.c.conf.deaf[name], Version: "test", Level: max(1, n.c.conf.level[directory]),
		Sync: n.c.conf.sync[name], Writing: n.c.conf.writing[name], Unsent: n.c.conf.unsent[name],
		Applied: applied - min(applied, n.c.conf.behind[directory])}, nil
}

func (n *node) Health() membership.Health {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	h := n.Node.Health()
	h.HasLeader = !n.c.conf.deaf[n.id]
	h.Behind += n.c.conf.behind[founder(n.id)]
	return h
}
