package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// answers are faults of what callers are told.
func answers() []Mutant {
	return []Mutant{
		{"commit-beyond-message", "Raft must be Raft", "a follower commits no more than the message that says so brings",
			"a master that was cut off has an entry that never was committed; a message of its successor that ends before that entry says that more is committed",
			overlay.Edit{File: "replica/rafttransport/transport.go",
				Old: "min(t.opts.Durable(q.LeaderCommitIndex), t.opts.Told(), q.PrevLogEntry+uint64(len(q.Entries)))",
				New: "min(t.opts.Durable(q.LeaderCommitIndex), t.opts.Told())"}},
		{"commit-before-own-disk", "Raft must be Raft", "no follower is told that an entry is committed that its leader has not on disk",
			"a leader and one follower have an entry, the follower applies it, the leader crashes and forgets it, and the third leads without it",
			overlay.Edit{File: "replica/rafttransport/transport.go",
				Old: "min(t.opts.Durable(q.LeaderCommitIndex), t.opts.Told(), q.PrevLogEntry+uint64(len(q.Entries)))",
				New: "min(q.LeaderCommitIndex, q.PrevLogEntry+uint64(len(q.Entries)))"}},
		{"applied-before-own-disk", "Raft must be Raft", "the state machine applies no entry that is not on the disk of its replica",
			"a leader and one follower have an entry, a caller is told of it, the leader crashes and forgets it, and the third leads without it",
			overlay.Edit{File: "replica/fsm.go",
				Old: "err = f.waitDurable(l.Index)",
				New: "err = nil"}},
		{"released-before-committed", "1.6", "a reply that says a thing is done leaves after its entry is applied",
			"a release is answered, the master dies before the entry is committed, and the hold is still there",
			overlay.Edit{File: "master/release.go",
				Old: "\tr, err := o.propose(req.Caller, op)\n",
				New: "\tgo o.propose(req.Caller, op)\n\tr, err := state.Result(state.Done), error(nil)\n"}},
		{"abandoned-told-not-applied", "1.6", "outcome_unknown where the outcome cannot be known",
			"a master is deposed while a command is in the log; the successor commits it, and the caller was told that it had no effect",
			overlay.Edit{File: "master/batcher.go",
				Old: "fmt.Errorf(\"%w: %w\", cell.ErrUnknown, b.refuse)",
				New: "fmt.Errorf(\"%w: %w\", cell.ErrNotApplied, b.refuse)"}},
		{"lost-leadership-told-not-applied", "1.6", "of the library's errors few rule an effect out",
			"leadership is lost while an entry is on its way; the successor commits it, and the caller was told that it had no effect",
			overlay.Edit{File: "replica/replica.go",
				Old: "fmt.Errorf(\"%w: %w\", cell.ErrUnknown, err)",
				New: "fmt.Errorf(\"%w: %w\", cell.ErrNotApplied, err)"}},
		{"lost-answer-told-no-master", "1.6", "a forwarded call whose answer is lost has an unknown outcome",
			"an acquire is forwarded, takes effect, and the link breaks before the answer: the caller is told no_master, or the call is made again",
			overlay.Edit{File: "lockapi/server/forward.go",
				Old: "if sent && !t.repeatable {",
				New: "if !sent && !t.repeatable {"}},
		{"unknown-outcome-repeated", "1.6", "a call that may have taken effect is not repeated unless that is harmless",
			"a forwarded release is answered outcome_unknown, was applied, is repeated at the new master and reports that there was nothing to release",
			overlay.Edit{File: "lockapi/server/forward.go",
				Old: "e.Code == lockapi.CodeOutcomeUnknown && t.repeatable:",
				New: "e.Code == lockapi.CodeOutcomeUnknown:"}},
	}
}
