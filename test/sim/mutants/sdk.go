package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// sdk are faults of the Go client.
func sdk() []Mutant {
	return []Mutant{
		{"client-lease-from-answer", "1.4", "the client's lease runs ttl_ms from sending + held_ms",
			"the answer to a keepalive is delayed by more than the slack, the client is cut off, and its lock goes to another",
			overlay.Edit{File: "client/keepalive.go",
				Old: "s.lease.extend(sent + held + ",
				New: "s.lease.extend(s.c.clock.now() + 0*held + "}},
		{"client-lease-from-opening", "1.4", "the client's first lease runs from sending",
			"the answer to an opening is delayed by more than the slack, a lock is taken, and the client is cut off",
			overlay.Edit{File: "client/session.go",
				Old: "c.startSession(context.WithoutCancel(ctx), opened, q.firstSent)",
				New: "c.startSession(context.WithoutCancel(ctx), opened, c.clock.now())"}},
		{"held-counted-twice", "1.4", "the client's lease runs ttl_ms from sending + held_ms",
			"a keepalive is held for long, the client is cut off, and its lock goes to another",
			overlay.Edit{File: "client/keepalive.go",
				Old: "s.lease.extend(sent + held + ",
				New: "s.lease.extend(sent + 2*held + "}},
		{"jeopardy-keeps-holds", "2", "when the local lease runs out, Held.Context is cancelled",
			"a client is cut off from the cell for longer than its ttl, and its lock goes to another",
			overlay.Edit{File: "client/held.go",
				Old: "\th.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))\n",
				New: "\tvar end context.CancelCauseFunc\n\th.ctx, end = context.WithCancelCause(context.WithoutCancel(ctx))\n\th.cancel = func(why error) {\n\t\tif why != ErrJeopardy {\n\t\t\tend(why)\n\t\t}\n\t}\n"}},
		{"unlock-before-the-work-ends", "2", "Unlock ends the hold's context before it releases the lock",
			"a lock is released while the work under its context continues, and the next waiter gets it",
			overlay.Edit{File: "client/release.go",
				Old: "\ta.held.cancel(ErrUnlocked)\n",
				New: ""}},
		{"handle-used-twice", "2", "a late request never affects a newer hold",
			"an unlock is duplicated and delayed; the session takes the lock again under the same handle, and the copy arrives",
			overlay.Edit{File: "client/acquisitions.go",
				Old: "t.serial++",
				New: "t.serial = uint64(len(t.byHandle))"}},
		{"orphans-not-released", "2", "claims that a failed Lock left in the cell are released in the background",
			"a Lock is given up while the cell cannot be reached, its request was granted, and the session lives on",
			overlay.Edit{File: "client/reconcile.go",
				Old: "r.lost, r.since, r.again = true, now, now",
				New: "_ = now"}},
		{"orphans-looked-for-once", "2", "the client looks for leftover claims of a session until a lost request can't arrive any more",
			"a Lock is given up while the cell cannot be reached, the client checks the session, and then the request arrives",
			overlay.Edit{File: "client/reconcile.go",
				Old: "r.overdue, r.once = false, false",
				New: "r.overdue, r.once, r.lost = false, false, false"}},
	}
}
