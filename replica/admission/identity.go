package admission

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Identity is what a data directory records about itself. A change of it is
// stored durably before anything relies on it.
type Identity struct {
	Format    int    `json:"format"`
	Cell      string `json:"cell"`      // name of the cell
	ID        string `json:"id"`        // name of the replica
	Directory string `json:"directory"` // random; made with the directory
	// Founding is the founding that the directory has prepared, or that of its
	// cell. The directory is a founder if the founding names it.
	Founding Founding `json:"founding,omitempty"`
	// Access records the founders' agreement about access at the time it
	// prepared: a digest of the root's secret, or empty if access is off.
	Access string `json:"access,omitempty"`
	// CellID is the id of its cell; empty before it belongs to one.
	CellID string `json:"cell_id,omitempty"`
	// Founded is set once the log exists. If the log is missing later, this
	// replica's votes and promises are lost, too.
	Founded bool `json:"founded"`
	// Admitted is the log index of a committed configuration that lists this
	// directory, as another replica reported; 0 for a founder.
	Admitted uint64 `json:"admitted,omitempty"`
	// Replaced is the log index of a configuration that no longer lists this
	// directory. It then waits to be admitted again. Otherwise it is 0.
	Replaced uint64 `json:"replaced,omitempty"`
	// Known is the latest that the directory knew about the cell's members.
	Known Roster `json:"known,omitzero"`
}

// ServerID returns the id of the replica in Raft.
func (w Identity) ServerID() string { return ServerID(w.ID, w.Directory) }

// Refuses returns an error unless a connection is for exactly this member of
// this cell.
func (w Identity) Refuses(cellID, wanted string) error {
	switch {
	case cellID != w.CellID:
		return fmt.Errorf("replica %s belongs to the cell with id %s, not %s", w.ID, w.CellID, cellID)
	case wanted != w.ServerID():
		return fmt.Errorf("this is %s, not %s", w.ServerID(), wanted)
	}
	return nil
}

// ServerID returns a member's id in Raft: its name and directory.
func ServerID(name, directory string) string { return name + "/" + directory }

// Split splits a ServerID. The directory is empty if there is no slash.
func Split(server string) (name, directory string) {
	name, directory, _ = strings.Cut(server, "/")
	return name, directory
}

// directoryBytes makes it practically impossible that two directories of one
// name get the same id. The id is not secret.
const directoryBytes = 8

// NewDirectory makes the id of a new directory.
func NewDirectory() string {
	b := make([]byte, directoryBytes)
	if _, err := rand.Read(b); err != nil {
		panic(err) // crypto/rand does not fail
	}
	return hex.EncodeToString(b)
}

// Founder is one replica of a founding.
type Founder struct {
	ID        string `json:"id" cbor:"1,keyasint"`
	Directory string `json:"directory" cbor:"2,keyasint"`
	RaftAddr  string `json:"raft_addr" cbor:"3,keyasint"`
}

// Founding is the complete first configuration of a cell, sorted by name.
type Founding []Founder

// CellID returns the id of the cell that the founding makes. It is as random as
// the directory ids, and every replica computes the same one.
func (f Founding) CellID(cell string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "stout cell %q\n", cell)
	for _, m := range f {
		fmt.Fprintf(sum, "%q %q %q\n", m.ID, m.Directory, m.RaftAddr)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Has reports whether a directory belongs to the founding.
func (f Founding) Has(server string) bool {
	return slices.ContainsFunc(f, func(m Founder) bool { return ServerID(m.ID, m.Directory) == server })
}

func (f Founding) directory(name string) string {
	for _, m := range f {
		if m.ID == name {
			return m.Directory
		}
	}
	return ""
}

// Info is the description of itself that a replica sends to another on request.
type Info struct {
	Cell      string   `cbor:"1,keyasint"`
	ID        string   `cbor:"2,keyasint"`
	Directory string   `cbor:"3,keyasint"`
	RaftAddr  string   `cbor:"4,keyasint"`
	Names     []string `cbor:"5,keyasint"` // of its founding list, sorted
	Founding  Founding `cbor:"6,keyasint,omitempty"`
	CellID    string   `cbor:"7,keyasint,omitempty"`
	// Members are the server ids of the latest configuration that it knows to
	// be committed. ConfigIndex is the log index of that configuration.
	Members     []string `cbor:"8,keyasint,omitempty"`
	ConfigIndex uint64   `cbor:"9,keyasint,omitempty"`
	// Applied is an index up to which it has applied every entry. The
	// configuration on the card is the latest up to there. HasLeader is set
	// if it leads or is in contact with a leader.
	Applied   uint64 `cbor:"10,keyasint,omitempty"`
	HasLeader bool   `cbor:"11,keyasint,omitempty"`
	Version   string `cbor:"12,keyasint,omitempty"`
	// Leads is set if it leads. Stored is what the requesting directory has
	// reported to it as stored, if anything.
	Leads  bool   `cbor:"13,keyasint,omitempty"`
	Stored Stored `cbor:"14,keyasint,omitempty"`
	// Voters are the Members that vote. A directory becomes a voter only after
	// it has stored what the others have.
	Voters []string `cbor:"15,keyasint,omitempty"`
	// Level is the highest level that its release knows; see package state.
	Level uint64 `cbor:"16,keyasint,omitempty"`
	// Access is the digest of its founding secret: see Self. It is omitted once
	// it belongs to a cell.
	Access string `cbor:"17,keyasint,omitempty"`
	// Sync is the present duration of a write to its log. Writing is how long
	// the write in progress has taken so far. Both are in microseconds. Unsent
	// counts consecutive snapshots that it failed to read or send as a leader.
	Sync    uint64 `cbor:"18,keyasint,omitempty"`
	Writing uint64 `cbor:"19,keyasint,omitempty"`
	Unsent  uint64 `cbor:"20,keyasint,omitempty"`
	// Removed lists the replicas that the cell has removed: see Roster.
	Removed []string `cbor:"21,keyasint,omitempty"`
	// Addrs are the Raft addresses in its founding list, in the order of Names.
	// They are omitted once it belongs to a cell.
	Addrs []string `cbor:"22,keyasint,omitempty"`
}

// Stored is what a directory has reported to a leader as stored: in that term,
// every entry up to that index.
type Stored struct {
	Term  uint64 `cbor:"1,keyasint"`
	Index uint64 `cbor:"2,keyasint"`
	// Lost is set if that term's leader has found the log to end before Index.
	// The leader then sends it nothing more, even if it has caught up.
	Lost bool `cbor:"3,keyasint,omitempty"`
}

// ServerID returns the id of the replica in Raft.
func (c Info) ServerID() string { return ServerID(c.ID, c.Directory) }

func (c Info) lists(server string) bool { return slices.Contains(c.Members, server) }

func (c Info) votes(server string) bool { return slices.Contains(c.Voters, server) }

// newer reports whether c is more recent than another card. It has a later
// configuration, or has applied more under the same one.
func (c Info) newer(than Info) bool {
	if c.ConfigIndex != than.ConfigIndex {
		return c.ConfigIndex > than.ConfigIndex
	}
	return c.Applied > than.Applied
}
