package raftstore

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/faultpoint"
)

// Keys under which hashicorp/raft keeps a vote.
const (
	KeyTerm          = "CurrentTerm"
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
)

// voteStore stores a vote so that it is never half written. The library writes
// the term and then the candidate, in two transactions (hashicorp/raft #661). A
// crash in between would leave the new term with the old candidate. Here the
// term is held back until the candidate is written. After such a crash the
// store reads "has not voted in this term", which is true: no answer was sent
// yet.
//
// Also, before a replica enters a later term, its entries are on its disk. As a
// follower it would acknowledge entries from its time as leader that may not be
// on disk yet (see asyncLog). That would commit nothing, because the new
// leader's first entry waits for them. But the acknowledgement would be false
// (see acknowledged in package rafttransport).
//
// A failed write of a term fails the replica, and ends the calling goroutine.
//
// Raft calls it from one goroutine at a time.
type voteStore struct {
	raft.StableStore
	waitDurable func() error // waits until all entries are on the disk
	clock       func() time.Duration
	fail        func(error)
	heldTerm    *uint64
	began       atomic.Int64 // when the current write began, by the clock; 0 without one
}

// put writes a number under a key.
func (s *voteStore) put(key []byte, value uint64) error {
	return s.write(key, func() error { return s.StableStore.SetUint64(key, value) })
}

// write makes a write, and fails the replica if it fails.
func (s *voteStore) write(key []byte, do func() error) error {
	s.began.Store(max(1, int64(s.clock())))
	defer s.began.Store(0)
	err := do()
	if err != nil {
		s.fail(fmt.Errorf("write %s: %w", key, err))
	}
	return err
}

func (s *voteStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		s.heldTerm = &value
		return nil
	}
	err := s.waitDurable() // the error has failed the replica already
	if err == nil {
		err = s.put(key, value)
	}
	if err != nil { // the library would panic on it
		runtime.Goexit()
	}
	return nil
}

func (s *voteStore) Set(key, value []byte) error {
	if err := s.write(key, func() error { return s.StableStore.Set(key, value) }); err != nil {
		return err
	}
	if string(key) != keyVoteCandidate || s.heldTerm == nil {
		return nil
	}
	faultpoint.Hit(faultpoint.VoteStore)
	term := *s.heldTerm
	s.heldTerm = nil
	return s.put([]byte(keyVoteTerm), term)
}
