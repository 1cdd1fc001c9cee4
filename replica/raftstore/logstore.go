package raftstore

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// logStore is the log. It notes the promise that storing a batch makes, on
// Raft's own goroutine, before Raft learns that it is stored (see package
// lease). A leader's own batches may be on disk a little later (see asyncLog);
// its promises are for a time when another leads, or it again after an
// election.
//
// The library cannot go on without an entry that is there and cannot be read:
// it panics. Here the replica fails, and the library's goroutine ends without a
// word.
type logStore struct {
	raft.LogStore
	snapshots raft.SnapshotStore
	leading   func() bool // see Options
	promises  *lease.Promises
	clock     func() time.Duration
	fail      func(error)
	configs   confIndex
	gap       gap
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores all but a stand-in for the end of a snapshot, which is there.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if logs[0].Type == StandIn {
		return s.behind(logs[0].Index)
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	s.gap.store(logs[0].Index, last)
	if err := s.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	now := s.clock()
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			s.promises.Stored(l.Term, now)
		}
		s.configs.note(l)
	}
	return nil
}

// look finds out where the log beneath has its last gap. It first discards what
// disagrees with the latest snapshot: a crash came before the library did (see
// rafttransport, install).
func (s *logStore) look(log raft.LogStore) error {
	metas, err := s.snapshots.List()
	if err != nil {
		return err
	}
	if len(metas) == 0 {
		return s.gap.find(log)
	}
	end := metas[0]
	if err := s.discard(log, end.Index, end.Term); err != nil {
		return fmt.Errorf("discard the log entries from %d on, which disagree with snapshot %s: %w", end.Index, end.ID, err)
	}
	if err := s.gap.find(log); err != nil {
		return err
	}
	return s.behind(end.Index)
}

// discard removes the entries from the end of a snapshot on, if the first of
// them is of another term, and the snapshot is sound.
func (s *logStore) discard(log raft.LogStore, index, term uint64) error {
	var there, end raft.Log
	err := log.GetLog(index, &there)
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		return nil
	case err != nil || there.Term == term || s.standIn(index, &end) != nil:
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	return log.DeleteRange(index, last)
}

// behind is told of a snapshot that is there.
func (s *logStore) behind(snapshot uint64) error {
	last, err := s.LastIndex()
	s.gap.snapshot(snapshot, last)
	s.configs.behind(snapshot)
	return err
}

func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	if s.gap.before(index) && s.leading() {
		return raft.ErrLogNotFound
	}
	err := s.LogStore.GetLog(index, l)
	switch {
	case errors.Is(err, raft.ErrLogNotFound) && !s.leading():
		return s.standIn(index, l)
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		s.fail(fmt.Errorf("read log entry %d: %w; %s", index, err, datadir.Cure))
		runtime.Goexit()
	}
	if err == nil {
		s.configs.note(l)
	}
	return err
}

// StandIn is the type of what stands for the entry at which a snapshot ends.
const StandIn raft.LogType = 0xff

// standIn answers a follower that looks for the last entry of its snapshot, of
// which the term is all that it wants to know. The library compares a message
// that goes on from there with its log only, which may have a hole where the
// snapshot came from a leader that was far ahead: it would refuse the message,
// be sent an older snapshot, go back to that, and in the end look for entries
// in the hole (found by the simulator; hashicorp/raft #697 is of the kind).
// Nobody else sees the stand-in: the transport lets none pass.
func (s *logStore) standIn(index uint64, l *raft.Log) error {
	metas, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("%w: %w", raft.ErrLogNotFound, err)
	}
	if len(metas) == 0 || metas[0].Index != index {
		return raft.ErrLogNotFound
	}
	meta, file, err := s.snapshots.Open(metas[0].ID) // the list does not tell what is damaged
	if err != nil {
		return fmt.Errorf("%w: %w", raft.ErrLogNotFound, err)
	}
	*l = raft.Log{Index: index, Term: meta.Term, Type: StandIn}
	return file.Close()
}

func (s *logStore) DeleteRange(from, to uint64) error {
	err := s.LogStore.DeleteRange(from, to)
	if err != nil {
		s.fail(fmt.Errorf("delete log entries %d to %d: %w", from, to, err))
	}
	s.configs.deleted(from, to)
	return err
}
