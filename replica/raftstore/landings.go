package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
)

// landings remember of a leader's last own entries when they left for its disk,
// and when they came onto it. An entry is known by index and term: another one
// may take the place of one that was never committed.
type landings struct {
	mu   sync.Mutex
	last [CacheSize]landing // by index
}

type landing struct {
	index, term   uint64
	left, arrived time.Duration // arrived is 0 before that
}

// left notes entries that are on their way.
func (l *landings) left(logs []*raft.Log, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range logs {
		l.last[e.Index%CacheSize] = landing{index: e.Index, term: e.Term, left: now}
	}
}

// arrived notes that they are on the disk, and how long each took.
func (l *landings) arrived(logs []*raft.Log, now time.Duration, took *metric.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range logs {
		if at := &l.last[e.Index%CacheSize]; at.index == e.Index && at.term == e.Term {
			at.arrived = now
			took.Observe(now - at.left)
		}
	}
}

// find is when an entry left for the disk, and when it came onto it: 0 before that.
func (l *landings) find(index, term uint64) (left, arrived time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.last[index%CacheSize]
	return e.left, e.arrived, e.index == index && e.term == term
}
