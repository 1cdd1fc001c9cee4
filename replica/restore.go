package replica

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// Saved is a state from which another cell may continue.
type Saved struct{ state *state.State }

// ReadSaved reads the snapshot of a backup to its end. The error is the reason
// why no cell can continue from it.
func ReadSaved(r io.Reader) (Saved, error) {
	s, err := state.Restore(r)
	return Saved{s}, err
}

// Index, Revision and LastToken return the last ones of the state.
func (s Saved) Index() uint64     { return s.state.Index }
func (s Saved) Revision() uint64  { return s.state.Revision }
func (s Saved) LastToken() uint64 { return s.state.LastToken() }

// restoreEpoch is the instant at which RestoreFloor returns 0.
var restoreEpoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// RestoreFloor returns the floor of tokens and revisions for a cell that is
// founded from a backup at an instant of the wall clock. The floor is above
// every number that an earlier cell can have given, if that cell gave fewer
// than 4096 in each millisecond. It is below 2^53 until 2093.
func RestoreFloor(now time.Time) uint64 {
	return uint64(max(0, now.Sub(restoreEpoch).Milliseconds())) << 12
}

// cellIDBytes is the length of a cell id, as founders make it.
const cellIDBytes = 16

// Found founds a cell of one member that continues from the state. Its data
// directory, which must be empty or missing, gets the id o.ID and the addresses
// that o.Members has for it. The cell gets a new id, which is returned. Its
// tokens and revisions begin at floor, or above the state's; see
// state.State.Restored for the rest.
//
// If the error concerns the state, the floor or a directory that is not empty,
// nothing was written. A crash leaves a directory that is empty, or refused.
func (s Saved) Found(o Options, floor uint64) (cellID string, err error) {
	return s.found(o, floor, func() error { return nil })
}

// found is Found with a function ready, called before the first write.
func (s Saved) found(o Options, floor uint64, ready func() error) (cellID string, err error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return "", err
	}
	begin := s.state.Restored(floor)
	if err := begin.Check(); err != nil {
		return "", fmt.Errorf("tokens and revisions would begin at %d: %w", floor, err)
	}
	if err := datadir.Empty(o.DataDir); err != nil {
		return "", err
	}
	if err := ready(); err != nil {
		return "", err
	}
	id := make([]byte, cellIDBytes)
	if _, err := rand.Read(id); err != nil {
		return "", err
	}
	// The directory is a member from the first entry of the log.
	who := admission.Identity{Cell: o.Cell, ID: o.ID, Directory: admission.NewDirectory(), CellID: hex.EncodeToString(id), Admitted: begin.Index}
	stores, finish, giveUp, err := datadir.Begin(o.DataDir, who, o.WAL, o.Logger)
	if err != nil {
		return "", err
	}
	if err := o.writeFirst(stores, who, begin); err != nil {
		return "", errors.Join(fmt.Errorf("data directory %s: %w", o.DataDir, err), giveUp())
	}
	return who.CellID, finish()
}

// writeFirst puts a state into new stores, in place of the log's first entry,
// with a configuration of one member.
func (o *Options) writeFirst(stores datadir.Stores, who admission.Identity, first *state.State) error {
	self, _ := o.member(o.ID)
	servers := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(who.ServerID()), Address: rafttransport.Address(who.ServerID(), self.RaftAddr),
	}}}
	if err := stores.Votes.SetUint64([]byte(raftstore.KeyTerm), first.Term); err != nil {
		return err
	}
	sink, err := stores.Snapshots.Create(raft.SnapshotVersionMax, first.Index, first.Term, servers, first.Index, addresses{})
	if err != nil {
		return err
	}
	if err := first.Snapshot(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// addresses is a transport that only encodes addresses. The library's snapshot
// store needs one for that.
type addresses struct{ raft.Transport }

func (addresses) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }
