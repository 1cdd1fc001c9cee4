package raftstore

import (
	"fmt"
	"runtime"

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
	fail        func(error)
	heldTerm    *uint64
}

func (s *voteStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		s.heldTerm = &value
		return nil
	}
	err := s.waitDurable() // the error has failed the replica already
	if err == nil {
		err = s.note(key, s.StableStore.SetUint64(key, value))
	}
	if err != nil { // the library would panic on it
		runtime.Goexit()
	}
	return nil
}

func (s *voteStore) Set(key, value []byte) error {
	if err := s.note(key, s.StableStore.Set(key, value)); err != nil {
		return err
	}
	if string(key) != keyVoteCandidate || s.heldTerm == nil {
		return nil
	}
	faultpoint.Hit(faultpoint.VoteStore)
	term := *s.heldTerm
	s.heldTerm = nil
	return s.note([]byte(keyVoteTerm), s.StableStore.SetUint64([]byte(keyVoteTerm), term))
}

func (s *voteStore) note(key []byte, err error) error {
	if err != nil {
		s.fail(fmt.Errorf("write %s: %w", key, err))
	}
	return err
}
