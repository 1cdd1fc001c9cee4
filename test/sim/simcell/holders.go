package simcell

import "github.com/hashicorp/raft"

// holders are the directories that have had an entry on disk. The judge wants a
// majority of those that vote among them before anybody applies the entry. The disk
// of the leader need not be one of them.
type holders map[place]map[string]bool // by entry

// held: a directory has an entry on disk. Those that were judged are left out.
func (j *judge) held(l raft.Log, server string) {
	if l.Index < uint64(len(j.history)) {
		return
	}
	at := place{l.Index, l.Term}
	if j.holders[at] == nil {
		j.holders[at] = map[string]bool{}
	}
	j.holders[at][server] = true
}

// committed judges an entry that was applied. The configuration counts that the log
// has come to, or one that stands behind the entry in the log of some machine: its
// leader has counted by that one, where the entry was not committed before.
func (j *judge) committed(p *process, l raft.Log) {
	have := j.holders[place{l.Index, l.Term}]
	for at := range j.holders {
		if at.index <= l.Index {
			delete(j.holders, at)
		}
	}
	confs := j.roster.confs
	if len(confs) == 0 || l.Index == confs[0].index { // founders store that by themselves
		return
	}
	now := confs[len(confs)-1]
	j.w.stats.check("stored by a majority")
	if now.most(have) {
		return
	}
	// The library counts its own word for a configuration before it goes by that. Of one
	// voter that is a majority, and one that every later majority shares.
	if before := confs[max(0, len(confs)-2)]; l.Index == now.index && before.voters() == 1 && before.most(have) {
		return
	}
	for _, m := range j.w.machines {
		for index, c := range m.disk.confs {
			if index > l.Index && (conf{index, c}).most(have) {
				return
			}
		}
	}
	j.w.fail("%s has applied entry %d of term %d, which only %v have stored of %v", p.m.id, l.Index, l.Term, have, now.Servers)
}

// most reports whether a majority of those that vote is among some.
func (c conf) most(among map[string]bool) bool {
	n := 0
	for id, voter := range c.all() {
		if voter && among[id] {
			n++
		}
	}
	return n > c.voters()/2
}
