package rafttransport

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/raftstore"
)

// acknowledged is what followers have told a leader to have stored in its term
// of office. In that term a follower's log keeps all of it: it only ever agrees
// with the leader's. So one whose log ends before that has forgotten what it
// had promised, with its directory put back as it was some time ago, say. What
// it has voted for may be gone as well. Raft, which takes it that disks do not
// forget, would have it catch up and vote as if nothing had happened.
//
// The leader sends such a follower nothing more in this term: it does not count
// for any majority, and is handed no mastership. The follower, which hears of
// no leader, asks, is told so, and ends. A leader of another term knows nothing
// of it.
//
// What it acknowledges it has on its disk: what it may still have in memory
// from its own time as the leader is there before it enters a later term (see
// package raftstore).
//
// By the same figures a leader counts an entry that its own disk has not stored yet
// (elsewhere).
//
// It is safe for concurrent use; nil takes nothing in.
type acknowledged struct {
	forgot  func(id raft.ServerID, err error) // called once for each
	refused func(id raft.ServerID, err error) // called once for each in a term
	more    func()                            // called when a follower has acknowledged more; may be nil

	mu     sync.Mutex // guards what follows
	term   uint64
	upTo   map[raft.ServerID]uint64
	errors map[raft.ServerID]error  // why a follower is sent nothing more
	count  map[raft.ServerID]uint64 // answers that have come
	refuse map[raft.ServerID]error  // why a follower takes no entries
}

// sending is called before a message of a term leaves. It returns what the
// answer has to be up to, or why nothing is to be sent.
func (a *acknowledged) sending(id raft.ServerID, term uint64) (least uint64, err error) {
	if a == nil {
		return 0, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if term > a.term {
		a.term, a.upTo, a.errors, a.count = term, map[raft.ServerID]uint64{}, map[raft.ServerID]error{}, map[raft.ServerID]uint64{}
		a.refuse = map[raft.ServerID]error{}
	}
	if term < a.term {
		return 0, nil // whoever answers knows of a later term, or will
	}
	return a.upTo[id], a.errors[id]
}

// answered takes in the answer to a message. least is what sending has returned
// before it left: of what was acknowledged meanwhile it need not tell.
func (a *acknowledged) answered(id raft.ServerID, least uint64, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	if a == nil || r.Term != q.Term {
		return nil
	}
	if r.LastLog < least {
		a.took(id, q.Term, 0)
		return a.lose(id, q.Term, fmt.Errorf(
			"replica %s has lost what it had acknowledged: its log ends at entry %d, and it had stored all up to entry %d in term %d; it is sent nothing more: %s",
			id, r.LastLog, least, q.Term, CureForgotten(id)))
	}
	upTo := uint64(0)
	if r.Success {
		upTo = q.PrevLogEntry + uint64(len(q.Entries))
	}
	a.took(id, q.Term, upTo)
	return nil
}

// took counts an answer of a follower's, which has stored all entries up to an index.
func (a *acknowledged) took(id raft.ServerID, term, index uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	more := false
	if term == a.term {
		a.count[id]++
		if index > 0 {
			delete(a.refuse, id)
		}
		if more = index > a.upTo[id]; more {
			a.upTo[id] = index
		}
	}
	a.mu.Unlock()
	if more && a.more != nil {
		a.more()
	}
}

// elsewhere reports whether a majority of those that vote among servers has stored
// an entry of a term, and told so in that term. self is not counted. A follower that
// was found to have lost entries counts for nothing.
func (a *acknowledged) elsewhere(self raft.ServerID, servers []raft.Server, index, term uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term != a.term {
		return false
	}
	voters, have := 0, 0
	for i := range servers {
		s := &servers[i]
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if s.ID != self && a.upTo[s.ID] >= index && a.errors[s.ID] == nil {
			have++
		}
	}
	return have > voters/2
}

// answers is how many answers have come of a follower in the latest term that this
// replica has led in.
func (a *acknowledged) answers(id raft.ServerID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[id]
}

func (a *acknowledged) lose(id raft.ServerID, term uint64, why error) error {
	a.mu.Lock()
	known := term != a.term || a.errors[id] != nil
	if term == a.term {
		a.errors[id] = why
	}
	a.mu.Unlock()
	if !known {
		a.forgot(id, why)
	}
	return why
}

// failed takes in why a message had no answer. Errors come from a follower as text.
func (a *acknowledged) failed(id raft.ServerID, term uint64, err error) {
	if a == nil || !strings.Contains(err.Error(), raftstore.ErrLostChanges.Error()) {
		return
	}
	a.mu.Lock()
	known := term != a.term || a.refuse[id] != nil
	if term == a.term {
		a.refuse[id] = err
	}
	a.mu.Unlock()
	if !known {
		a.refused(id, err)
	}
}

// refuses is why a follower takes no entries, or nil.
func (a *acknowledged) refuses(id raft.ServerID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuse[id]
}

// lost is why a follower is sent nothing more, or nil.
func (a *acknowledged) lost(id raft.ServerID) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errors[id]
}

// by is what a follower has stored in a term of this leader's.
func (a *acknowledged) by(server string, term uint64) admission.Stored {
	a.mu.Lock()
	defer a.mu.Unlock()
	index, ok := a.upTo[raft.ServerID(server)]
	if !ok || term != a.term {
		return admission.Stored{}
	}
	return admission.Stored{Term: term, Index: index, Lost: a.errors[raft.ServerID(server)] != nil}
}

// CureForgotten tells what to do about a directory that has forgotten.
func CureForgotten(id raft.ServerID) string {
	name, _ := admission.Split(string(id))
	return fmt.Sprintf("keep its data directory for analysis, start it with an empty one, and put that in its place: stout member replace %s", name)
}
