package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// ownState are faults of what a replica answers by its own state.
func ownState() []Mutant {
	const what, section = "a replica answers by its own state only when it has what it knew before it was started", "Who may do what"
	return []Mutant{
		{"unfinished-state-answers", section, what,
			"a replica is started, and asked before it has heard of a master",
			overlay.Edit{File: "master/ownstate.go", Old: "\tcase !known:\n", New: "\tcase !known && m.opts.ID == \"\":\n"}},
		{"word-of-any-leader", section, what,
			"all replicas are started, and one hears of a leader that is not in office and has told nothing",
			overlay.Edit{File: "replica/freshness.go", Old: "&& w.term == f.office", New: "&& w.term >= f.office"}},
		{"late-word-counts", section, what,
			"a word of a leader that was on its way since before the start comes to a replica of which the log goes further",
			overlay.Edit{File: "replica/freshness.go", Old: "&& index < f.before.index", New: "&& index < f.before.index && index == 0"}},
		{"cut-off-replica-answers-for-ever", section, "with access on a replica answers by its own state no longer than stale-for without word of a master",
			"a replica is cut off, and rights change",
			overlay.Edit{File: "master/ownstate.go", Old: "left <= 0 {", New: "left <= 0 && m.opts.ID == \"\" {"}},
	}
}
