package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// backups are faults of backups, and of what is made from one.
func backups() []Mutant {
	const restored = "replica/state/restored.go"
	return []Mutant{
		{"backup-without-the-lease", "The log is the lease", "a read checks that the office's lease runs, after it has read",
			"a master that was deposed gives a backup that lacks what its successor has acknowledged",
			overlay.Edit{File: "master/backup.go", Old: "\tr.Stale = false\n", New: "\tr.Stale = true\n"}},
		{"own-backup-not-stale", "docs/backups.md", "a backup by schedule says whether it was the master's",
			"a replica that lags behind writes a backup that passes for the cell's",
			overlay.Edit{File: "master/backup.go", Old: "o == nil || !o.leaseValid()), nil", New: "o == nil && false), nil"}},
		{"restore-keeps-sessions", "The state is a pure function of the log", "no session lives on in a restored cell",
			"a cell is restored while sessions are open",
			overlay.Edit{File: restored, Old: "\t\te.dropSession(v)\n", New: ""}},
		{"restore-keeps-counters", "The state is a pure function of the log", "tokens and revisions go on above the backup's and the floor",
			"a backup is restored twice",
			overlay.Edit{File: restored, Old: "\te.Counter = max(s.Counter+1, floor)\n", New: ""}},
		{"restore-keeps-revisions", "The state is a pure function of the log", "tokens and revisions go on above the backup's and the floor",
			"a backup is restored twice",
			overlay.Edit{File: restored, Old: "max(s.Revision+1, floor)", New: "s.Revision"}},
		{"floor-of-the-backup", "The state is a pure function of the log", "the floor is one above what the backup says",
			"a backup is restored by a clock that is behind what the old cell has given",
			overlay.Edit{File: restored, Old: "max(s.Counter+1, floor)", New: "max(s.Counter, floor)"}},
		{"restore-without-delay", "The state is a pure function of the log", "what was held is delayed, also where no lock-delay was asked for",
			"a cell is restored while a lock is held whose holder asked for no lock-delay",
			overlay.Edit{File: restored, Old: "\t\t\tms = DelayOfNone\n", New: "\t\t\tcontinue\n"}},
		{"restore-keeps-ephemeral", "The state is a pure function of the log", "ephemeral files are gone in a restored cell",
			"a cell is restored while there is an ephemeral file",
			overlay.Edit{File: restored, Old: "\t\t\te.dropFile(f, Expired)\n", New: "\t\t\tkept := *f\n\t\t\tkept.Session = \"\"\n\t\t\te.putFile(&kept)\n"}},
		{"restore-waits-for-its-own-lease", "The log is the lease", "the first master of a restored cell waits the upper bound of every lease",
			"a cell is restored beside a master of the old one that has a longer lease",
			overlay.Edit{File: restored, Old: "LeaseMS: MaxLeaseMS}", New: "LeaseMS: s.Office.LeaseMS}"}},
	}
}
