package master

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
)

// Cell returns the cell as this replica knows it. Some fields are known to the
// master only, and are empty elsewhere.
func (m *Master) Cell() lockapi.Cell {
	known, s := m.Known(), m.log.State()
	out := lockapi.Cell{Cell: m.opts.Cell, Epoch: s.Epoch, Access: s.AccessOn, Level: s.Level, Lease: lockapi.Lease{TermMS: m.opts.leaseMS()}, Replicas: []lockapi.Replica{}}
	if known.ID != "" {
		out.Master = &lockapi.MasterRef{ID: known.ID, URL: known.URL}
	}
	for _, r := range onePerName(m.members.Members()) {
		if r.ID == m.opts.ID {
			own := m.Replica()
			own.Version, own.UptimeMS, own.Directory = "", nil, ""
			out.Replicas = append(out.Replicas, own)
			continue
		}
		other := lockapi.Replica{ID: r.ID, URL: r.APIURL, RaftAddr: r.RaftAddr, Role: role(r.ID, r.Voter, known.ID)}
		if r.Refuses != nil && known.Self {
			other.Fault = r.Refuses.Error()
		}
		out.Replicas = append(out.Replicas, other)
	}
	if m.inOffice() != nil {
		v := m.Lease()
		out.Lease = lockapi.Lease{Held: v.Held, TermMS: m.opts.leaseMS(),
			RemainingMS: v.Remaining.Milliseconds(), RenewedAgoMS: v.Renewed.Milliseconds()}
		out.Sessions, out.Locks, out.Waiters = new(s.SessionCount()), new(s.LockCount()), new(s.WaitCount())
		out.Files, out.ContentBytes = new(s.FileCount()), new(s.ContentBytes())
	}
	return out
}

// onePerName removes the directories that wait to take a voter's place and, of
// several without a vote, all but the latest.
func onePerName(all []membership.MemberStatus) []membership.MemberStatus {
	return slices.DeleteFunc(slices.Clone(all), func(s membership.MemberStatus) bool {
		latest := s
		for _, o := range all {
			if o.ID == s.ID && !latest.Voter {
				latest = o
			}
		}
		return latest.Directory != s.Directory
	})
}

func role(id string, voter bool, master string) string {
	switch {
	case !voter:
		return lockapi.RoleNonvoter
	case id == master:
		return lockapi.RoleMaster
	}
	return lockapi.RoleReplica
}

// Replica returns this replica's own entry.
func (m *Master) Replica() lockapi.Replica {
	known, health := m.Known(), m.members.Health()
	uptime := (m.opts.Clock() - m.started).Milliseconds()
	out := lockapi.Replica{
		ID: m.opts.ID, URL: m.members.URL(m.opts.ID), Role: lockapi.RoleReplica, Healthy: true,
		AppliedIndex: health.Applied, LastContactMS: health.Contact.Milliseconds(),
		Version: m.opts.Version, UptimeMS: &uptime,
	}
	if !health.HasLeader {
		out.LastContactMS = uptime
	}
	out.Directory = m.members.Directory()
	for _, r := range m.members.Members() {
		if r.ID == m.opts.ID && r.Directory == out.Directory {
			out.RaftAddr, out.Role = r.RaftAddr, role(r.ID, r.Voter, known.ID)
		}
	}
	if to, remaining, ok := m.members.Promise(); ok {
		out.Promise = &lockapi.Promise{To: to, RemainingMS: remaining.Milliseconds()}
	}
	return out
}

// View is what a replica knows of its cell and of itself.
type View struct {
	CellID string
	Cell   lockapi.Cell    // some fields are set on the master only
	Own    lockapi.Replica // this replica's own entry, complete
	Ready  error           // see Master.Ready
}

// View returns what this replica knows now.
func (m *Master) View() View {
	return View{CellID: m.CellID(), Cell: m.Cell(), Own: m.Replica(), Ready: m.Ready()}
}

// Ready returns nil if this replica is the master with its lease, or if it has
// contact with a master and answers stale reads. Only the master knows how far
// this replica is behind: a follower learns of a commit only when it has the
// entry.
func (m *Master) Ready() error {
	if m.opts.awaitsFounding(m.log.State()) {
		return errFounding()
	}
	if o := m.inOffice(); o != nil {
		if !o.leaseValid() {
			return lockapi.Errorf(lockapi.CodeNoMaster, "this replica is the master, but its lease has lapsed")
		}
		return nil
	}
	if m.Known().ID == "" {
		return errNoMaster("no master is known")
	}
	health := m.members.Health()
	if bound := m.opts.LeaseTerm * 2; !health.HasLeader || health.Contact > bound {
		return errNoMaster("this replica has had no contact with the master for %v", health.Contact.Round(time.Millisecond))
	}
	_, _, err := m.ownState()
	return err
}
