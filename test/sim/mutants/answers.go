package mutants

import "github.com/stoutlock/stout/test/sim/internal/overlay"

// answers are faults of what callers are told.
func answers() []Mutant {
	return []Mutant{
		{"commit-beyond-message", "Raft must be Raft", "a follower commits no more than the message that says so brings",
			"a master that was cut off has an entry that never was committed; a message of its successor that ends before that entry says that more is committed",
			overlay.Edit{File: "replica/transport.go",
				Old: "q.LeaderCommitIndex = min(q.LeaderCommitIndex, q.PrevLogEntry+uint64(len(q.Entries)))",
				New: ""}},
		{"released-before-committed", "1.6", "a reply that says a thing is done leaves after its entry is applied",
			"a release is answered, the master dies before the entry is committed, and the hold is still there",
			overlay.Edit{File: "master/release.go",
				Old: "\tr, err := o.propose(state.Command{Kind: state.Release, Session: session, Path: path, Handle: handle, Token: token})\n",
				New: "\tgo o.propose(state.Command{Kind: state.Release, Session: session, Path: path, Handle: handle, Token: token})\n\tr, err := state.Result{Verdict: state.Done}, error(nil)\n"}},
		{"abandoned-told-not-applied", "1.6", "outcome_unknown where the outcome cannot be known",
			"a master is deposed while a command is in the log; the successor commits it, and the caller was told that it had no effect",
			overlay.Edit{File: "replica/batcher.go",
				Old: "fmt.Errorf(\"%w: %w\", ErrUnknown, b.refuse)",
				New: "fmt.Errorf(\"%w: %w\", ErrNotApplied, b.refuse)"}},
		{"lost-leadership-told-not-applied", "1.6", "of the library's errors few rule an effect out",
			"leadership is lost while an entry is on its way; the successor commits it, and the caller was told that it had no effect",
			overlay.Edit{File: "replica/replica.go",
				Old: "fmt.Errorf(\"%w: %w\", ErrUnknown, err)",
				New: "fmt.Errorf(\"%w: %w\", ErrNotApplied, err)"}},
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
		{"unheard-grant-kept", "guarantees", "a waiter whose connection breaks does not become a holder",
			"a waiting call breaks off at the moment of its grant, and its session goes on (needs a caller that does not clean up)",
			overlay.Edit{File: "master/pairs.go",
				Old: "\tcase hold.EventSeq == 0:\n\t\tgo o.withdraw(key, p, p.place, true)()\n",
				New: "\tcase hold.EventSeq == 0:\n"}},
	}
}
