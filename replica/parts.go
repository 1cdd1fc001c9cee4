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
	// Known is what others know that the directory has stored. It is refused where
	// that is not there.
	Known admission.Stored
	// Condemn sees to it, durably, that the stores are not opened again, because the
	// replica's state differs from its peers', or it has forgotten what it had stored.
	// May be nil.
	Condemn func(why string) error
	// Close closes the stores, after the transport.
	Close func() error

	host *host // what Open made; nil for parts from elsewhere
}

// openParts opens those in the data directory, and Raft's share of the host.
func openParts(o *Options, h *host) (Parts, error) {
	p, err := (&Directory{o, h.identity()}).Open()
	if err != nil {
		return Parts{}, err
	}
	p.Transport, p.Save, p.Ask, p.host = newTransport(o, h), h.save, h.Ask, h
	return p, nil
}

// Directory is a data directory that belongs to the replica of some options. Of
// these, opening it takes Cell, ID, DataDir, WAL, and Logger.
type Directory struct {
	opts     *Options
	Identity admission.Identity
}

// Claim makes the data directory, or makes sure whose it is. The error says why it
// must not be opened.
func Claim(o *Options) (*Directory, error) {
	who, err := claimDataDir(o.DataDir, o.Cell, o.ID)
	return &Directory{o, who}, err
}

// Save keeps a changed identity, durably.
func (d *Directory) Save(who admission.Identity) error {
	err := writeIdentity(d.opts.DataDir, who)
	if err == nil {
		d.Identity = who
	}
	return err
}

// Open opens the stores, or makes them. It recovers what a crash has left, and refuses
// what is damaged. The parts have no transport, and nobody to ask.
func (d *Directory) Open() (Parts, error) {
	o := d.opts
	log, err := openLog(o.DataDir, d.Identity.Founded, o.WAL)
	if err != nil {
		return Parts{}, err
	}
	snaps, err := openSnapshots(o, log)
	if err != nil {
		return Parts{}, errors.Join(err, log.Close())
	}
	return Parts{
		Logs: log, Votes: log, Snapshots: snaps, Identity: d.Identity, Save: d.Save,
		Condemn: func(why string) error { return condemn(o.DataDir, why) },
		Close:   log.Close,
	}, nil
}
