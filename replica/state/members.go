package state

import "slices"

// Member is one member of the cell as a master noted it: a name and a data
// directory. Raft's own configuration says who votes; this table adds what the
// configuration has no room for. It is immutable.
type Member struct {
	ID        string `cbor:"1,keyasint"`
	Directory string `cbor:"2,keyasint"`
	RaftAddr  string `cbor:"3,keyasint,omitempty"`
	URL       string `cbor:"4,keyasint,omitempty"`
	Since     int64  `cbor:"5,keyasint,omitempty"` // Unix nanoseconds; of the batch that first had it
	// Put says that the addresses are those of PutMember: no replica's settings
	// count for this name any more. Stays says that it is to stay without a vote.
	// All directories of a name have the same of these.
	Put   bool `cbor:"6,keyasint,omitempty"`
	Stays bool `cbor:"7,keyasint,omitempty"`
}

// levelMembers is the level from which on members come and move by PutMember.
const levelMembers = 3

// maxMembers bounds the table, and with it what a few damaged bytes can ask
// for.
const maxMembers = 64

// NoteMembers replaces the table by the cell's members as Raft's configuration
// has them. What PutMember has put for a name stays, for all its directories. It
// comes to Done, or to Nothing where they are noted already.
type NoteMembers struct {
	Members []Member `cbor:"1,keyasint,omitempty"` // Since, Put and Stays do not count
}

// PutMember says where a member is reached and whether it is to vote: for all
// directories of its name, and for the one that it names, which Raft's
// configuration need not have yet. It comes to Done, to Nothing where all that
// is so, or to Full.
type PutMember struct {
	Member Member `cbor:"1,keyasint"` // Since and Put do not count
}

// MembersNoted says that the table of members has changed.
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

// noted is the table as it becomes of one that is noted.
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

// as is m with what has been put for another directory of its name.
func (m Member) as(put Member) Member {
	m.RaftAddr, m.URL, m.Stays, m.Put = put.RaftAddr, put.URL, put.Stays, true
	return m
}

func (op *NoteMembers) do(e *editor, r Result) Result {
	e.putMembers(e.noted(op.Members))
	return r
}

// putMembers replaces the table. A member that was there before keeps its
// Since.
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

// put is the table as it becomes.
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

// MemberNamed finds a directory of a member that a master has noted.
func (s *State) MemberNamed(id string) (Member, bool) {
	for _, m := range s.Members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}

// Member finds a member that a master has noted.
func (s *State) Member(id, directory string) (Member, bool) {
	for _, m := range s.Members {
		if m.ID == id && m.Directory == directory {
			return m, true
		}
	}
	return Member{}, false
}

// soundMembers reports whether a table can be told apart and is not out of
// bounds.
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
