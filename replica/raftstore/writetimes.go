package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
)

// writeTimes record, for the last entries that this replica proposed as leader,
// when each was submitted to its disk and when it was written. Index and term
// identify an entry: another entry may replace one that was never committed.
type writeTimes struct {
	mu   sync.Mutex
	last [CacheSize]writeTime // by index
}

type writeTime struct {
	index, term   uint64
	left, arrived time.Duration // arrived is 0 until the entry is written
}

// left records entries that are submitted to the disk.
func (l *writeTimes) left(logs []*raft.Log, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range logs {
		l.last[e.Index%CacheSize] = writeTime{index: e.Index, term: e.Term, left: now}
	}
}

// arrived records entries that are on the disk, and how long each took.
func (l *writeTimes) arrived(logs []*raft.Log, now time.Duration, took *metric.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range logs {
		if at := &l.last[e.Index%CacheSize]; at.index == e.Index && at.term == e.Term {
			at.arrived = now
			took.Observe(now - at.left)
		}
	}
}

// find returns when an entry was submitted to the disk, and when it was
// written: 0 before that.
func (l *writeTimes) find(index, term uint64) (left, arrived time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.last[index%CacheSize]
	return e.left, e.arrived, e.index == index && e.term == term
}
