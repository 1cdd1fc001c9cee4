package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A follower never removes an entry that it knows to be committed: a master without it
// was elected by a majority that has lost it, since a disk forgot or a data directory
// was put back as it was some time ago. Raft has no such check, for it relies on disks
// that do not forget.
//
// Each entry of a leader notes up to which entry the leader had applied all (Note). So a
// log shows what was committed also after a restart. A note lags behind by one entry: a
// master in office writes one every quarter of its lease. A snapshot that goes further than
// all notes may lack entries all the same: it does not show from which log it is.

// Note is what a leader notes in an entry: up to which entry it has applied all.
func Note(applied uint64) []byte { return binary.AppendUvarint(nil, applied) }

// noted returns what an entry notes, 0 for nothing.
func noted(l *raft.Log) uint64 {
	applied, _ := binary.Uvarint(l.Extensions)
	return applied
}

// ErrLostChanges is the fault of a cell whose master lacks entries that were committed.
var ErrLostChanges = errors.New("the master of the cell lacks changes that were acknowledged")

// learn takes in what entries note.
func (s *logStore) learn(logs ...*raft.Log) {
	for _, l := range logs {
		if c := noted(l); c > s.committed.Load() { // one goroutine writes entries
			s.committed.Store(c)
		}
	}
}

// recall looks for the last note of a log. Those before it note less. A log of an earlier
// release has none.
func (s *logStore) recall(log raft.LogStore) error {
	first, err := log.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := log.LastIndex()
	for index := last; err == nil && index >= first && last-index < CacheSize && s.committed.Load() == 0; index-- {
		var l raft.Log
		if err = log.GetLog(index, &l); err == nil {
			s.learn(&l)
		}
	}
	if errors.Is(err, raft.ErrLogNotFound) {
		return nil
	}
	return err
}

// keeps refuses to remove entries that are known to be committed, those of a snapshot
// apart.
func (s *logStore) keeps(from, to, committed uint64) error {
	if to <= s.snapshot.Load() || from > committed {
		return nil
	}
	last, err := s.LastIndex()
	if err != nil || to < last {
		return err
	}
	var own raft.Log
	if err := s.GetLog(from, &own); err != nil {
		return err
	}
	return s.loses(&own, committed)
}

func (s *logStore) loses(own *raft.Log, committed uint64) error {
	err := fmt.Errorf("%w: entry %d, of term %d, differs there, and all up to entry %d were committed", ErrLostChanges, own.Index, own.Term, committed)
	s.lost(err)
	return err
}

// agrees refuses a leader's snapshot that ends with another entry than this log, where
// that is known to be committed. Up to the latest own snapshot the log may have entries
// that never were.
func (s *logStore) agrees(index, term uint64) error {
	committed := max(s.committed.Load(), s.applied())
	if index <= s.snapshot.Load() || index > committed {
		return nil
	}
	var own raft.Log
	if s.LogStore.GetLog(index, &own) != nil || own.Term == term {
		return nil
	}
	return s.loses(&own, committed)
}
