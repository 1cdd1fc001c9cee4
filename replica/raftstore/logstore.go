package raftstore

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// logStore is the log. Storing a batch makes a promise. logStore records it on
// Raft's own goroutine, before Raft learns that the batch is stored (see
// package lease). A leader's own batches may be on disk a little later (see
// asyncLog). Its promises matter only once another replica leads, or it leads
// again after an election.
//
// The library panics on an entry that exists and cannot be read. Here the
// replica fails instead, and the library's goroutine ends silently.
type logStore struct {
	raft.LogStore
	snapshots raft.SnapshotStore
	leading   func() bool // see Options
	promises  *lease.Promises
	clock     func() time.Duration
	fail      func(error)
	applied   func() uint64 // the last entry that this replica has applied
	lost      func(error)   // called with ErrLostChanges
	committed atomic.Uint64 // the highest note of an entry that was stored
	configs   confIndex
	snapshot  atomic.Uint64 // index of the latest snapshot's end; 0 without one
	sending   sending       // the snapshots that this replica sends as leader
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries that follow the last one, or the latest snapshot. It
// refuses any others: they come from a late message, and the snapshot has them
// already. The library would also use the configurations among them.
//
// A stand-in entry is not stored. The library stores one if the log lacks the
// entry at which an installed snapshot ends. In that case Raft has a follower
// "discard the entire log" (Ongaro and Ousterhout 2014, figure 13, step 7).
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if logs[0].Type == StandIn {
		if err := s.keeps(logs[0].Index+1, math.MaxUint64, s.committed.Load()); err != nil {
			return err
		}
		return discardAll(s, s.remove)
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if next := max(last, s.snapshot.Load()) + 1; logs[0].Index != next {
		return fmt.Errorf("log entry %d can't be stored: the next one is %d", logs[0].Index, next)
	}
	if err := s.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	now := s.clock()
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			s.promises.Stored(l.Term, now)
		}
	}
	s.configs.stored(logs)
	s.learn(logs...)
	return nil
}

// begin looks for notes and discards what look does.
func (s *logStore) begin(log raft.LogStore) error {
	if err := s.recall(log); err != nil {
		return err
	}
	return s.look(log)
}

// look discards log entries that do not continue from the latest snapshot. A
// crash may have come before the library discarded them, or an earlier release
// may have kept them. If the snapshot is damaged, look discards nothing.
func (s *logStore) look(log raft.LogStore) error {
	metas, err := s.snapshots.List()
	if err != nil {
		return err
	}
	var end, there raft.Log
	if len(metas) == 0 || s.endOf(metas[0].Index, &end) != nil {
		return nil
	}
	s.finished(end.Index)
	if gapped, ok := log.(interface{ AfterGap() uint64 }); ok {
		if after := gapped.AfterGap(); after > 0 {
			if err := log.DeleteRange(0, after-1); err != nil {
				return fmt.Errorf("discard the log entries before the gap that ends at %d: %w", after, err)
			}
		}
	}
	last, err := log.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	err = log.GetLog(end.Index, &there)
	switch {
	case errors.Is(err, raft.ErrLogNotFound) && last > end.Index:
		return nil
	case err == nil && there.Term == end.Term:
		return nil
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return err
	}
	if committed := s.committed.Load(); committed > end.Index {
		return fmt.Errorf("%w: snapshot %s differs from the log, in which all entries up to %d were committed", ErrLostChanges, metas[0].ID, committed)
	}
	if err := discardAll(log, log.DeleteRange); err != nil {
		return fmt.Errorf("discard the log, which differs from snapshot %s: %w", metas[0].ID, err)
	}
	return nil
}

func (s *logStore) finished(snapshot uint64) {
	for had := s.snapshot.Load(); had < snapshot && !s.snapshot.CompareAndSwap(had, snapshot); {
		had = s.snapshot.Load()
	}
}

// discardAll removes all entries of a log.
func discardAll(log raft.LogStore, remove func(from, to uint64) error) error {
	first, err := log.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	return remove(first, last)
}

func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	err := s.LogStore.GetLog(index, l)
	switch {
	case errors.Is(err, raft.ErrLogNotFound) && !s.leading():
		return s.standIn(index, l)
	case errors.Is(err, raft.ErrLogNotFound) && index > 0:
		if first, e := s.FirstIndex(); e != nil || first != index+1 { // it cannot continue from there
			return err
		}
		return s.sending.endOf(index, l)
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		s.fail(fmt.Errorf("read log entry %d: %w; %s", index, err, datadir.Cure))
		runtime.Goexit()
	}
	if err == nil {
		s.configs.read(l)
	}
	return err
}

// StandIn is the type of the entry that represents the end of a snapshot.
const StandIn raft.LogType = 0xff

// standIn answers a follower that looks for the last entry of its snapshot. The
// follower only needs that entry's term. Without a stand-in this happens (found
// by the simulator; hashicorp/raft #697 is similar):
//
//  1. The library compares a message that continues from the snapshot's end
//     with its log only. If the snapshot came from a leader, the log begins
//     behind the snapshot.
//  2. So the library would refuse the message, be sent an older snapshot and go
//     back to it.
//  3. In the end it would look for entries that it does not have.
//
// No other code sees a stand-in, because the transport refuses to send one.
//
// A snapshot counts from finished on: the library does not use one whose finish has
// failed, although it may have its name already.
func (s *logStore) standIn(index uint64, l *raft.Log) error {
	if index != s.snapshot.Load() {
		return raft.ErrLogNotFound
	}
	return s.endOf(index, l)
}

// endOf returns the end of the latest snapshot in the directory, if it is at an
// index.
func (s *logStore) endOf(index uint64, l *raft.Log) error {
	metas, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("%w: %w", raft.ErrLogNotFound, err)
	}
	if len(metas) == 0 || metas[0].Index != index {
		return raft.ErrLogNotFound
	}
	meta, file, err := s.snapshots.Open(metas[0].ID) // the list does not show which are damaged
	if err != nil {
		return fmt.Errorf("%w: %w", raft.ErrLogNotFound, err)
	}
	*l = raft.Log{Index: index, Term: meta.Term, Type: StandIn}
	return file.Close()
}

// compacted returns the end of the latest snapshot if it has entry index and
// the log no longer does.
func (s *logStore) compacted(index uint64) (end, term uint64, ok bool) {
	if end = s.snapshot.Load(); index >= end {
		return 0, 0, false
	}
	if first, err := s.FirstIndex(); err != nil || first != 0 && index >= first {
		return 0, 0, false
	}
	var l raft.Log
	if s.standIn(end, &l) != nil { // another snapshot was finished, or this one is damaged
		return 0, 0, false
	}
	return end, l.Term, true
}

// DeleteRange removes entries that a snapshot has, or that differ from a
// leader's log. A leader only compacts its log, and keeps what a follower still
// needs (see sending).
func (s *logStore) DeleteRange(from, to uint64) error {
	if s.leading() {
		if to = s.sending.limit(from, to); to < from {
			return nil
		}
	}
	committed := s.committed.Load()
	if from > s.snapshot.Load() { // up to there the log may differ from an installed snapshot
		committed = max(committed, s.applied())
	}
	if err := s.keeps(from, to, committed); err != nil {
		return err
	}
	return s.remove(from, to)
}

func (s *logStore) remove(from, to uint64) error {
	err := s.LogStore.DeleteRange(from, to)
	if err != nil {
		s.fail(fmt.Errorf("delete log entries %d to %d: %w", from, to, err))
	}
	s.configs.deleted(from, to)
	return err
}
