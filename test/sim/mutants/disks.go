package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// disks are faults of what is on the disk, and when. Command crash tries them
// and more, at every point of a run of the stores alone. One of those is a name
// that is not synced; here the next start syncs it.
func disks() []Mutant {
	const section = "guarantees.md, Disk faults"
	return []Mutant{
		{"wal-not-synced", section, "entries are on the disk before they are acknowledged",
			"the power is lost after an acknowledged entry",
			overlay.Edit{File: "replica/wal/log.go",
				Old: "\t\terr = disk.SyncData(w.file)\n",
				New: ""}},
		{"file-not-synced", section, "a file is on the disk before it gets its name",
			"the power is lost while a replica is founded or admitted",
			overlay.Edit{File: "replica/disk/disk.go",
				Old: "errors.Join(err, SyncFile(f), f.Close())",
				New: "errors.Join(err, f.Close())"}},
		{"snapshot-noted-early", section, "a snapshot is recorded when it is finished",
			"the power is lost during a snapshot from a leader to a follower far behind",
			overlay.Edit{File: "replica/snapshots/snapshots.go",
				Old: "\tif err := s.SnapshotSink.Close(); err != nil {\n\t\treturn errors.Join(err, s.discard())\n\t}\n\treturn s.done()",
				New: "\tif err := s.done(); err != nil {\n\t\treturn err\n\t}\n\treturn s.SnapshotSink.Close()"}},
		{"names-in-snapshot-not-synced", section, "the names of a snapshot's files are on the disk before the snapshot's own",
			"the power is lost after a snapshot, and the log is cut",
			overlay.Edit{File: "replica/snapshots/snapshots.go",
				Old: "\treturn disk.SyncDir(dir)\n",
				New: "\treturn nil\n"}},
		{"forgotten-unseen", section, "a follower that has lost entries it acknowledged to its master receives nothing more",
			"a directory is put back to an older copy, and does not reach the master at its start",
			overlay.Edit{File: "replica/rafttransport/acknowledged.go",
				Old: "if r.LastLog < least {",
				New: "if r.LastLog < least && least == 0 {"}},
	}
}
