// Package mutants lists deliberate faults of the product, to measure what the
// simulator finds. Each is the slip of a tired programmer. A fault that it does
// not find is a gap in the simulator. Package overlay compiles them in; the
// product's sources have no hooks for them.
//
// Some faults are not in the list. Every schedule makes up for three of them:
//
//   - a refusal from memory without a check of the lease (it does not leave the
//     office; master TestNoAnswerLeavesWithoutTheLease);
//   - a withdrawal that revokes a later grant of its pair (the office puts each
//     withdrawal into the log before the next request of that pair);
//   - a read that checks the lease first (a replica's state never goes back, so
//     a read after the check is at least as new as the state that the lease
//     vouched for within the call).
//
// Two break no promise that a run could check: a lapse of the lease that is not
// given back, and news lost by an acknowledgement, since the contract allows
// other news to be lost. Two need an instant that runs hardly ever meet. One is
// a call that breaks off between its grant and the check of it, with no later
// cleanup. The other is a client that is cut off, holds on for longer than its
// lease, and has the slowest clock. Unit tests find all but the second: the
// scenario withdraw.txt in replica/state; in master
// TestLapseGivesSessionsTimeBack, TestAcknowledgementCountsForWhatWasShown and
// TestBrokenWaiterLeaves; in client TestHoldEndsWithTheLocalLease.
//
// Unit tests also cover three other faults. One needs more than users have,
// such as a session with holds on hundreds of paths (replica/state
// TestEndOfASessionWithManyHolds). One is about the events that watchers get
// from a snapshot by a leader that is not in office yet (replica
// TestRestoredState). One is a pipeline that does not end with its first
// failure (hashicorp/raft #612; replica TestPipelineEndsWithItsFirstFailure).
// Runs used to find that one within tens of seeds, but since a deposed leader
// is silent they hardly ever do.
//
// A snapshot that a leader takes ahead of its own disk does no harm that a run
// shows: a start after a crash then discards the log (replica/raftstore
// TestSnapshotsWaitForTheLog).
//
// One fault of membership is too rare: a former member's directory that is
// added again unasked (master TestNotReplaced).
//
// Faults that only delay are not seen either. One is the order of turns to
// write a file by compare-and-set (master TestTurns, TestTurnOfWhoLeft,
// TestTurnComesToAll). Another is a watcher that is not woken but looks again
// by itself some seconds later (replica/events TestReadersTogether). Runs have
// quotas of principals only: they check the count of the others, not the
// refusals (master/internal/quota TestNeverExceeded and its neighbors).
package mutants

import (
	"slices"

	"github.com/stoutlock/stout/test/internal/overlay"
)

// Mutant is one fault.
type Mutant struct {
	Name    string
	Section string // heading in docs/design.md, or the name of a document, with the rule
	Rule    string // the broken rule
	Shows   string // a schedule that shows it
	overlay.Edit
}

// profiles names the special profiles of package simcell that find a mutant
// within few seeds. Mixtures of all faults take tens or hundreds of seeds for
// it.
var profiles = map[string]string{
	"client-lease-from-answer":             "late answers",
	"client-lease-from-opening":            "late answers",
	"jeopardy-keeps-holds":                 "late answers",
	"shorter-delay-counts":                 "lock-delays",
	"handle-used-twice":                    "late copies",
	"orphans-not-released":                 "late requests",
	"orphans-looked-for-once":              "late acquires",
	"keepalive-without-lease":              "outlived office",
	"name-taken-back":                      "second thoughts",
	"hands-over-in-vain":                   "unfit masters",
	"follows-in-vain":                      "stops",
	"held-taken-after-check":               "stalled keepalives",
	"file-read-without-lease":              "relayed events",
	"snapshot-noted-early":                 "cut snapshots",
	"admission-forgotten":                  "new voters",
	"candidate-must-be-known":              "new voters",
	"loss-dropped-by-the-next-office":      "lost news",
	"late-word-counts":                     "late words",
	"events-judged-before-they-come":       "late checks",
	"one-other-may-be-away":                "absentees",
	"others-well-at-the-end":               "absentees",
	"set-asked-for-in-part":                "failovers of waiters",
	"unclaimed-grant-shown-as-own":         "failovers of waiters",
	"entries-of-a-snapshot-are-looked-for": "unanswered entries",
	"cut-off-replica-answers-for-ever":     "access",
	"file-stays-with-its-former-writer":    "quotas",
}

// Profile returns the special profile of a mutant's seeds, or "" if each seed
// draws its own.
func (m Mutant) Profile() string {
	if name := profiles[m.Name]; name != "" {
		return name
	}
	for name, of := range ofProfile {
		if slices.ContainsFunc(of(), func(o Mutant) bool { return o.Name == m.Name }) {
			return name
		}
	}
	return ""
}

// ofProfile are the lists that one special profile finds, apart from profiles.
var ofProfile = map[string]func() []Mutant{"access": access, "keys": keys, "priorities": priorities, "quotas": quotas, "sets": sets}

// All returns the mutants, grouped by layer. Their names are unique.
func All() []Mutant {
	return slices.Concat(leases(), offices(), sessions(), locks(), priorities(), sets(), quotas(), keys(), answers(), pipelines(), sdk(), members(), membership(), disks(), files(), events(), access(), backups(), history(), ownState(), snapshots())
}
