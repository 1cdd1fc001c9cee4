package rafttransport

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// notices inform followers soon about what is committed. The library reports
// that in its next message: with the next entry or, without one, after its
// CommitTimeout, tens of milliseconds later. Watchers of events at a follower
// would wait for it.
//
// A notice is what the library would send then: a message without entries,
// behind the last entry that the follower has acknowledged in this term. It is
// skipped if another message has reported as much since, as under load.
//
// A follower without watchers needs no notices. It reports that in its answer to
// entries (quiet), by NoRetryBackoff. The library reads that field only in answers
// that refuse.
//
// notices is safe for concurrent use; a nil one records nothing.
type notices struct {
	late chan struct{} // has a value when a follower has acknowledged entries that others know as committed

	mu        sync.Mutex // guards what follows
	term      uint64
	committed uint64 // commit index at the last call of due
	followers map[raft.ServerID]*follower
}

// follower is a leader's record of one follower in its term.
type follower struct {
	target  raft.ServerAddress
	header  raft.RPCHeader
	index   uint64 // of the last entry that it has acknowledged
	logTerm uint64 // term of that entry
	told    uint64 // commit index that was sent to it
	quiet   bool   // it had no watchers when it acknowledged that entry
	busy    bool   // a notice is under way
}

// noticeAfter is how long to wait for other messages that report as much.
const noticeAfter = 300 * time.Microsecond

// of returns the record of a follower in a term; nil if that term is over. The
// caller holds mu.
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

// sending records the commit index in a message that is about to be sent.
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

// answered records what a follower has acknowledged.
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
		f.target, f.header, f.index, f.logTerm, f.quiet = target, q.RPCHeader, index, term, r.NoRetryBackoff
		if !f.quiet && f.told < min(n.committed, index) {
			select {
			case n.late <- struct{}{}:
			default:
			}
		}
	}
}

// due returns a notice for each follower that has not received the commit
// index. The caller must call done for each.
func (n *notices) due(committed uint64) map[raft.ServerID]*notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.committed = committed
	due := map[raft.ServerID]*notice{}
	for id, f := range n.followers {
		if f.busy || f.quiet || f.told >= min(committed, f.index) {
			continue
		}
		f.busy = true
		due[id] = &notice{f.target, raft.AppendEntriesRequest{
			RPCHeader: f.header, Term: n.term,
			PrevLogEntry: f.index, PrevLogTerm: f.logTerm, LeaderCommitIndex: committed,
		}}
		*markOf(&due[id].q) = f.header.Addr // see bound
	}
	return due
}

// wanted reports whether any follower needs notices.
func (n *notices) wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.followers {
		if !f.quiet {
			return true
		}
	}
	return false
}

// quiet returns a message with entries for the library. If the library accepts
// them and this replica has no watchers, the answer reports that.
func (t Transport) quiet(m raft.RPC, quit <-chan struct{}) raft.RPC {
	return answered(m, quit, func(a raft.RPCResponse) {
		if r, ok := a.Response.(*raft.AppendEntriesResponse); ok && r.Success {
			r.NoRetryBackoff = !t.opts.Watched()
		}
	})
}

// answered returns a message for the library; its answer passes through see.
func answered(m raft.RPC, quit <-chan struct{}, see func(raft.RPCResponse)) raft.RPC {
	to, answers := m.RespChan, make(chan raft.RPCResponse, 1)
	m.RespChan = answers
	go func() {
		select {
		case a := <-answers:
			see(a)
			to <- a
		case <-quit:
		}
	}()
	return m
}

func (n *notices) done(id raft.ServerID, term uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.of(id, term); f != nil {
		f.busy = false
	}
}

// notice is one message to a follower, without entries.
type notice struct {
	target raft.ServerAddress
	q      raft.AppendEntriesRequest
}

// Notify sends notices until quit is closed. advanced has a value when
// Options.CommitLimit has grown.
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
		if !t.opts.Leading() || !t.notices.wanted() {
			continue
		}
		time.Sleep(noticeAfter)
		due := t.notices.due(t.opts.CommitLimit())
		for _, id := range slices.Sorted(maps.Keys(due)) {
			sending.Go(func() {
				// If it fails, the library's next message reports the same.
				q := &due[id].q
				_ = t.AppendEntries(id, due[id].target, q, &raft.AppendEntriesResponse{})
				t.notices.done(id, q.Term)
			})
		}
	}
}
