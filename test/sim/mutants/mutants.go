// Package mutants lists deliberate faults of the product, each the slip of a
// tired programmer, to measure what the simulator sees: one that it does not
// find is a gap of the simulator's. They are compiled in by package overlay;
// the product's sources have no hooks for them.
//
// Some are not in the list. Three are made up for in every schedule: a refusal
// from memory without a look at the lease (it does not leave the office; master
// TestNoAnswerLeavesWithoutTheLease), a withdrawal
// that takes back a later grant of its pair (the office puts each withdrawal
// into the log before the next request of that pair), and a read for which the
// lease is checked first (a replica's state never goes back, so what is read
// after the check is no older than what the lease vouched for within the call).
// Two break no promise that a run could be held to: a lapse of the lease that
// is not given back, and the news that is lost by an acknowledgement, as the
// contract lets other news be. And two need an instant that runs hardly ever
// hit: a call that breaks off between its grant and the look at it, which
// nobody cleans up after, and a client that is cut off, holds on for longer
// than its lease, and has the slowest of clocks. Unit tests find all but the
// second: the scenario withdraw.txt in replica/state; in master
// TestLapseGivesSessionsTimeBack, TestAcknowledgementCountsForWhatWasShown and
// TestBrokenWaiterLeaves; in client TestHoldEndsWithTheLocalLease. And what
// needs more than users have, such as a session with holds on hundreds of
// paths, is left to unit tests too (replica/state
// TestEndOfASessionWithManyHolds), as is what a snapshot tells watchers that is
// sent by a leader who is not in office yet (replica TestRestoredState), and a
// pipeline that does not end with its
// first failure (hashicorp/raft #612; replica
// TestPipelineEndsWithItsFirstFailure): since a deposed leader is silent, runs
// that had met it within tens of seeds do so hardly ever.
//
// A snapshot that a leader takes ahead of its own disk does no harm that a run shows:
// a start behind a crash discards the log then (replica/raftstore
// TestSnapshotsWaitForTheLog).
//
// Nor is one of membership met often enough: a directory that was a member before
// and is taken in again unasked (master TestNotReplaced).
//
// What only delays is not seen either: who has the next turn to write a file by
// compare-and-set (master TestTurns, TestTurnOfWhoLeft, TestTurnComesToAll), and
// a watcher who is not woken but looks again by itself some seconds later
// (replica/events TestReadersTogether). And runs have no quotas: they see what
// is counted, not who is refused (master/internal/quota TestNeverExceeded and those
// beside it).
package mutants

import (
	"slices"

	"github.com/stoutlock/stout/test/internal/overlay"
)

// Mutant is one fault.
type Mutant struct {
	Name    string
	Section string // of docs/design.md, or a document's name, that has the rule
	Rule    string // the rule that it breaks
	Shows   string // a schedule that shows it
	overlay.Edit
}

// profiles are the special profiles of package simcell that show a mutant within few
// seeds, where mixtures of all faults take tens or hundreds.
var profiles = map[string]string{
	"client-lease-from-answer":  "late answers",
	"client-lease-from-opening": "late answers",
	"handle-used-twice":         "late copies",
	"orphans-not-released":      "late requests",
	"orphans-looked-for-once":   "late acquires",
	"keepalive-without-lease":   "outlived office",
	"name-taken-back":           "second thoughts",
	"hands-over-in-vain":        "unfit masters",

	"entries-of-a-snapshot-are-looked-for": "unanswered entries",
}

// Profile is the special profile that the seeds of a mutant have; empty where they
// have what they draw.
func (m Mutant) Profile() string { return profiles[m.Name] }

// All lists the mutants, those of one layer together. Their names are unique.
func All() []Mutant {
	return slices.Concat(leases(), offices(), sessions(), locks(), answers(), pipelines(), sdk(), members(), membership(), disks(), files(), events(), access(), backups(), history(), ownState(), snapshots())
}
