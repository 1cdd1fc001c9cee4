package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// ownState are faults of a replica's answers from its own state.
func ownState() []Mutant {
	const what, section = "a replica answers from its own state only when it has everything it knew before its start", "Access control"
	return []Mutant{
		{"unfinished-state-answers", section, what,
			"a replica is started and asked before it has had contact with a master",
			overlay.Edit{File: "master/ownstate.go", Old: "\tcase !known:\n", New: "\tcase !known && m.opts.ID == \"\":\n"}},
		{"word-of-any-leader", section, what,
			"all replicas are started, and one has contact with a leader that is not in office and has reported nothing",
			overlay.Edit{File: "replica/freshness.go", Old: "&& w.term == f.office", New: "&& w.term >= f.office"}},
		{"late-word-counts", section, what,
			"a leader's message from before the start reaches a replica with a longer log",
			overlay.Edit{File: "replica/freshness.go", Old: "&& index < f.before.index", New: "&& index < f.before.index && index == 0"}},
		{"cut-off-replica-answers-for-ever", section, "with access on, a replica without contact to a master answers from its own state no longer than stale-for",
			"a replica is cut off, and rights change",
			overlay.Edit{File: "master/ownstate.go", Old: "left <= 0 {", New: "left <= 0 && m.opts.ID == \"\" {"}},
	}
}
