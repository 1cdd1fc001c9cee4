package simcell

import "github.com/hashicorp/raft"

// holders holds, for each entry, the directories that have had it on disk. The
// oracle requires a majority of the voters among them before a replica applies
// the entry. The leader's disk need not be one of them.
type holders map[place]map[string]bool // by entry

// held records that a directory has an entry on disk. Checked entries are left
// out.
func (o *oracle) held(l raft.Log, server string) {
	if l.Index < uint64(len(o.history)) {
		return
	}
	at := place{l.Index, l.Term}
	if o.holders[at] == nil {
		o.holders[at] = map[string]bool{}
	}
	o.holders[at][server] = true
}

// committed checks an applied entry. It counts by the log's present
// configuration, or by one that follows the entry in some machine's log. A
// leader counts by that one if the entry was not committed before.
func (o *oracle) committed(p *process, l raft.Log) {
	have := o.holders[place{l.Index, l.Term}]
	for at := range o.holders {
		if at.index <= l.Index {
			delete(o.holders, at)
		}
	}
	confs := o.roster.confs
	if len(confs) == 0 || l.Index == confs[0].index { // founders store that by themselves
		return
	}
	now := confs[len(confs)-1]
	o.w.stats.check("stored by a majority")
	if now.most(have) {
		return
	}
	// The library counts its own vote for a configuration before it uses it.
	// With one voter that is a majority, and it is part of every later
	// majority.
	if before := confs[max(0, len(confs)-2)]; l.Index == now.index && before.voters() == 1 && before.most(have) {
		return
	}
	for _, m := range o.w.machines {
		for index, c := range m.disk.confs {
			if index > l.Index && (conf{index, c}).most(have) {
				return
			}
		}
	}
	o.w.fail("%s has applied entry %d of term %d; only %v have stored it, of %v", p.m.id, l.Index, l.Term, have, now.Servers)
}

// most reports whether a set has a majority of the voters.
func (c conf) most(among map[string]bool) bool {
	n := 0
	for id, voter := range c.all() {
		if voter && among[id] {
			n++
		}
	}
	return n > c.voters()/2
}
