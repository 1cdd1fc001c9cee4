package replica

import (
	"errors"

	"github.com/hashicorp/raft"
)

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
	// Condemn sees to it, durably, that the stores are not opened again: the
	// replica's state was found to differ from its peers'. May be nil.
	Condemn func(why string) error
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
	log, err := openLog(o.DataDir, who.Founded, o.WAL)
	if err != nil {
		return Parts{}, err
	}
	snaps, err := openSnapshots(o, log)
	if err != nil {
		return Parts{}, errors.Join(err, log.Close())
	}
	self, _ := o.member(o.ID)
	trans, err := newTransport(o, self, raftLogger(o.Logger))
	if err != nil {
		return Parts{}, errors.Join(err, log.Close())
	}
	return Parts{
		Logs: log, Votes: log, Snapshots: snaps, Transport: trans,
		Founded: who.Founded, NoteFounded: func() error { return who.founded(o.DataDir) },
		Condemn: func(why string) error { return condemn(o.DataDir, why) },
		Close:   log.Close,
	}, nil
}
