package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A follower never removes an entry that it knows to be committed. A master
// without the entry was elected by a majority that has lost it: a disk forgot,
// or an older copy of a data directory was restored. Raft has no such check,
// because it relies on disks that do not forget.
//
// Each entry of a leader carries a note: the index up to which the leader had
// applied all entries (Note). So a log shows what was committed even after a
// restart. A note lags behind by one entry; a master in office writes one every
// quarter of its lease. A snapshot that reaches further than all notes may
// still lack entries, because it does not show which log it comes from.

// Note encodes a leader's note for an entry: the index up to which it has
// applied all.
func Note(applied uint64) []byte { return binary.AppendUvarint(nil, applied) }

// noted returns the note of an entry, 0 without one.
func noted(l *raft.Log) uint64 {
	applied, _ := binary.Uvarint(l.Extensions)
	return applied
}

// ErrLostChanges is the fault of a cell in which the master lacks committed
// entries.
var ErrLostChanges = errors.New("the master of the cell lacks changes that were acknowledged")

// learn records the notes of entries.
func (s *logStore) learn(logs ...*raft.Log) {
	for _, l := range logs {
		if c := noted(l); c > s.committed.Load() { // one goroutine writes entries
			s.committed.Store(c)
		}
	}
}

// recall finds the last note among the last CacheSize entries of a log. Earlier
// notes have lower indexes. A log of an earlier release has none.
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

// keeps refuses to remove the end of the log if it has an entry that is known
// to be committed, unless a snapshot has them all.
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
	err := fmt.Errorf("%w: entry %d, of term %d, differs on the master, but all entries up to %d were committed", ErrLostChanges, own.Index, own.Term, committed)
	s.lost(err)
	return err
}

// agrees refuses a leader's snapshot that ends with another entry than this log
// has there, if the log's entry is known to be committed. Up to the latest own
// snapshot the log may have entries that were never committed.
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
