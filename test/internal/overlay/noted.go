package overlay

import (
	"context"
	"fmt"
	"path/filepath"
)

// shim replaces package os where writes are recorded.
const shim = "github.com/stoutlock/stout/test/crash/recorded"

const (
	bbolt = "go.etcd.io/bbolt"
	raft  = "github.com/hashicorp/raft"
)

// syncs are the calls that bypass package os.
var syncs = []struct{ module, file, was, is string }{
	{bbolt, "bolt_linux.go", "syscall.Fdatasync(int(db.file.Fd()))", "db.file.Datasync()"},
	{bbolt, "bolt_linux.go", "import (\n\t\"syscall\"\n)\n", ""},
	{"", "replica/disk/sync_linux.go", "syscall.Fdatasync(int(file.Fd()))", "file.Datasync()"},
}

// stores are the packages of the module at root that write to a disk.
var stores = []string{"replica/disk", "replica/wal", "replica/boltlog", "replica/snapshots", "replica/datadir"}

// Noted returns base with every disk operation of a replica's stores recorded
// (package recorded): the stores of the module at root, bbolt, and the
// library's snapshot store. It fails if one of their sources has changed since
// this was written.
func Noted(ctx context.Context, root string, base Overlay) (o Overlay, err error) {
	o = base
	dirs := map[string]string{"": root}
	for _, module := range []string{bbolt, raft} {
		if o, dirs[module], err = o.copied(ctx, root, module); err != nil {
			return o, err
		}
	}
	for _, pkg := range stores {
		if o, err = o.reimported(filepath.Join(root, pkg), "os", shim); err != nil {
			return o, err
		}
	}
	if o, err = o.reimported(dirs[bbolt], "os", shim); err != nil {
		return o, err
	}
	if o, err = o.reimported(dirs[raft], "os", shim, "file_snapshot.go"); err != nil {
		return o, err
	}
	for _, s := range syncs {
		if o, err = o.substitute(filepath.Join(dirs[s.module], s.file), s.was, s.is); err != nil {
			return o, fmt.Errorf("a sync has changed: %w", err)
		}
	}
	return o, nil
}
