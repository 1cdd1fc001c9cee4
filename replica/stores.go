package replica

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// logCacheSize is how many of the last entries stay in memory: each is read
// once per peer, and would be decoded from disk each time. An entry is a whole
// batch, of up to cell.MaxBatchBytes.
const logCacheSize = 256

// logStore is the log. It notes the promise that storing a batch makes, on Raft's
// own goroutine, before Raft learns that it is stored (see package lease). A
// leader's own batches may be on disk a little later (see asideLog); its promises
// are for a time when another leads, or it again after an election.
//
// The library cannot go on without an entry that is there and cannot be read: it
// panics. Here the replica fails, and the library's goroutine ends without a word.
type logStore struct {
	raft.LogStore
	snapshots raft.SnapshotStore
	leading   func() bool // see asideLog
	promises  *lease.Promises
	clock     func() time.Duration
	fail      func(error)
	configs   *confIndex
	gap       gap
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
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

// look finds out where the log beneath has its last gap.
func (s *logStore) look(log raft.LogStore) error {
	if err := s.gap.find(log); err != nil {
		return err
	}
	metas, err := s.snapshots.List()
	if err != nil || len(metas) == 0 {
		return err
	}
	return s.behind(metas[0].Index)
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

// typeStandIn is the type of what stands for the entry at which a snapshot ends.
const typeStandIn raft.LogType = 0xff

// standIn answers a follower that looks for the last entry of its snapshot, of
// which the term is all that it wants to know. The library compares a message that
// goes on from there with its log only, which may have a hole where the snapshot
// came from a leader that was far ahead: it would refuse the message, be sent an
// older snapshot, go back to that, and in the end look for entries in the hole
// (found by the simulator; hashicorp/raft #697 is of the kind). Nobody else sees
// the stand-in: the transport lets none pass.
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
	*l = raft.Log{Index: index, Term: meta.Term, Type: typeStandIn}
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

// forwardOnly keeps a follower from going back to an older snapshot than its last.
// The library installs whatever it is sent, be it a message that was late; entries
// behind the older snapshot may be in no log any more, and it panics when it looks
// for them (found by the simulator). The leader is told that it failed, and goes on
// from what the follower has.
//
// Nor does it finish one of its own that has been overtaken by one that was sent to it:
// the library would take the end of its own for the last one's, and the replica would
// say, and vote, as if it had not got so far (found by the simulator).
//
// What comes of a snapshot for the log beside it is noted before anything else is.
type forwardOnly struct {
	raft.SnapshotStore
	log *logStore
}

func (s forwardOnly) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if err := s.isLast(index); err != nil {
		return nil, err
	}
	sink, err := s.SnapshotStore.Create(version, index, term, c, configIndex, trans)
	if err != nil {
		return nil, err
	}
	return &forwardSink{sink, s, index}, nil
}

// isLast says why no snapshot may end at index, or nil.
func (s forwardOnly) isLast(index uint64) error {
	metas, err := s.List()
	if err == nil && len(metas) > 0 && index < metas[0].Index {
		err = fmt.Errorf("a snapshot up to entry %d is behind the last one, up to %d", index, metas[0].Index)
	}
	return err
}

type forwardSink struct {
	raft.SnapshotSink
	of    forwardOnly
	index uint64
}

func (s *forwardSink) Close() error {
	if err := s.of.isLast(s.index); err != nil {
		return errors.Join(err, s.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.of.log.behind(s.index)
}

// notFound is how the library tells that a store has no value under a key.
const notFound = "not found"

// Keys under which hashicorp/raft keeps a vote.
const (
	keyTerm          = "CurrentTerm"
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
)

// voteStore stores a vote so that it is never half there. The library writes
// the term and then the candidate, in two transactions (hashicorp/raft #661): a
// crash in between would leave the new term with the old candidate. Here the
// term is held back until the candidate is written, so that a crash in between
// reads "has not voted in this term", which is true: no answer was sent yet.
//
// And before a replica enters a later term, its entries are on its disk: as a follower
// it would acknowledge those that it has from its time as the leader, and that may not
// be there yet (see asideLog). Nothing is committed by that, as the new leader's first
// entry waits for them, but it would have said what is not so (see acknowledged).
//
// Raft calls it from one goroutine at a time.
type voteStore struct {
	raft.StableStore
	settled  func() error // waits until all entries are on the disk
	fail     func(error)
	heldTerm *uint64
}

func (s *voteStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		s.heldTerm = &value
		return nil
	}
	if s.settled() != nil { // which has failed the replica; the library would panic
		runtime.Goexit()
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
