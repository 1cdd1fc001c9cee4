package rafttransport

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// notices tell followers soon what is committed. The library says so with its
// next message: with the next entry, or after its CommitTimeout, tens of
// milliseconds later where there is nothing else to send. Whoever watches events
// at a follower would wait for that.
//
// A notice is what the library would send then: a message without entries,
// behind the last entry that the follower has acknowledged in this term. It is
// left out where another message has told as much meanwhile, as under load.
//
// It is safe for concurrent use; nil notes nothing.
type notices struct {
	late chan struct{} // has a value when a follower has acknowledged what the others were told of

	mu        sync.Mutex // guards what follows
	term      uint64
	committed uint64 // when the notices that were due were looked for last
	followers map[raft.ServerID]*follower
}

// follower is what a leader knows of one in its term.
type follower struct {
	target  raft.ServerAddress
	header  raft.RPCHeader
	index   uint64 // of the last entry that it has acknowledged
	logTerm uint64 // and that entry's
	told    uint64 // it was sent that so much is committed
	busy    bool   // a notice is on its way
}

// noticeAfter is for how long other messages may tell as much.
const noticeAfter = 300 * time.Microsecond

// of finds what is known of a follower in a term; nil where that is over. The
// caller has mu.
func (n *notices) of(id raft.ServerID, term uint64) *follower {
	if term > n.term {
		n.term, n.followers = term, map[raft.ServerID]*follower{}
	}
	if term < n.term {
		return nil
	}
	f := n.followers[id]
	if f == nil {
		f = new(follower)
		n.followers[id] = f
	}
	return f
}

// sending notes what a message tells that is about to leave.
func (n *notices) sending(id raft.ServerID, q *raft.AppendEntriesRequest) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.of(id, q.Term); f != nil {
		f.told = max(f.told, q.LeaderCommitIndex)
	}
}

// answered notes what a follower has acknowledged.
func (n *notices) answered(id raft.ServerID, target raft.ServerAddress, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) {
	if n == nil || !r.Success || r.Term != q.Term {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.of(id, q.Term)
	index, term := q.PrevLogEntry, q.PrevLogTerm
	if last := len(q.Entries) - 1; last >= 0 {
		index, term = q.Entries[last].Index, q.Entries[last].Term
	}
	if f != nil && index > f.index {
		f.target, f.header, f.index, f.logTerm = target, q.RPCHeader, index, term
		if f.told < min(n.committed, index) {
			select {
			case n.late <- struct{}{}:
			default:
			}
		}
	}
}

// due are the notices for those who have not been told what is committed, each
// of which is to be followed by done.
func (n *notices) due(committed uint64) map[raft.ServerID]*notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.committed = committed
	due := map[raft.ServerID]*notice{}
	for id, f := range n.followers {
		if f.busy || f.told >= min(committed, f.index) {
			continue
		}
		f.busy = true
		due[id] = &notice{f.target, raft.AppendEntriesRequest{
			RPCHeader: f.header, Term: n.term,
			PrevLogEntry: f.index, PrevLogTerm: f.logTerm, LeaderCommitIndex: committed,
		}}
	}
	return due
}

func (n *notices) done(id raft.ServerID, term uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.of(id, term); f != nil {
		f.busy = false
	}
}

// notice is one message.
type notice struct {
	target raft.ServerAddress
	q      raft.AppendEntriesRequest
}

// Notify sends notices until quit is closed. advanced has a value when
// Options.Told has grown.
func (t Transport) Notify(advanced, quit <-chan struct{}) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-advanced:
		case <-t.notices.late:
		case <-quit:
			return
		}
		if !t.opts.Leading() {
			continue
		}
		time.Sleep(noticeAfter)
		due := t.notices.due(t.opts.Told())
		for _, id := range slices.Sorted(maps.Keys(due)) {
			sending.Go(func() {
				// Where it fails, the library's next message tells the same.
				q := &due[id].q
				_ = t.AppendEntries(id, due[id].target, q, &raft.AppendEntriesResponse{})
				t.notices.done(id, q.Term)
			})
		}
	}
}
