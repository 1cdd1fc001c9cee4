package memlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Directory returns the id of the data directory of a named node.
func Directory(id string) string {
	return fmt.Sprintf("d1d1d1d1d1d1d1d%s", strings.TrimPrefix(id, "r"))
}

// Leader returns the leader's id as far as known here, or "".
func (n *Node) Leader() string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.leader
}

// URL returns the base URL of a node's API.
func (n *Node) URL(id string) string { return n.c.opts.URL(id) }

// CellID returns the cell's id.
func (n *Node) CellID() string { return "c1" }

// Directory returns the id of the node's data directory.
func (n *Node) Directory() string { return Directory(n.id) }

// Health returns the node's relation to its leader.
func (n *Node) Health() membership.Health {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return membership.Health{HasLeader: n.leader != "", Applied: uint64(n.applied), Behind: uint64(len(n.log) - n.applied)}
}

// Metrics returns no metrics, because there is no log on disk.
func (n *Node) Metrics() metric.Set { return nil }

// Promise reports no promise to a leader.
func (n *Node) Promise() (string, time.Duration, bool) { return "", 0, false }

// Members returns all nodes, which all vote.
func (n *Node) Members() []membership.MemberStatus {
	var out []membership.MemberStatus
	for _, r := range n.c.nodes {
		addr := r.id + ":7201"
		out = append(out, membership.MemberStatus{Member: membership.Member{ID: r.id, RaftAddr: addr, APIURL: n.URL(r.id)}, Directory: r.Directory(), Voter: true, At: addr})
	}
	return out
}

// Membership returns the only configuration.
func (n *Node) Membership() (membership.Membership, error) {
	return membership.Membership{Index: 1, Members: n.Members()}, nil
}

// ChangeMember fails with membership.ErrBusy: the members do not change.
func (n *Node) ChangeMember(context.Context, uint64, membership.Change, membership.MemberStatus) error {
	return membership.ErrBusy
}

// Ask returns the card of a node that is in reach.
func (n *Node) Ask(_ context.Context, id string) (admission.Info, error) {
	name, _ := admission.Split(id)
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, r := range n.c.nodes {
		if r.id == name && n.c.reach(n, r) {
			return admission.Info{ID: r.id, Directory: r.Directory(), CellID: r.CellID(), HasLeader: r.leader != "", Version: "memlog",
				Level: state.Level, Applied: uint64(r.applied)}, nil
		}
	}
	return admission.Info{}, fmt.Errorf("%s does not answer", name)
}
