package state

import "slices"

// Member is one member of the cell as a master recorded it: a name and a data
// directory. Raft's own configuration defines the voters; this table adds data
// for which the configuration has no room. It is immutable.
type Member struct {
	ID        string `cbor:"1,keyasint"`
	Directory string `cbor:"2,keyasint"`
	RaftAddr  string `cbor:"3,keyasint,omitempty"`
	URL       string `cbor:"4,keyasint,omitempty"`
	Since     int64  `cbor:"5,keyasint,omitempty"` // Unix nanoseconds, of the batch that added it
	// Put is set if PutMember set the addresses: a replica's settings no longer
	// count for this name. Stays is set if the member stays without a vote.
	// Both are the same for all directories of a name.
	Put   bool `cbor:"6,keyasint,omitempty"`
	Stays bool `cbor:"7,keyasint,omitempty"`
}

// levelMembers is the first level at which PutMember adds and moves members.
const levelMembers = 3

// maxMembers bounds the table, and so the memory that a few damaged bytes can
// request.
const maxMembers = 64

// NoteMembers replaces the table with the members of Raft's configuration. A
// name keeps the values that PutMember set, for all its directories. The result
// is Done, or Nothing if the table is the same.
type NoteMembers struct {
	Members []Member `cbor:"1,keyasint,omitempty"` // Since, Put and Stays are ignored
}

// PutMember sets a member's addresses and whether it is to vote. It applies to
// all directories of the member's name, and to the directory that it names,
// which need not be in Raft's configuration yet. The result is Done, Full, or
// Nothing if there is no change.
type PutMember struct {
	Member Member `cbor:"1,keyasint"` // Since and Put are ignored
}

// MembersNoted reports that the table of members has changed.
type MembersNoted struct{}

func (op *NoteMembers) wellFormed() bool { return soundMembers(op.Members) }

func (op *NoteMembers) size() int {
	n := 16
	for _, m := range op.Members {
		n += len(m.ID) + len(m.Directory) + len(m.RaftAddr) + len(m.URL) + 40
	}
	return n
}

func (op *NoteMembers) would(s *State) (Result, bool) {
	if slices.EqualFunc(s.noted(op.Members), s.Members, sameMember) {
		return Nothing, false
	}
	return Done, true
}

func sameMember(a, b Member) bool {
	a.Since = b.Since
	return a == b
}

// noted returns the table to store for one from Raft's configuration.
func (s *State) noted(table []Member) []Member {
	table = slices.Clone(table)
	for i := range table {
		table[i].Put, table[i].Stays = false, false
		if was, ok := s.MemberNamed(table[i].ID); ok && was.Put {
			table[i] = table[i].as(was)
		}
	}
	return table
}

// as returns m with the values set for another directory of its name.
func (m Member) as(put Member) Member {
	m.RaftAddr, m.URL, m.Stays, m.Put = put.RaftAddr, put.URL, put.Stays, true
	return m
}

func (op *NoteMembers) do(e *editor, r Result) Result {
	e.putMembers(e.noted(op.Members))
	return r
}

// putMembers replaces the table. A member that stays keeps its Since.
func (e *editor) putMembers(table []Member) {
	for i := range table {
		m := &table[i]
		m.Since = e.Now
		if was, ok := e.Member(m.ID, m.Directory); ok {
			m.Since = was.Since
		}
	}
	e.Members = table
	e.record(MembersNoted{})
}

func (op *PutMember) wellFormed() bool { return soundMembers([]Member{op.Member}) }

func (op *PutMember) size() int {
	m := op.Member
	return 64 + len(m.ID) + len(m.Directory) + len(m.RaftAddr) + len(m.URL)
}

func (op *PutMember) would(s *State) (Result, bool) {
	table := op.put(s)
	switch {
	case len(table) > maxMembers:
		return Full, false
	case slices.EqualFunc(table, s.Members, sameMember):
		return Nothing, false
	}
	return Done, true
}

func (op *PutMember) do(e *editor, r Result) Result {
	e.putMembers(op.put(e.State))
	return r
}

// put returns the table after the operation.
func (op *PutMember) put(s *State) []Member {
	table := slices.Clone(s.Members)
	if _, ok := s.Member(op.Member.ID, op.Member.Directory); !ok {
		table = append(table, op.Member)
	}
	for i := range table {
		if table[i].ID == op.Member.ID {
			table[i] = table[i].as(op.Member)
		}
	}
	return table
}

// MemberNamed finds an entry of the table by its member's name.
func (s *State) MemberNamed(id string) (Member, bool) {
	for i := range s.Members { // without copying each: every reply asks
		if s.Members[i].ID == id {
			return s.Members[i], true
		}
	}
	return Member{}, false
}

// Member finds an entry of the table by name and directory.
func (s *State) Member(id, directory string) (Member, bool) {
	for _, m := range s.Members {
		if m.ID == id && m.Directory == directory {
			return m, true
		}
	}
	return Member{}, false
}

// soundMembers reports whether the entries are complete and distinct and their
// number is within bounds.
func soundMembers(table []Member) bool {
	seen := map[[2]string]bool{}
	for _, m := range table {
		if m.ID == "" || m.Directory == "" || seen[[2]string{m.ID, m.Directory}] {
			return false
		}
		seen[[2]string{m.ID, m.Directory}] = true
	}
	return len(table) > 0 && len(table) <= maxMembers
}
