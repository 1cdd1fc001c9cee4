package replica

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/stoutlock/stout/lease"
)

// logCacheSize is how many of the last entries stay in memory: each is read
// once per peer, and would be decoded from disk each time. An entry is a whole
// batch, of up to maxBatchBytes.
const logCacheSize = 256

// openBolt opens the file that holds the log and the votes. An open file is
// locked; another process that tries gets a clear error.
func openBolt(dir string) (*raftboltdb.BoltStore, error) {
	name := filepath.Join(dir, "raft.db")
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: name,
		BoltOptions: &bbolt.Options{
			Timeout:        time.Second,
			FreelistType:   bbolt.FreelistMapType,
			NoFreelistSync: true, // else a file that a burst has grown rewrites its free list in each commit
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("data directory %s is in use by another process (%s is locked)", dir, name)
	case err != nil:
		return nil, fmt.Errorf("data directory %s: open %s: %w", dir, name, err)
	}
	return store, nil
}

// logStore is the log on disk. It notes the promise that storing a batch makes,
// on Raft's own goroutine, after the entry is on disk and before Raft learns of
// it (see package lease). When the disk refuses a write the replica fails: the
// library would only step down and be elected again.
type logStore struct {
	raft.LogStore
	promises *lease.Promises
	clock    func() time.Duration
	fail     func(error)
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
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
