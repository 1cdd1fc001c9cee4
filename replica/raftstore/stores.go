package raftstore

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// Options are what the stores need from their replica.
type Options struct {
	// Leading reports whether the library's main loop, which calls the stores,
	// leads.
	Leading func() bool
	Clock   func() time.Duration
	// Fail ends the replica.
	Fail func(error)
	// Applied returns the last entry that the replica has applied.
	Applied func() uint64
	// Lost is called with ErrLostChanges, on the library's main loop.
	Lost func(error)
	// Elsewhere reports whether a majority of the voters, not counting this
	// replica, has acknowledged an entry in the entry's own term. May be nil.
	Elsewhere func(index, term uint64) bool
	// SnapshotInterval is the least time for which the log keeps the entries behind a
	// snapshot that was sent to a follower.
	SnapshotInterval time.Duration
	// Promises records each batch that is stored.
	Promises *lease.Promises
	// Took records how long each write to the log has taken.
	Took *metric.Histogram
	// Disk records how long each entry that a leader proposed took to reach its
	// disk, including the wait for the write before it.
	Disk *metric.Histogram
}

// Stores are the corrected stores for the library.
type Stores struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore

	async *asyncLog
	logs  *logStore
	votes *voteStore
	clock func() time.Duration
}

// CacheSize is how many of the last entries stay in memory. Each is read once
// per peer, and would be decoded from disk each time. An entry is a whole
// batch, of up to membership.MaxBatchBytes, and seldom of up to
// membership.MaxCommandBytes.
const CacheSize = 256

// New wraps the stores of a data directory in the corrections.
func New(under datadir.Stores, o Options) (*Stores, error) {
	async := newAsyncLog(under.Logs, o.Leading, o.Clock, o.Fail)
	async.took, async.disk = o.Took, o.Disk
	if o.Elsewhere != nil {
		async.elsewhere = o.Elsewhere
	}
	cached, err := raft.NewLogCache(CacheSize, async)
	if err != nil {
		return nil, err
	}
	logs := &logStore{LogStore: cached, snapshots: under.Snapshots, leading: o.Leading, promises: o.Promises, clock: o.Clock, fail: o.Fail, applied: o.Applied, lost: o.Lost,
		sending: sending{clock: o.Clock, pause: o.SnapshotInterval}}
	if err := logs.begin(under.Logs); err != nil {
		return nil, err
	}
	votes := &voteStore{StableStore: under.Votes, waitDurable: async.waitAll, clock: o.Clock, fail: o.Fail}
	return &Stores{Logs: logs, Votes: votes, Snapshots: forwardOnly{under.Snapshots, logs, async.waitStored}, async: async, logs: logs, votes: votes, clock: o.Clock}, nil
}

// Continue discards log entries that do not continue from the latest snapshot, as
// New does.
func Continue(under datadir.Stores) error {
	return (&logStore{snapshots: under.Snapshots}).begin(under.Logs)
}

// Agrees returns ErrLostChanges if a leader's snapshot ends with another entry
// than this log has there, and the log's entry is known to be committed.
func (s *Stores) Agrees(index, term uint64) error { return s.logs.agrees(index, term) }

// Compacted returns the index and term of the latest snapshot's end, if the
// snapshot has entry index and the log no longer does.
func (s *Stores) Compacted(index uint64) (end, term uint64, ok bool) { return s.logs.compacted(index) }

// WaitCommitted waits until an entry that the library considers committed
// really is: it is on this replica's disk, or on the disks of a majority
// without it. The error is the disk's. Only one goroutine may call it at a
// time.
func (s *Stores) WaitCommitted(index, term uint64) error { return s.async.waitCommitted(index, term) }

// Acknowledged must be called when a follower has acknowledged more and
// Elsewhere already reports it.
func (s *Stores) Acknowledged() { s.async.acknowledged() }

// Stored returns when an entry was submitted to this replica's disk, and when
// it was written (0 before that). It knows the last entries that this replica
// proposed as leader. An entry is submitted before any follower is sent it.
func (s *Stores) Stored(index, term uint64) (left, arrived time.Duration, own bool) {
	return s.async.landed.find(index, term)
}

// WritingFor returns how long the current write to the log or of a vote has taken, 0
// without one.
func (s *Stores) WritingFor() time.Duration {
	return max(writingFor(&s.async.began, s.clock), writingFor(&s.votes.began, s.clock))
}

func writingFor(since *atomic.Int64, clock func() time.Duration) time.Duration {
	if began := since.Load(); began != 0 {
		return clock() - time.Duration(began)
	}
	return 0
}

// Sync returns how long a write to the log takes at present: the median of the
// last writes, 0 while there are too few.
func (s *Stores) Sync() time.Duration { return s.async.recent.median() }

// LastConfiguration returns the index of the last configuration in the log,
// committed or not.
func (s *Stores) LastConfiguration() uint64 { return s.logs.configs.latest() }

// Close waits, after the library has ended, until the stores beneath may be
// closed.
func (s *Stores) Close() { s.async.close() }
