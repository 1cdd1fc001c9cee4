package simcell

import (
	"slices"

	"github.com/stoutlock/stout/replica/admission"
)

// Replicas accept nothing from one that was removed, as far as they know.

// knows records the members that a process knows from the entries it has
// applied.
func (p *process) knows(now conf) {
	if p.members == now.index {
		return
	}
	p.members = now.index
	for id := range now.all() {
		p.met[id] = true
	}
}

// upTo returns the last configuration committed up to an entry.
func (r *roster) upTo(index uint64) (last conf) {
	for _, c := range r.confs {
		if c.index > index {
			break
		}
		last = c
	}
	return last
}

// believes reports whether the replica accepts messages of another process.
func (p *process) believes(from *process) bool {
	server, j := from.disk.who.ServerID(), p.m.w.oracle
	applied := p.replica.State().Index
	believed := p.replica.CheckSender(server) == nil
	now := j.roster.upTo(applied)
	p.knows(now)
	switch listed := now.hasServer(server); {
	case believed && !listed && p.met[server] && !p.mayBeAdding(server, now.index):
		j.w.fail("%s believes %s, although it knows that it was removed (entry %d)", p.m.id, server, now.index)
	case believed && !listed && p.wasRemoved(server) && !p.mayBeAdding(server, max(now.index, p.kept.Index)):
		j.w.fail("%s believes %s, which its disk listed as removed at its start", p.m.id, server)
	case !believed && listed && j.roster.listsSince(now.index, server):
		j.w.fail("%s does not believe %s, which is a member in every configuration since entry %d", p.m.id, server, now.index)
	case !believed:
		j.w.stats.check("not believed")
	}
	return believed
}

// wasRemoved reports whether the disk listed a server as removed at the start. A
// name that was removed as a whole may have a new directory since.
func (p *process) wasRemoved(server string) bool {
	name, _ := admission.Split(server)
	return slices.Contains(p.kept.Removed, server) && !p.kept.Lists(server) ||
		p.kept.Gone(server) && !slices.ContainsFunc(p.m.w.oracle.roster.confs, func(c conf) bool { return c.index > p.kept.Index && c.has(name) })
}

// mayBeAdding reports whether a later configuration lists a server: one on the
// disk, or a committed one that a member may have reported.
func (p *process) mayBeAdding(server string, since uint64) bool {
	for index, c := range p.m.disk.confs {
		if index > since && (conf{index, c}).hasServer(server) {
			return true
		}
	}
	for _, c := range p.m.w.oracle.roster.confs {
		if c.index > since && c.hasServer(server) {
			return true
		}
	}
	return false
}

// listsSince reports whether all configurations from an entry on list a server.
func (r *roster) listsSince(index uint64, server string) bool {
	for _, c := range r.confs {
		if c.index >= index && !c.hasServer(server) {
			return false
		}
	}
	return true
}
