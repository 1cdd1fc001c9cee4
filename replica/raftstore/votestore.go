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

// voteStore stores a vote so that it is never half there. The library writes
// the term and then the candidate, in two transactions (hashicorp/raft #661): a
// crash in between would leave the new term with the old candidate. Here the
// term is held back until the candidate is written, so that a crash in between
// reads "has not voted in this term", which is true: no answer was sent yet.
//
// And before a replica enters a later term, its entries are on its disk: as a
// follower it would acknowledge those that it has from its time as the leader,
// and that may not be there yet (see asyncLog). Nothing is committed by that,
// as the new leader's first entry waits for them, but it would have said what
// is not so (see acknowledged).
//
// A term that is not written fails the replica, and ends the goroutine that calls.
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
	err := s.waitDurable() // which has failed the replica
	if err == nil {
		err = s.note(key, s.StableStore.SetUint64(key, value))
	}
	if err != nil { // at which the library would panic
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
