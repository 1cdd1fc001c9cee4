package raftstore

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// Options are what the stores need of their replica.
type Options struct {
	// Leading reports whether the library's main loop, which calls the stores,
	// leads.
	Leading func() bool
	Clock   func() time.Duration
	// Fail ends the replica.
	Fail func(error)
	// Applied is the last entry that the replica has applied.
	Applied func() uint64
	// Lost is called with ErrLostChanges, on the library's main loop.
	Lost func(error)
	// Elsewhere reports whether a majority of the voters has acknowledged an entry in
	// its own term, this replica not counted. It may be left out.
	Elsewhere func(index, term uint64) bool
	// Promises is told of each batch that is stored.
	Promises *lease.Promises
	// Took is told how long each write to the log has taken.
	Took *metric.Histogram
	// Disk is told how long each entry that a leader proposed took to come onto its
	// disk, the wait for the write before it included.
	Disk *metric.Histogram
}

// Stores are what the library is given.
type Stores struct {
	Logs      raft.LogStore
	Votes     raft.StableStore
	Snapshots raft.SnapshotStore

	async *asyncLog
	logs  *logStore
}

// CacheSize is how many of the last entries stay in memory: each is read
// once per peer, and would be decoded from disk each time. An entry is a whole
// batch, of up to cell.MaxBatchBytes, and seldom of up to cell.MaxCommandBytes.
const CacheSize = 256

// New puts the stores of a data directory right.
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
	logs := &logStore{LogStore: cached, snapshots: under.Snapshots, leading: o.Leading, promises: o.Promises, clock: o.Clock, fail: o.Fail, applied: o.Applied, lost: o.Lost}
	if err := logs.recall(under.Logs); err != nil {
		return nil, err
	}
	if err := logs.look(under.Logs); err != nil {
		return nil, err
	}
	votes := &voteStore{StableStore: under.Votes, waitDurable: async.waitAll, fail: o.Fail}
	return &Stores{Logs: logs, Votes: votes, Snapshots: forwardOnly{under.Snapshots, logs, async.waitStored}, async: async, logs: logs}, nil
}

// Agrees is nil unless a leader's snapshot ends with another entry than this log, where
// that is known to be committed: the error is ErrLostChanges then.
func (s *Stores) Agrees(index, term uint64) error { return s.logs.agrees(index, term) }

// Compacted returns where the latest snapshot ends, its index and term, if the snapshot
// has entry index and the log no longer does.
func (s *Stores) Compacted(index uint64) (end, term uint64, ok bool) { return s.logs.compacted(index) }

// WaitCommitted waits until an entry that the library takes for committed is: it is
// on this replica's disk, or on those of a majority without it. The error is the
// disk's. It is called by one goroutine at a time.
func (s *Stores) WaitCommitted(index, term uint64) error { return s.async.waitCommitted(index, term) }

// Acknowledged is called when a follower has acknowledged more, which Elsewhere
// already shows.
func (s *Stores) Acknowledged() { s.async.acknowledged() }

// Landed is when an entry left for this replica's disk, and came onto it, that it
// proposed itself as leader, where it is one of the last of those. It left before any
// follower was sent it. arrived is 0 while it is not there.
func (s *Stores) Landed(index, term uint64) (left, arrived time.Duration, own bool) {
	return s.async.landed.find(index, term)
}

// WritingFor is how long the write to the log that is under way has taken, 0
// where there is none.
func (s *Stores) WritingFor() time.Duration { return s.async.writingFor() }

// Sync is how long a write to the log takes at present, the median of the last ones;
// 0 where too few were made.
func (s *Stores) Sync() time.Duration { return s.async.recent.median() }

// LastConfiguration is the place of the last configuration in the log,
// committed or not.
func (s *Stores) LastConfiguration() uint64 { return s.logs.configs.latest() }

// Close waits, after the library's end, until the stores beneath may be closed.
func (s *Stores) Close() { s.async.close() }
