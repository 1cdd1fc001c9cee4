package raftstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/histogram"
)

// asyncLog writes a leader's own entries to disk beside sending them to the
// followers, not before (Ongaro's thesis, 10.2.1): a commit waits for the
// slower of two disks rather than for one after the other. The library has no
// such thing: what StoreLogs has returned for is sent, and counts as stored by
// the leader. So here a leader's StoreLogs returns at once, and what follows
// from an entry being stored is held back until it is:
//
//   - The state machine applies no entry that is not on this disk
//     (waitDurable), so nobody is told of it, and no lease comes of it.
//   - No follower is told that such an entry is committed (durableIndex): it
//     might be the only one to have it on disk, apply it, and lose it to
//     another leader after this one has crashed.
//
// With both, an entry of the leader's own term takes effect when a majority has
// it on disk, the leader among them, as ever. One of an earlier term takes
// effect with the first of the leader's own term (Raft, section 5.4.2): that
// one, a no-op, is on disk before StoreLogs returns, and so is a configuration,
// which the library goes by at once. A leader that crashes forgets entries that
// only it had, or that followers have and nobody applied: Raft allows for both.
//
// A follower's entries are on disk before StoreLogs returns, behind those which
// it may have left from its time as leader.
//
// DeleteRange need not wait for the queue. A follower replaces entries for a
// leader of a later term, which it enters when the queue is empty (see
// voteStore). The entries up to a snapshot were applied, so that no command
// among them is queued. A barrier may be, which changes nothing. It is written
// later, and stays until the next snapshot.
//
// It is safe for concurrent use, as far as the log beneath is.
type asyncLog struct {
	raft.LogStore
	leading func() bool // whether the library's main loop, which calls StoreLogs, leads
	clock   func() time.Duration
	fail    func(error)
	began   atomic.Int64 // when the write under way began, on the clock; 0 without one
	took    *histogram.Histogram
	disk    *histogram.Histogram
	landed  landings // has a mutex of its own
	recent  recent   // and so has this

	mu      sync.Mutex  // guards what follows
	changed sync.Cond   // of queue and err
	queue   []*raft.Log // not known to be on disk; in log order, without gaps. While there are any, write runs
	err     error       // of the write that failed: nothing is written after it
}

func newAsyncLog(log raft.LogStore, leading func() bool, clock func() time.Duration, fail func(error)) *asyncLog {
	s := &asyncLog{LogStore: log, leading: leading, clock: clock, fail: fail}
	s.changed.L = &s.mu
	return s
}

func (s *asyncLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs fails the replica when the disk refuses the write: the library
// would only step down and be elected again.
func (s *asyncLog) StoreLogs(logs []*raft.Log) error {
	s.mu.Lock()
	async := logs[0].Type == raft.LogCommand || logs[0].Type == raft.LogBarrier
	if s.err != nil || async && s.leading() {
		defer s.mu.Unlock()
		if s.err == nil {
			if len(s.queue) == 0 {
				go s.write()
			}
			s.queue = append(s.queue, logs...)
			s.landed.left(logs, s.clock())
		}
		return s.err
	}
	err := s.emptied()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.store(logs)
}

// store writes entries to disk.
func (s *asyncLog) store(logs []*raft.Log) error {
	began := s.clock()
	s.began.Store(int64(began))
	defer s.began.Store(0)
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

// waitDurable waits until the entry at index is on disk, if it is in the log.
// The error is the disk's.
func (s *asyncLog) waitDurable(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && s.queue[0].Index <= index {
		if s.err != nil {
			return s.err
		}
		s.changed.Wait()
	}
	return nil
}

// durableIndex is index, or the last one before it up to which all entries are
// on disk.
func (s *asyncLog) durableIndex(index uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return min(index, s.queue[0].Index-1)
	}
	return index
}

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
