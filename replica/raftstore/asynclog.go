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

// asyncLog writes a leader's own entries to disk while it sends them to the
// followers, not before, and counts its own disk last (Ongaro's thesis,
// 10.2.1). So a commit does not wait for the leader's disk if a majority of the
// others is faster.
//
// The library has no such feature. It sends an entry once StoreLogs has
// returned for it, and then counts the entry as stored by the leader. So here a
// leader's StoreLogs returns at once, and the corrections follow from these
// steps:
//
//  1. The state machine applies an entry only when it is on this disk, or when
//     a majority of the voters has it without this replica (waitCommitted).
//  2. Followers learn of no more than that: no message reports more as
//     committed than its sender has applied (package rafttransport).
//  3. So an entry of the leader's own term still takes effect only when a
//     majority has it on disk.
//  4. An entry of an earlier term takes effect with the first of the leader's
//     own term (Raft, section 5.4.2). That first entry, a no-op, is on disk
//     before StoreLogs returns. So is a configuration, which the library uses
//     at once.
//  5. So the queue only has entries of one term, behind the latest
//     configuration; the voters of that configuration count.
//  6. A leader that crashes forgets entries that only it had, or that followers
//     have and that are not committed. Raft allows for both.
//  7. It may also forget entries that it has applied. A majority of the others
//     has them, and elects no replica that lacks them.
//
// A follower's entries are on disk before StoreLogs returns. They go behind
// entries that may be queued from its time as leader.
//
// DeleteRange need not wait for the queue. A follower replaces entries for a
// leader of a later term, and it enters that term only when the queue is empty
// (see voteStore). The entries up to a snapshot are on disk before the snapshot
// begins (waitStored).
//
// asyncLog is as safe for concurrent use as the log beneath it.
type asyncLog struct {
	raft.LogStore
	leading func() bool // whether the library's main loop, which calls StoreLogs, leads
	// elsewhere reports whether a majority of the voters, not counting this
	// replica, has acknowledged an entry in the entry's own term.
	elsewhere func(index, term uint64) bool
	clock     func() time.Duration
	fail      func(error)
	began     atomic.Int64 // when the current write began, by the clock; 0 without one
	took      *metric.Histogram
	disk      *metric.Histogram
	landed    writeTimes  // has a mutex of its own
	waits     atomic.Bool // waitCommitted may wait for an acknowledgement
	recent    recent      // also has a mutex of its own

	mu      sync.Mutex  // guards what follows
	changed sync.Cond   // of queue and err
	queue   []*raft.Log // not known to be on disk; in log order, without gaps. write runs while it is not empty
	size    int         // of the queue, in bytes
	err     error       // of the failed write; no write follows it
}

func newAsyncLog(log raft.LogStore, leading func() bool, clock func() time.Duration, fail func(error)) *asyncLog {
	s := &asyncLog{LogStore: log, leading: leading, clock: clock, fail: fail, elsewhere: func(uint64, uint64) bool { return false }}
	s.changed.L = &s.mu
	return s
}

func (s *asyncLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// mostQueued bounds the bytes of the queue while the disk is slow or hangs.
// Beyond it the leader waits for its disk.
const mostQueued = 32 << 20

// sizeOf returns the approximate memory of queued entries.
func sizeOf(logs []*raft.Log) (n int) {
	for _, l := range logs {
		n += len(l.Data) + len(l.Extensions) + 256
	}
	return n
}

// StoreLogs stores entries; a leader's commands and barriers are only queued.
// It fails the replica when the disk refuses the write: otherwise the library
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

// enqueue queues entries for write. It waits while the queue is full.
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

// write stores the queue, as much at once as is there, until it is empty.
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

// emptied waits until the queue is empty. s.mu is held.
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

// waitCommitted is waitStored for an entry that the library considers
// committed. It also returns when a majority has the entry without this
// replica. Only one goroutine may call it at a time.
func (s *asyncLog) waitCommitted(index, term uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.waits.Store(false)
	for s.queued(index) {
		s.waits.Store(true) // before the check: see acknowledged
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

// acknowledged makes waitCommitted check again. The caller calls it when a
// follower has acknowledged more and elsewhere already reports it. It locks no
// mutex if waitCommitted is not waiting.
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

// close waits, after the library has ended, until the log beneath may be
// closed.
func (s *asyncLog) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.emptied() // a refused write has already failed the replica
}
