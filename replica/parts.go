package replica

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// Parts are where a replica keeps what it must not forget, and how it speaks to
// the others. Each store has synced what it was given when it returns.
type Parts struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore
	Transport Transport
	// Identity tells whose directory it is, and of which cell.
	Identity admission.Identity
	// Save keeps a changed identity, durably.
	Save func(admission.Identity) error
	// Ask asks another replica for its card. Nil where there is nobody to ask.
	Ask func(ctx context.Context, name string) (admission.Card, error)
	// Condemn sees to it, durably, that the stores are not opened again: the
	// replica's state was found to differ from its peers'. May be nil.
	Condemn func(why string) error
	// Close closes the stores, after the transport.
	Close func() error

	host *host // what Open made; nil for parts from elsewhere
}

// openParts opens those in the data directory, and Raft's share of the host.
func openParts(o *Options, h *host) (Parts, error) {
	p, err := openStores(o, h.identity())
	if err != nil {
		return Parts{}, err
	}
	p.Transport, p.Save, p.Ask, p.host = newTransport(o, h), h.save, h.Ask, h
	return p, nil
}

// OpenStores opens the stores in a data directory, or makes them, for a replica
// without others. It recovers what a crash has left, or refuses what is damaged.
func OpenStores(o *Options) (Parts, error) {
	who, err := claimDataDir(o.DataDir, o.Cell, o.ID)
	if err != nil {
		return Parts{}, err
	}
	return openStores(o, who)
}

func openStores(o *Options, who admission.Identity) (Parts, error) {
	log, err := openLog(o.DataDir, who.Founded, o.WAL)
	if err != nil {
		return Parts{}, err
	}
	snaps, err := openSnapshots(o, log)
	if err != nil {
		return Parts{}, errors.Join(err, log.Close())
	}
	return Parts{
		Logs: log, Votes: log, Snapshots: snaps,
		Identity: who, Save: func(who admission.Identity) error { return writeIdentity(o.DataDir, who) },
		Condemn: func(why string) error { return condemn(o.DataDir, why) },
		Close:   log.Close,
	}, nil
}
