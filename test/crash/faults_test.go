package main

import "github.com/stoutlock/stout/test/internal/overlay"

// faults are deliberate mistakes, one at a time, that the trials must find.
var faults = []struct {
	name string
	overlay.Edit
}{
	{"no sync of raft.wal", overlay.Edit{File: "replica/wal/log.go",
		Old: "\t\terr = disk.SyncData(w.file)\n", New: ""}},
	{"no sync of a file that replaces another", overlay.Edit{File: "replica/disk/disk.go",
		Old: "errors.Join(err, SyncFile(f), f.Close())", New: "errors.Join(err, f.Close())"}},
	{"no sync of the directory of such a file", overlay.Edit{File: "replica/disk/disk.go",
		Old: "return SyncDir(filepath.Dir(name))", New: "return nil"}},
	{"no sync of the data directory's name", overlay.Edit{File: "replica/disk/disk.go",
		Old: "\t\tabove := filepath.Dir(dir)\n", New: "\t\tabove := dir\n"}},
	{"a snapshot recorded before it is finished", overlay.Edit{File: "replica/snapshots/snapshots.go",
		Old: "\tif err := s.SnapshotSink.Close(); err != nil {\n\t\treturn errors.Join(err, s.discard())\n\t}\n\treturn s.done()",
		New: "\tif err := s.done(); err != nil {\n\t\treturn err\n\t}\n\treturn s.SnapshotSink.Close()"}},
	{"no sync of the directory of a snapshot", overlay.Edit{File: "replica/snapshots/snapshots.go",
		Old: "\treturn disk.SyncDir(dir)\n", New: "\treturn nil\n"}},
	{"no sync of a snapshot that a killed process left", overlay.Edit{File: "replica/snapshots/snapshots.go",
		Old: "errors.Join(err, disk.SyncDir(dir), ", New: "errors.Join(err, "}},
	{"the generation after the manifest's left out", overlay.Edit{File: "replica/wal/read.go",
		Old: "\treturn append(logs, behind...), next, err", New: "\t_ = behind\n\treturn logs, next, err"}},
	{"a deletion that is not recorded first", overlay.Edit{File: "replica/boltlog/log.go",
		Old: "r.Entries, r.Deleted = r.Entries.without(from, to), r.Deleted.with(from, to)",
		New: "r.Entries = r.Entries.without(from, to)"}},
}
