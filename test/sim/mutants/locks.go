package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// locks are faults of grants, tokens and queues.
func locks() []Mutant {
	return []Mutant{
		{"counter-not-in-snapshot", "1.5", "tokens never go back",
			"locks are granted and released, a snapshot is restored, and another is granted",
			overlay.Edit{File: "replica/state/state.go",
				Old: "Counter     uint64 `cbor:\"6,keyasint\"`",
				New: "Counter     uint64 `cbor:\"-\"`"}},
		{"token-of-queue-reused", "1.5", "each grant has a token of its own, higher than all before",
			"a waiter is granted the lock on a release: it gets the last grant's token",
			overlay.Edit{File: "replica/state/locks.go",
				Old: "\te.Counter++\n",
				New: "\tif w.Seq == 0 {\n\t\te.Counter++\n\t}\n"}},
		{"shared-overtakes-exclusive", "guarantees", "a shared request never overtakes an earlier exclusive one",
			"a lock is held shared, an exclusive request waits, and a shared one comes",
			overlay.Edit{File: "replica/state/locks.go",
				Old: "case l.DelayID != 0, l.Waiters > 0, !l.admits(mode, limit):",
				New: "case l.DelayID != 0, l.Waiters > 0 && mode == Exclusive, !l.admits(mode, limit):"}},
		{"limit-off-by-one", "guarantees", "a semaphore has never more holders than its limit",
			"three ask for a semaphore of two",
			overlay.Edit{File: "replica/state/locks.go",
				Old: "int64(l.Holders) < limit)",
				New: "int64(l.Holders) <= limit)"}},
		{"delayed-lock-never-settled", "guarantees", "a queue moves as far as the lock admits",
			"a request waits out a lock-delay",
			overlay.Edit{File: "replica/state/locks.go",
				Old: "DelayID: c.Seq})\n\te.settle(c.Path)\n",
				New: "DelayID: c.Seq})\n"}},
		{"release-of-newer-hold", "guarantees", "a release that names a token ends that very grant only",
			"a release is delayed; its pair gets the lock anew under the same handle, and the release arrives (needs a caller that uses a handle twice)",
			overlay.Edit{File: "lockapi/server/locks.go",
				Old: "x.master.Release(ctx, path, session, handle, token)",
				New: "x.master.Release(ctx, path, session, handle, min(token, 0))"}},
		{"second-grant-for-a-pair", "guarantees", "an acquire that is sent again does not do its work twice",
			"an acquire is duplicated on its way, and both copies are in the log before either is applied",
			overlay.Edit{File: "replica/state/locks.go",
				Old: "claimKey{c.Session, c.Path, c.Handle}); ok {\n\t\treturn e.reacquire(",
				New: "claimKey{c.Session, c.Path, c.Handle}); ok && has.hold == nil {\n\t\treturn e.reacquire("}},
		{"told-of-a-withdrawn-grant", "1.6", "nothing is told that a withdrawal under way takes back",
			"a waiting call breaks off at the moment of its grant, and the pair asks again while the withdrawal is in the log",
			overlay.Edit{File: "master/acquire.go",
				Old: "settled := a.pair.updating == 0",
				New: "settled := a.pair.updating >= 0"}},
	}
}
