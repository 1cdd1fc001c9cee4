package replica

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// found writes the first configuration when the disk is empty. Every founder
// writes the same one, which the library allows. A directory that was admitted
// to a cell receives its configuration from the master.
func (r *Replica) found(conf *raft.Config) error {
	logs, votes := r.disk.Logs, r.disk.Votes
	who := r.stores.Identity
	founder := who.Founding.Has(who.ServerID())
	exists, err := raft.HasExistingState(logs, votes, r.stores.Snapshots)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", r.opts.DataDir, err)
	}
	switch {
	case exists && who.Founded:
		return nil
	case exists:
		last, err := logs.LastIndex()
		if err != nil {
			return fmt.Errorf("data directory %s: %w", r.opts.DataDir, err)
		}
		if last > 0 || !founder {
			return r.noteFounded()
		}
		// A crash came between the library's two writes, of the term and of the
		// configuration. Without a repetition the directory would never get a
		// configuration.
		if err := votes.SetUint64([]byte(raftstore.KeyTerm), 0); err != nil {
			return err
		}
	case who.Founded:
		return datadir.LostLog(r.opts.DataDir)
	}
	if !founder {
		// The term marks the log as one that exists.
		if err := votes.SetUint64([]byte(raftstore.KeyTerm), 1); err != nil {
			return err
		}
		return r.noteFounded()
	}
	var servers raft.Configuration
	for _, m := range who.Founding {
		id := admission.ServerID(m.ID, m.Directory)
		servers.Servers = append(servers.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(id), Address: rafttransport.Address(id, m.RaftAddr),
		})
	}
	if err := raft.BootstrapCluster(conf, logs, votes, r.stores.Snapshots, r.wire, servers); err != nil {
		return fmt.Errorf("found the cell: %w", err)
	}
	return r.noteFounded()
}

// noteFounded records that the log exists. From now on its absence is an error.
func (r *Replica) noteFounded() error {
	r.stores.Identity.Founded = true
	return r.stores.Save(r.stores.Identity)
}
