package replica

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// snapshotsKept is how many snapshots stay on disk.
const snapshotsKept = 2

// Parts are where a replica keeps what it must not forget, and how it speaks to
// the others. Each store has synced what it was given when it returns.
type Parts struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore
	Transport Transport
	// Founded says that the log has been there: where it is gone, so is what the
	// replica has voted and promised. NoteFounded makes it so, durably.
	Founded     bool
	NoteFounded func() error
	// Close closes the stores, after the transport.
	Close func() error
}

// openParts opens those in the data directory, and the listener. Where it fails
// nothing is left open.
func openParts(o *Options) (Parts, error) {
	who, err := claimDataDir(o.DataDir, o.Cell, o.ID)
	if err != nil {
		return Parts{}, err
	}
	bolt, err := openBolt(o.DataDir)
	if err != nil {
		return Parts{}, err
	}
	log := raftLogger(o.Logger)
	snaps, err := raft.NewFileSnapshotStoreWithLogger(filepath.Clean(o.DataDir), snapshotsKept, log)
	if err != nil {
		return Parts{}, errors.Join(fmt.Errorf("data directory %s: %w", o.DataDir, err), bolt.Close())
	}
	self, _ := o.member(o.ID)
	trans, err := newTransport(o, self, log)
	if err != nil {
		return Parts{}, errors.Join(err, bolt.Close())
	}
	return Parts{
		Logs: bolt, Votes: bolt, Snapshots: snaps, Transport: trans,
		Founded: who.Founded, NoteFounded: func() error { return who.founded(o.DataDir) },
		Close: bolt.Close,
	}, nil
}
