package admission

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Identity is what a data directory knows of itself. It is kept durably, and
// changed before anything is done that rests on the change.
type Identity struct {
	Format    int    `json:"format"`
	Cell      string `json:"cell"`      // name of the cell
	ID        string `json:"id"`        // name of the replica
	Directory string `json:"directory"` // random; made with the directory
	// Founding is what the directory has prepared to found, or the founding of the
	// cell that it belongs to. The directory is a founder where that names it.
	Founding Founding `json:"founding,omitempty"`
	// Access is what the founders have agreed on about access, when it prepared to
	// found with them: a digest of the root's secret, empty where access is off.
	Access string `json:"access,omitempty"`
	// CellID is that of the cell that it belongs to; empty before.
	CellID string `json:"cell_id,omitempty"`
	// Founded says that the log has been there: if it is gone later, so are this
	// replica's votes and promises.
	Founded bool `json:"founded"`
	// Admitted is the place in the log of a committed configuration that lists
	// this directory, as another told; 0 for a founder.
	Admitted uint64 `json:"admitted,omitempty"`
	// Replaced is the place in the log of a configuration that does not list this
	// directory any more, 0 where there is none: it waits to be admitted again.
	Replaced uint64 `json:"replaced,omitempty"`
	// Known is the latest that the directory knew of the cell's members.
	Known Roll `json:"known,omitzero"`
}

// ServerID is the id of the replica in Raft.
func (w Identity) ServerID() string { return ServerID(w.ID, w.Directory) }

// Refuses says why a connection is not for this directory, or nil where it
// means this very member of this very cell.
func (w Identity) Refuses(cellID, wanted string) error {
	switch {
	case cellID != w.CellID:
		return fmt.Errorf("replica %s belongs to the cell with id %s, not %s", w.ID, w.CellID, cellID)
	case wanted != w.ServerID():
		return fmt.Errorf("this is %s, not %s", w.ServerID(), wanted)
	}
	return nil
}

// ServerID is a member's id in Raft: a name and a directory.
func ServerID(name, directory string) string { return name + "/" + directory }

// Split parts a ServerID. The directory of anything else is empty.
func Split(server string) (name, directory string) {
	name, directory, _ = strings.Cut(server, "/")
	return name, directory
}

// directoryBytes make it as good as impossible that two directories of one name
// are given the same id. It is no secret.
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

// Founding is the whole first configuration of a cell, sorted by name.
type Founding []Founder

// CellID is the id of the cell that the founding makes. It is random as the
// directories are, and the same on every replica, so that none has to tell it.
func (f Founding) CellID(cell string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "stout cell %q\n", cell)
	for _, m := range f {
		fmt.Fprintf(sum, "%q %q %q\n", m.ID, m.Directory, m.RaftAddr)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Has reports whether a directory is one of the founding.
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

// Card is what a replica tells of itself to another that asks.
type Card struct {
	Cell      string   `cbor:"1,keyasint"`
	ID        string   `cbor:"2,keyasint"`
	Directory string   `cbor:"3,keyasint"`
	RaftAddr  string   `cbor:"4,keyasint"`
	Names     []string `cbor:"5,keyasint"` // of its founding list, sorted
	Founding  Founding `cbor:"6,keyasint,omitempty"`
	CellID    string   `cbor:"7,keyasint,omitempty"`
	// Members are the server ids of the latest configuration that it knows to be
	// committed, and ConfigIndex is that configuration's place in the log.
	Members     []string `cbor:"8,keyasint,omitempty"`
	ConfigIndex uint64   `cbor:"9,keyasint,omitempty"`
	// Applied is an entry up to which it has applied all: the configuration that
	// it tells is the latest up to there. Heard says that it leads or hears a
	// leader.
	Applied uint64 `cbor:"10,keyasint,omitempty"`
	Heard   bool   `cbor:"11,keyasint,omitempty"`
	Version string `cbor:"12,keyasint,omitempty"`
	// Leads says that it leads, and Stored what whoever asks has told it to have
	// stored, if anything.
	Leads  bool   `cbor:"13,keyasint,omitempty"`
	Stored Stored `cbor:"14,keyasint,omitempty"`
	// Voters are those of Members that vote. A directory becomes one only when it
	// has stored what the others have.
	Voters []string `cbor:"15,keyasint,omitempty"`
	// Level is the highest that its release knows; see package state.
	Level uint64 `cbor:"16,keyasint,omitempty"`
	// Access is with what it would found: see Self. It is not told once it belongs
	// to a cell.
	Access string `cbor:"17,keyasint,omitempty"`
	// Sync is how long a write to its log takes at present, and Writing how long the one
	// under way has taken so far, in microseconds. Unsent counts the snapshots that it
	// could not read or send, one after the other, as a leader.
	Sync    uint64 `cbor:"18,keyasint,omitempty"`
	Writing uint64 `cbor:"19,keyasint,omitempty"`
	Unsent  uint64 `cbor:"20,keyasint,omitempty"`
	// Removed are the replicas that the cell has removed: see Roll.
	Removed []string `cbor:"21,keyasint,omitempty"`
}

// Stored is what a directory has told a leader to have stored: in that term,
// all up to that index.
type Stored struct {
	Term  uint64 `cbor:"1,keyasint"`
	Index uint64 `cbor:"2,keyasint"`
	// Lost is set when that term's leader has found it to end before that. It is
	// sent nothing more, whatever it has by now.
	Lost bool `cbor:"3,keyasint,omitempty"`
}

// ServerID is the id of the replica in Raft.
func (c Card) ServerID() string { return ServerID(c.ID, c.Directory) }

func (c Card) lists(server string) bool { return slices.Contains(c.Members, server) }

func (c Card) votes(server string) bool { return slices.Contains(c.Voters, server) }

// newer reports whether a card knows of more than another: of a later
// configuration, or that the same is the latest for longer.
func (c Card) newer(than Card) bool {
	if c.ConfigIndex != than.ConfigIndex {
		return c.ConfigIndex > than.ConfigIndex
	}
	return c.Applied > than.Applied
}
