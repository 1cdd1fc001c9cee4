package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// backups are faults of backups and of cells restored from one.
func backups() []Mutant {
	const restored = "replica/state/restored.go"
	return []Mutant{
		{"backup-without-the-lease", "The log is the lease", "a read checks after reading that the office's lease is running",
			"a deposed master returns a backup that lacks entries that its successor has acknowledged",
			overlay.Edit{File: "master/backup.go", Old: "\tr.Stale = false\n", New: "\tr.Stale = true\n"}},
		{"own-backup-not-stale", "docs/backups.md", "a scheduled backup states whether it was the master's",
			"a replica that lags behind writes a backup that passes for the cell's",
			overlay.Edit{File: "master/backup.go", Old: "o == nil || !o.leaseValid()), nil", New: "o == nil && false), nil"}},
		{"restore-keeps-sessions", "The state is a pure function of the log", "sessions end in a restored cell",
			"a cell is restored while sessions are open",
			overlay.Edit{File: restored, Old: "\t\te.dropSession(v)\n", New: ""}},
		{"restore-keeps-counters", "The state is a pure function of the log", "tokens and revisions continue above the backup's and the floor",
			"a backup is restored twice",
			overlay.Edit{File: restored, Old: "\te.Counter = max(s.Counter+1, floor)\n", New: ""}},
		{"restore-keeps-revisions", "The state is a pure function of the log", "tokens and revisions continue above the backup's and the floor",
			"a backup is restored twice",
			overlay.Edit{File: restored, Old: "max(s.Revision+1, floor)", New: "s.Revision"}},
		{"floor-of-the-backup", "The state is a pure function of the log", "the floor is one above the backup's counter",
			"a backup is restored by a clock that is behind the tokens of the old cell",
			overlay.Edit{File: restored, Old: "max(s.Counter+1, floor)", New: "max(s.Counter, floor)"}},
		{"restore-without-delay", "The state is a pure function of the log", "every held lock is delayed, even without a requested lock-delay",
			"a cell is restored while a lock is held without a lock-delay",
			overlay.Edit{File: restored, Old: "\t\t\tms = DelayOfNone\n", New: "\t\t\tcontinue\n"}},
		{"restore-keeps-ephemeral", "The state is a pure function of the log", "ephemeral files are deleted in a restored cell",
			"a cell is restored while there is an ephemeral file",
			overlay.Edit{File: restored, Old: "\t\t\te.dropFile(f, Expired)\n", New: "\t\t\tkept := *f\n\t\t\tkept.Session = \"\"\n\t\t\te.putFile(&kept)\n"}},
		{"restore-waits-for-its-own-lease", "The log is the lease", "the first master of a restored cell waits for the longest possible lease",
			"a cell is restored beside a master of the old one with a longer lease",
			overlay.Edit{File: restored, Old: "LeaseMS: MaxLeaseMS}", New: "LeaseMS: s.Office.LeaseMS}"}},
	}
}
