package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// priorities are faults of queues with priorities.
func priorities() []Mutant {
	return []Mutant{
		{"priority-ignored", "guarantees", "a queue is served by priority",
			"a request of a higher priority joins a queue",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "return uint64(MaxPriority-w.Priority)<<56 | w.Seq }",
				New: "return w.Seq }"}},
		{"priority-newest-first", "guarantees", "within a priority the first wait is served first",
			"two requests of one priority wait",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "return uint64(MaxPriority-w.Priority)<<56 | w.Seq }",
				New: "return uint64(MaxPriority-w.Priority)<<56 | (1<<56 - 1 - w.Seq) }"}},
		{"priority-not-in-snapshot", "guarantees", "replicas that applied the same log hold the same state",
			"a request with a priority waits, and a replica starts from a snapshot",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "Priority uint8 `cbor:\"10,keyasint,omitempty\"`",
				New: "Priority uint8 `cbor:\"-\"`"}},
		{"repeated-wait-rises", "guarantees", "a repeated request does not change the priority of a wait",
			"a waiter asks again with a higher priority",
			overlay.Edit{File: "replica/state/acquire.go",
				Old: "return AcquireResult{Verdict: Queued, Wait: w}, op.Wait == Persistent && !w.Keep",
				New: "if op.Priority > w.Priority {\n\t\traised := *w\n\t\traised.Priority = op.Priority\n\t\tw = &raised\n\t}\n\treturn AcquireResult{Verdict: Queued, Wait: w}, op.Wait == Persistent && (!w.Keep || w != has.wait)"}},
		{"abandoned-priority-counts", "guarantees", "a wait that was given up has no position",
			"a request with a priority leaves the queue",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "e.queue.Delete(numbered{w.Path, w.order()})",
				New: "e.queue.Delete(numbered{w.Path, uint64(MaxPriority)<<56 | w.Seq})"}},
		{"contended-by-the-first-only", "guarantees", "an event reports each wait that becomes the next one",
			"a request of a higher priority passes the first waiter",
			overlay.Edit{File: "replica/state/acquire.go",
				Old: "if position == 1 && n.Holders > 0 {",
				New: "if n.Waiters == 0 && n.Holders > 0 {"}},
		{"passes-its-equals", "guarantees", "within a priority the first wait is served first",
			"a request that the lock admits arrives while one of its priority waits",
			overlay.Edit{File: "replica/state/acquire.go",
				Old: "return w.Priority >= op.Priority })",
				New: "return w.Priority > op.Priority })"}},
		{"priority-of-kept-places-only", "guarantees", "a wait has the priority of its request",
			"a request with a priority waits without a kept place",
			overlay.Edit{File: "master/acquire.go",
				Old: "if req.Priority > 0 && o.log",
				New: "if req.Priority > 0 && req.Queue && o.log"}},
	}
}
