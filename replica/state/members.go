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
}

// maxMembers bounds the table, and with it what a few damaged bytes can ask
// for.
const maxMembers = 64

// NoteMembers replaces the table by the cell's members as the master has them.
// It comes to Done, or to Nothing where they are noted already.
type NoteMembers struct {
	Members []Member `cbor:"1,keyasint,omitempty"` // Since does not count
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
	if slices.EqualFunc(op.Members, s.Members, sameMember) {
		return Nothing, false
	}
	return Done, true
}

func sameMember(a, b Member) bool {
	a.Since = b.Since
	return a == b
}

// do replaces the table. A member that was there before keeps its Since.
func (op *NoteMembers) do(e *editor, r Result) Result {
	table := slices.Clone(op.Members)
	for i := range table {
		m := &table[i]
		m.Since = e.Now
		if was, ok := e.Member(m.ID, m.Directory); ok {
			m.Since = was.Since
		}
	}
	e.Members = table
	e.tell(MembersNoted{})
	return r
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
