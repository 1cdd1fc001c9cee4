package raftstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// forwardOnly keeps a follower from going back to an older snapshot than its
// last. The library installs whatever it is sent, be it a message that was
// late; entries behind the older snapshot may be in no log any more, and it
// panics when it looks for them (found by the simulator). The leader is told
// that it failed, and goes on from what the follower has.
//
// Nor does it finish one of its own that has been overtaken by one that was
// sent to it: the library would take the end of its own for the last one's, and
// the replica would say, and vote, as if it had not got so far (found by the
// simulator).
//
// Nor does a snapshot begin before the log has the entries that it stands for on
// disk: a leader may have applied some that only others have stored (see asyncLog).
// The log is cut up to there. The library takes its own snapshots on a goroutine
// that may wait; when it installs one, the queue is empty.
type forwardOnly struct {
	raft.SnapshotStore
	log    *logStore
	stored func(index uint64) error // waits until the log has the entry on disk
}

func (s forwardOnly) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if err := errors.Join(s.stored(index), s.isLast(index)); err != nil {
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
		err = fmt.Errorf("a snapshot up to entry %d %w, up to %d", index, ErrOvertaken, metas[0].Index)
	}
	return err
}

// ErrOvertaken says of a snapshot that a later one is there already.
var ErrOvertaken = errors.New("is behind the last one")

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
	s.of.log.finished(s.index)
	return nil
}
