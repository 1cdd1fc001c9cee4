package raftstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// forwardOnly keeps a follower from going back to an older snapshot than its
// last. Three rules:
//
//  1. It installs no older snapshot. The library installs any snapshot that it
//     is sent, even from a late message. Entries behind the older snapshot may
//     be in no log any more, and the library panics when it looks for them
//     (found by the simulator). The leader receives a failure, and continues
//     from the follower's position.
//  2. It finishes no snapshot of its own that a received one has overtaken.
//     Otherwise the library would use the earlier end as the end of the latest
//     snapshot. The replica would then report and vote as if it were less
//     advanced (found by the simulator).
//  3. It begins no snapshot before the log has the snapshot's entries on disk,
//     because the log is cut up to there. A leader may have applied entries
//     that only others have stored (see asyncLog). The library takes its own
//     snapshots on a goroutine that may wait; when it installs one, the queue
//     is empty.
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

// isLast returns ErrOvertaken if the store has a snapshot behind index.
func (s forwardOnly) isLast(index uint64) error {
	metas, err := s.List()
	if err == nil && len(metas) > 0 && index < metas[0].Index {
		err = fmt.Errorf("a snapshot up to entry %d %w, up to %d", index, ErrOvertaken, metas[0].Index)
	}
	return err
}

// ErrOvertaken is the error of a snapshot for which a later one exists already.
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
