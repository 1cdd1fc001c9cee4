package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// offices are faults of the term of office and of reads within it.
func offices() []Mutant {
	return []Mutant{
		{"epoch-not-checked", "1.3", "the state refuses a batch of another epoch",
			"a batch is held up between its admission and its proposal while its office ends and the same replica opens the next in the same raft term",
			overlay.Edit{File: "replica/state/apply.go",
				Old: "case e.Office.Open && e.Office.Term == term && e.Epoch == b.Epoch:",
				New: "case e.Office.Open && e.Office.Term == term:"}},
		{"term-not-checked", "1.3", "the state refuses a batch of another raft term than the open office's",
			"a master loses and wins leadership while a batch is on its way into the log; nobody opened an office in between",
			overlay.Edit{File: "replica/state/apply.go",
				Old: "case e.Office.Open && e.Office.Term == term && e.Epoch == b.Epoch:",
				New: "case e.Office.Open && e.Epoch == b.Epoch:"}},
		{"opening-term-not-checked", "1.3", "an opening entry is refused in another raft term than it was made for",
			"a new leader is paused before it proposes its opening entry, loses leadership to one that opens an office, and wins it back",
			overlay.Edit{File: "replica/state/office.go",
				Old: "if op.Term != term || op.Master == \"\" {",
				New: "if op.Master == \"\" {"}},
		{"resigns-with-lease", "1.2", "a master that gives up drops its lease before it proposes the closing entry",
			"the closing entry reaches the others, one of them is elected and opens without a wait, and the old master has not heard of it",
			overlay.Edit{File: "master/office.go",
				Old: "\to.lease.Drop()\n\tif err := o.batcher.Drain(",
				New: "\tif err := o.batcher.Drain("}},
		{"closed-office-goes-on", "1.2", "a closed office is never taken up again",
			"a transfer fails, its TimeoutNow arrives late, and the successor need not wait since the state says closed",
			overlay.Edit{File: "master/office.go",
				Old: "\tdefer o.end(why)\n\to.lease.Drop()\n",
				New: ""}},
		{"read-without-lease", "1.2", "a read is answered under the lease only",
			"a master is cut off and serves a read after another has taken office",
			overlay.Edit{File: "master/read.go",
				Old: "if o.leaseValid() {\n\t\t\treturn v, err",
				New: "if m.inOffice() == o {\n\t\t\treturn v, err"}},
		{"answer-without-lease", "1.2", "an answer from memory, whatever it says, leaves under the lease only",
			"a session is opened at a new master; its keepalive reaches the old one, which is cut off and does not know it",
			overlay.Edit{File: "master/serve.go",
				Old: "case o.lease.Vouches(began, o.now()):",
				New: "case !o.lease.View(o.now()).Dropped:"}},
		{"name-taken-back", "1.5", "a name is never without a directory while it is replaced",
			"an operator wants the old directory back in the moment in which it is taken out",
			overlay.Edit{File: "master/changemembers.go",
				Old: "case !begun && now.Index != since:",
				New: "case !begun && now.Index < since:"}},
	}
}
