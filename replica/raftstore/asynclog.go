package raftstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/metric"
)

// asyncLog writes a leader's own entries to disk beside sending them to the
// followers, not before, and counts its own disk last (Ongaro's thesis, 10.2.1).
// So a commit does not wait for the leader's disk where a majority of the others
// is faster. The library has no such thing: it sends what StoreLogs has returned
// for, and counts it as stored by the leader. So here a leader's StoreLogs returns
// at once, and one thing is held back: the state machine applies an entry when it
// is on this disk, or when a majority of the voters has it without this replica
// (waitCommitted). Followers learn of no more than that, since no message says that
// more is committed than its sender has applied (package rafttransport).
//
// So an entry of the leader's own term takes effect when a majority has it on disk,
// as ever. An entry of an earlier term takes effect with the first of the leader's
// own term (Raft, section 5.4.2). That one, a no-op, is on disk before StoreLogs
// returns, and so is a configuration, which the library goes by at once. What is
// queued is thus of one term and behind the latest configuration, whose voters
// count. A leader that crashes forgets entries that only it had, or that followers
// have and are not committed: Raft allows for both. It may also forget entries that
// it has applied. A majority of the others has those, and elects no replica that
// lacks them.
//
// A follower's entries are on disk before StoreLogs returns, behind those which
// it may have left from its time as leader.
//
// DeleteRange need not wait for the queue. A follower replaces entries for a
// leader of a later term, which it enters when the queue is empty (see
// voteStore). The entries up to a snapshot are on disk before it begins
// (waitStored).
//
// It is safe for concurrent use, as far as the log beneath is.
type asyncLog struct {
	raft.LogStore
	leading func() bool // whether the library's main loop, which calls StoreLogs, leads
	// elsewhere reports whether a majority of the voters has acknowledged an entry
	// in its own term, this replica not counted.
	elsewhere func(index, term uint64) bool
	clock     func() time.Duration
	fail      func(error)
	began     atomic.Int64 // when the write under way began, on the clock; 0 without one
	took      *metric.Histogram
	disk      *metric.Histogram
	landed    landings    // has a mutex of its own
	waits     atomic.Bool // waitCommitted may wait for an acknowledgement
	recent    recent      // and so has this

	mu      sync.Mutex  // guards what follows
	changed sync.Cond   // of queue and err
	queue   []*raft.Log // not known to be on disk; in log order, without gaps. While there are any, write runs
	size    int         // of the queue, in bytes
	err     error       // of the write that failed: nothing is written after it
}

func newAsyncLog(log raft.LogStore, leading func() bool, clock func() time.Duration, fail func(error)) *asyncLog {
	s := &asyncLog{LogStore: log, leading: leading, clock: clock, fail: fail, elsewhere: func(uint64, uint64) bool { return false }}
	s.changed.L = &s.mu
	return s
}

func (s *asyncLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// mostQueued bounds the bytes of the queue while the disk is slow or hangs: a leader
// that has more waits for its disk.
const mostQueued = 32 << 20

// sizeOf is the memory that queued entries take, about.
func sizeOf(logs []*raft.Log) (n int) {
	for _, l := range logs {
		n += len(l.Data) + len(l.Extensions) + 256
	}
	return n
}

// StoreLogs fails the replica when the disk refuses the write: the library
// would only step down and be elected again.
func (s *asyncLog) StoreLogs(logs []*raft.Log) error {
	if kind := logs[0].Type; (kind == raft.LogCommand || kind == raft.LogBarrier) && s.leading() {
		return s.enqueue(logs, s.clock()) // the clock is read without the mutex
	}
	if err := s.waitAll(); err != nil {
		return err
	}
	return s.store(logs)
}

// enqueue has entries written aside. It waits while the queue is full.
func (s *asyncLog) enqueue(logs []*raft.Log, now time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size >= mostQueued && s.err == nil {
		s.changed.Wait()
	}
	if s.err != nil {
		return s.err
	}
	if len(s.queue) == 0 {
		go s.write()
	}
	s.queue = append(s.queue, logs...)
	s.size += sizeOf(logs)
	s.landed.left(logs, now)
	return nil
}

// store writes entries to disk.
func (s *asyncLog) store(logs []*raft.Log) error {
	began := s.clock()
	s.began.Store(int64(began))
	defer s.began.Store(0)
	faultpoint.Hit(faultpoint.EntriesStore)
	err := s.LogStore.StoreLogs(logs)
	took := s.clock() - began
	s.took.Observe(took)
	s.recent.note(took)
	if err != nil {
		s.fail(fmt.Errorf("write %d log entries: %w", len(logs), err))
	}
	return err
}

// writingFor is how long the write under way has taken, 0 where there is none.
func (s *asyncLog) writingFor() time.Duration {
	if began := s.began.Load(); began != 0 {
		return s.clock() - time.Duration(began)
	}
	return 0
}

// write stores what is queued, as much at once as there is, until there is
// nothing.
func (s *asyncLog) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && s.err == nil {
		logs := s.queue
		s.mu.Unlock()
		err := s.store(logs)
		if err == nil {
			s.landed.arrived(logs, s.clock(), s.disk)
		}
		s.mu.Lock()
		if err != nil {
			s.err = err
		} else {
			s.queue = s.queue[len(logs):]
			s.size -= sizeOf(logs)
		}
		s.changed.Broadcast()
	}
}

// emptied waits until all is on disk. s.mu is held.
func (s *asyncLog) emptied() error {
	for len(s.queue) > 0 && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// waitAll waits until all entries are on disk.
func (s *asyncLog) waitAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emptied()
}

// waitStored waits until the entry at index is on disk, if it is in the log.
// The error is the disk's.
func (s *asyncLog) waitStored(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued(index) {
		if s.err != nil {
			return s.err
		}
		s.changed.Wait()
	}
	return nil
}

// waitCommitted is waitStored for an entry that the library takes for committed. It
// also returns when a majority has the entry without this replica. It is called by
// one goroutine at a time.
func (s *asyncLog) waitCommitted(index, term uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.waits.Store(false)
	for s.queued(index) {
		s.waits.Store(true) // before the look: see acknowledged
		switch {
		case s.err != nil:
			return s.err
		case s.elsewhere(index, term):
			return nil
		}
		s.changed.Wait()
	}
	return nil
}

// acknowledged has waitCommitted look again. It is called when a follower has
// acknowledged more, after that is to be seen by elsewhere. Where nothing waits it
// takes no mutex.
func (s *asyncLog) acknowledged() {
	if !s.waits.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// queued reports whether entries up to index are not known to be on disk. s.mu is
// held.
func (s *asyncLog) queued(index uint64) bool { return len(s.queue) > 0 && s.queue[0].Index <= index }

func (s *asyncLog) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	if len(s.queue) > 0 && index >= s.queue[0].Index && index-s.queue[0].Index < uint64(len(s.queue)) {
		*l = *s.queue[index-s.queue[0].Index]
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return s.LogStore.GetLog(index, l)
}

func (s *asyncLog) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, err := s.LogStore.FirstIndex()
	if first == 0 && err == nil && len(s.queue) > 0 {
		first = s.queue[0].Index
	}
	return first, err
}

func (s *asyncLog) LastIndex() (uint64, error) {
	s.mu.Lock()
	if n := len(s.queue); n > 0 {
		defer s.mu.Unlock()
		return s.queue[n-1].Index, nil
	}
	s.mu.Unlock()
	return s.LogStore.LastIndex()
}

// close waits, after the library's end, until the log beneath may be closed.
func (s *asyncLog) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.emptied() // a refused write has failed the replica
}
