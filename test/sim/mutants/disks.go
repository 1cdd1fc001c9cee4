package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// disks are faults of what is on the disk, and when. Command crash tries them,
// and more, at every point of a run of the stores alone: a name that is not
// synced, say, which here the next start syncs.
func disks() []Mutant {
	const section = "guarantees.md, Disk faults"
	return []Mutant{
		{"wal-not-synced", section, "entries are on the disk before they are acknowledged",
			"the power is lost behind an acknowledged entry",
			overlay.Edit{File: "replica/wal/log.go",
				Old: "\t\terr = disk.SyncData(w.file)\n",
				New: ""}},
		{"file-not-synced", section, "a file is on the disk before it gets its name",
			"the power is lost while a replica is founded or admitted",
			overlay.Edit{File: "replica/disk/disk.go",
				Old: "errors.Join(err, SyncFile(f), f.Close())",
				New: "errors.Join(err, f.Close())"}},
		{"snapshot-noted-early", section, "a snapshot is noted when it is finished",
			"the power is lost within a snapshot that a leader has sent to a follower far behind",
			overlay.Edit{File: "replica/snapshots/snapshots.go",
				Old: "\tif err := s.SnapshotSink.Close(); err != nil {\n\t\treturn err\n\t}\n\treturn s.done()",
				New: "\tif err := s.done(); err != nil {\n\t\treturn err\n\t}\n\treturn s.SnapshotSink.Close()"}},
		{"names-in-snapshot-not-synced", section, "the names of a snapshot's files are on the disk before its own",
			"the power is lost behind a snapshot, and the log is cut",
			overlay.Edit{File: "replica/snapshots/snapshots.go",
				Old: "\treturn disk.SyncDir(dir)\n",
				New: "\treturn nil\n"}},
		{"forgotten-unseen", section, "a follower that has forgotten what it had told its master is sent nothing more",
			"a directory is put back as it was some time ago, and misses the master at its start",
			overlay.Edit{File: "replica/rafttransport/acknowledged.go",
				Old: "if r.LastLog < least {",
				New: "if r.LastLog < least && least == 0 {"}},
	}
}
