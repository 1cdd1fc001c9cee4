package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// snapshots are faults of installing snapshots at a follower.
func snapshots() []Mutant {
	const section = "Raft must be Raft"
	return []Mutant{
		{"late-snapshot-installed", section, "a follower that has the last entry of a snapshot keeps its log",
			"a snapshot is sent twice, and the second copy arrives after later entries",
			overlay.Edit{File: "replica/rafttransport/install.go",
				Old: "\tif has != nil {\n",
				New: "\tif has != nil && quit == nil {\n"}},
		{"log-kept-before-a-snapshot", section, "a follower that lacks the last entry of a snapshot discards its log",
			"a follower with uncommitted entries receives a snapshot, and leads later or receives the entries in their place late",
			overlay.Edit{File: "replica/raftstore/logstore.go",
				Old: "\t\treturn discardAll(s, s.remove)\n",
				New: "\t\treturn nil\n"}},
		{"entries-of-a-snapshot-are-looked-for", section, "a follower skips entries that only its snapshot has",
			"the answer to some entries is lost, and the follower takes a snapshot after them, later than the leader's",
			overlay.Edit{File: "replica/raftstore/logstore.go",
				Old: "\tif end = s.snapshot.Load(); index >= end {\n",
				New: "\tif end = s.snapshot.Load(); index < math.MaxUint64 {\n"}},
	}
}
