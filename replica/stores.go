package replica

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
)

// logCacheSize is how many of the last entries stay in memory: each is read
// once per peer, and would be decoded from disk each time. An entry is a whole
// batch, of up to maxBatchBytes.
const logCacheSize = 256

// logStore is the log on disk. It notes the promise that storing a batch makes,
// on Raft's own goroutine, after the entry is on disk and before Raft learns of
// it (see package lease). When the disk refuses a write the replica fails: the
// library would only step down and be elected again.
//
// The library cannot go on without an entry that is there and cannot be read: it
// panics. Here the replica fails, and the library's goroutine ends without a word.
type logStore struct {
	raft.LogStore
	promises *lease.Promises
	clock    func() time.Duration
	fail     func(error)
	storing  atomic.Int64 // when the write under way began, on the clock; 0 without one
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
	s.storing.Store(int64(s.clock()))
	defer s.storing.Store(0)
	if err := s.LogStore.StoreLogs(logs); err != nil {
		s.fail(fmt.Errorf("write %d log entries: %w", len(logs), err))
		return err
	}
	now := s.clock()
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			s.promises.Stored(l.Term, now)
		}
	}
	return nil
}

func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	err := s.LogStore.GetLog(index, l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		s.fail(fmt.Errorf("read log entry %d: %w; %s", index, err, cure))
		runtime.Goexit()
	}
	return err
}

// storingFor is how long the write under way has taken, 0 where there is none.
func (s *logStore) storingFor() time.Duration {
	if began := s.storing.Load(); began != 0 {
		return s.clock() - time.Duration(began)
	}
	return 0
}

func (s *logStore) DeleteRange(from, to uint64) error {
	err := s.LogStore.DeleteRange(from, to)
	if err != nil {
		s.fail(fmt.Errorf("delete log entries %d to %d: %w", from, to, err))
	}
	return err
}

// Keys under which hashicorp/raft keeps a vote.
const (
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
)

// voteStore stores a vote so that it is never half there. The library writes
// the term and then the candidate, in two transactions (hashicorp/raft #661): a
// crash in between would leave the new term with the old candidate. Here the
// term is held back until the candidate is written, so that a crash in between
// reads "has not voted in this term", which is true: no answer was sent yet.
//
// Raft calls it from one goroutine at a time.
type voteStore struct {
	raft.StableStore
	fail     func(error)
	heldTerm *uint64
}

func (s *voteStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		s.heldTerm = &value
		return nil
	}
	return s.note(key, s.StableStore.SetUint64(key, value))
}

func (s *voteStore) Set(key, value []byte) error {
	if err := s.note(key, s.StableStore.Set(key, value)); err != nil {
		return err
	}
	if string(key) != keyVoteCandidate || s.heldTerm == nil {
		return nil
	}
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
