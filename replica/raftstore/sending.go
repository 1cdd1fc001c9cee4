package raftstore

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// sending keeps the log entries that a follower needs after a snapshot. A leader
// compacts its log up to a snapshot of its own, and a follower may still be
// receiving an earlier one. Without the entries between the two it would need the
// next snapshot as well; with a large state, a slow link and many writes it would
// never catch up. etcd pauses compaction for the same reason
// (releaseDelayAfterSnapshot in server/etcdserver).
//
// After the transfer the follower still has to fetch the entries that came
// meanwhile. The log keeps them for as long as the transfer took, and for at least
// pause. A transfer that fails needs none: the next one has a later snapshot.
type sending struct {
	clock func() time.Duration
	pause time.Duration

	mu  sync.Mutex
	all []*sent
}

// mostKept bounds the entries that are kept. A follower that needs more gets the
// next snapshot: it must not fill the disk.
const mostKept = 1 << 18

// patience is how long the entries are kept for a follower that takes nothing more of
// a snapshot. The library may try for an hour. A follower that has all of it stores
// and restores it before it answers.
const patience = 5 * time.Minute

// sent is a snapshot that is being sent, or was.
type sent struct {
	io.ReadCloser
	of     *sending
	index  uint64        // of its end; 0 until it is open
	term   uint64        // of the entry there
	began  time.Duration // by the clock
	whole  bool          // it was read to its end
	closed bool
	until  time.Duration // when its entries may go, unless more of it is read
}

// begin begins a transfer, which Close ends. The snapshot is not known yet, so all
// entries stay.
func (s *sending) begin() *sent {
	b := &sent{of: s, began: s.clock()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(b.began)
	s.all = append(s.all, b)
	return b
}

// opened records the snapshot.
func (b *sent) opened(index, term uint64, body io.ReadCloser) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.index, b.term, b.ReadCloser, b.until = index, term, body, b.of.clock()+patience
}

// end ends the transfer.
func (b *sent) end() {
	now := b.of.clock()
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.closed = true
	if b.until = now; b.whole {
		b.until += max(now-b.began, b.of.pause)
	}
}

func (b *sent) Read(p []byte) (int, error) {
	now := b.of.clock()
	b.of.mu.Lock()
	b.until = now + patience
	b.of.mu.Unlock()
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || err == io.EOF
	return n, err
}

func (b *sent) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// limit returns the last entry up to which the log, which begins at first, may be
// compacted: to, or the end of an earlier snapshot. If the log has lost the entry
// behind a snapshot, its follower needs the next one anyway.
func (s *sending) limit(first, to uint64) uint64 {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	least := to - min(to, mostKept)
	for _, b := range s.all {
		if b.index == 0 || now < b.until && first <= b.index+1 {
			to = min(to, max(b.index, least))
		}
	}
	return to
}

// endOf answers a leader that looks for the entry at which such a snapshot ends, to
// continue from it: it only needs the entry's term. The log must begin behind it.
func (s *sending) endOf(index uint64, l *raft.Log) error {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	for _, b := range s.all {
		if b.index == index {
			*l = raft.Log{Index: index, Term: b.term, Type: StandIn}
			return nil
		}
	}
	return raft.ErrLogNotFound
}

// forget drops the snapshots that are sent and behind which no entry is needed. s.mu
// is held.
func (s *sending) forget(now time.Duration) {
	s.all = slices.DeleteFunc(s.all, func(b *sent) bool { return b.closed && now >= b.until })
}

// Open opens a snapshot for the library. A leader opens one only to send it. That
// reads it once, so a later one may be finished in the meantime.
func (s forwardOnly) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if !s.log.leading() {
		return s.SnapshotStore.Open(id)
	}
	b := s.log.sending.begin()
	meta, body, err := s.SnapshotStore.Open(id)
	if err != nil {
		b.end()
		return nil, nil, err
	}
	b.opened(meta.Index, meta.Term, body)
	return meta, b, nil
}
