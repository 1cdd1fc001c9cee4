package rafttransport

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/raftstore"
)

// acknowledged records which entries followers have acknowledged to a leader in
// its term.
//
//  1. In that term a follower's log keeps all of them, because it changes only
//     to agree with the leader's.
//  2. So a follower with a log that ends earlier has forgotten what it
//     promised; for example, an older copy of its directory was restored. Its
//     vote may be lost as well.
//  3. Raft assumes that disks do not forget. It would let that follower catch
//     up and vote as if its disk had kept all.
//  4. So the leader sends such a follower no more messages in this term. The
//     follower counts for no majority and cannot receive mastership.
//  5. Without messages from a leader the follower asks, learns the reason, and
//     ends. A leader of another term does not know about it.
//
// A follower has on its disk what it acknowledges. Entries that it may still
// have in memory from its own time as leader are written before it enters a
// later term (see package raftstore).
//
// The leader uses the same records to count entries that its own disk has not
// stored yet (elsewhere).
//
// acknowledged is safe for concurrent use; a nil one records nothing.
type acknowledged struct {
	forgot  func(id raft.ServerID, err error) // called once for each follower
	refused func(id raft.ServerID, err error) // called once for each follower in a term
	more    func()                            // called when a follower has acknowledged more; may be nil

	mu     sync.Mutex // guards what follows
	term   uint64
	upTo   map[raft.ServerID]uint64
	errors map[raft.ServerID]error  // why a follower is sent no more messages
	count  map[raft.ServerID]uint64 // number of answers received
	calls  uint64                   // number of answers received from all followers
	last   map[raft.ServerID]uint64 // value of calls at the follower's last answer
	refuse map[raft.ServerID]error  // why a follower accepts no entries
	silent map[raft.ServerID]bool   // the last message to a follower had no answer
}

// sending is called before a message of a term is sent. It returns the least
// index that the answer must reach, or why the message must not be sent.
func (a *acknowledged) sending(id raft.ServerID, term uint64) (least uint64, err error) {
	if a == nil {
		return 0, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if term > a.term {
		a.term, a.upTo, a.errors, a.count = term, map[raft.ServerID]uint64{}, map[raft.ServerID]error{}, map[raft.ServerID]uint64{}
		a.refuse, a.calls, a.last, a.silent = map[raft.ServerID]error{}, 0, map[raft.ServerID]uint64{}, map[raft.ServerID]bool{}
	}
	if term < a.term {
		return 0, nil // the follower knows of a later term, or will
	}
	return a.upTo[id], a.errors[id]
}

// answered checks the answer to a message. least is what sending returned
// before it was sent: the answer need not include later acknowledgements.
func (a *acknowledged) answered(id raft.ServerID, least uint64, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	if a == nil || r.Term != q.Term {
		return nil
	}
	if r.LastLog < least {
		a.stored(id, q.Term, 0)
		return a.lose(id, q.Term, fmt.Errorf(
			"replica %s has lost what it had acknowledged: its log ends at entry %d, but it had stored all entries up to %d in term %d; this master sends it no more messages: %s",
			id, r.LastLog, least, q.Term, CureForgotten(id)))
	}
	upTo := uint64(0)
	if r.Success {
		upTo = q.PrevLogEntry + uint64(len(q.Entries))
	}
	a.stored(id, q.Term, upTo)
	return nil
}

// stored records an answer of a follower that has stored all entries up to an
// index.
func (a *acknowledged) stored(id raft.ServerID, term, index uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	more := false
	if term == a.term {
		a.count[id]++
		a.calls++
		a.last[id] = a.calls
		delete(a.silent, id)
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

// elsewhere reports whether a majority of the voters among servers has stored
// an entry of a term and acknowledged it in that term. It does not count self,
// nor followers that were found to have lost entries.
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

// target returns the voter among servers, other than self, that has
// acknowledged most in a term; of several the one that answered last, because
// the others may be down. It is false if none has acknowledged anything, or none
// answers. The library may never end a transfer to one that is down.
func (a *acknowledged) target(self raft.ServerID, servers []raft.Server, term uint64) (best raft.Server, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term != a.term {
		return best, false
	}
	for _, s := range servers {
		upTo, last := a.upTo[s.ID], a.last[s.ID]
		if s.ID == self || s.Suffrage != raft.Voter || upTo == 0 || a.silent[s.ID] || a.errors[s.ID] != nil || a.refuse[s.ID] != nil {
			continue
		}
		if most := a.upTo[best.ID]; upTo > most || upTo == most && last > a.last[best.ID] {
			best, ok = s, true
		}
	}
	return best, ok
}

// answers returns the number of a follower's answers in the latest term that
// this replica has led in.
func (a *acknowledged) answers(id raft.ServerID) uint64 {
	if a == nil {
		return 0
	}
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

// failed records that a message had no answer, or that a follower refuses this
// leader's entries with ErrLostChanges. A follower's errors arrive as text. answers
// is their number when the message was sent: a failure may be reported after a later
// answer (see retrying).
func (a *acknowledged) failed(id raft.ServerID, term, answers uint64, err error) {
	if a == nil {
		return
	}
	a.mu.Lock()
	if term == a.term && a.count[id] == answers {
		a.silent[id] = true
	}
	if !strings.Contains(err.Error(), raftstore.ErrLostChanges.Error()) {
		a.mu.Unlock()
		return
	}
	known := term != a.term || a.refuse[id] != nil
	if term == a.term {
		a.refuse[id] = err
	}
	a.mu.Unlock()
	if !known {
		a.refused(id, err)
	}
}

// refuses returns why a follower accepts no entries, or nil.
func (a *acknowledged) refuses(id raft.ServerID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuse[id]
}

// lost returns why a follower is sent no more messages, or nil.
func (a *acknowledged) lost(id raft.ServerID) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errors[id]
}

// by returns what a follower has stored in a term of this leader.
func (a *acknowledged) by(server string, term uint64) admission.Stored {
	a.mu.Lock()
	defer a.mu.Unlock()
	index, ok := a.upTo[raft.ServerID(server)]
	if !ok || term != a.term {
		return admission.Stored{}
	}
	return admission.Stored{Term: term, Index: index, Lost: a.errors[raft.ServerID(server)] != nil}
}

// CureForgotten describes what to do about a directory that has forgotten.
func CureForgotten(id raft.ServerID) string {
	name, _ := admission.Split(string(id))
	return fmt.Sprintf("keep its data directory for analysis, start the replica with an empty one, and admit that with: stout member replace %s", name)
}
