package raftstore

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// gap knows where the log goes on behind its last gap.
//
// A follower that is sent a snapshot from far ahead goes on behind that, and
// keeps what it had before, entries that were never committed among them. Raft
// has it discard them (Ongaro and Ousterhout 2014, section 7); the library does
// not. Once it leads it would read them for a follower that lags as far, and
// say that they are committed, as all is that comes before its own snapshot. A
// message that reaches the gap stays, as the library finds nothing there, and
// the snapshot is sent in its place. One that is full, and ends before, would
// leave as it is, and a follower would apply what nobody else does.
//
// So a leader reads nothing from before a gap, nor, while there is nothing
// behind its latest snapshot, from before that. That few entries are left
// uncommitted, and a message holds many (see rafttransport.MaxAppendEntries),
// only makes it rare that one ends there.
type gap struct {
	behind atomic.Uint64 // the first entry behind it; 0 without one
}

// before reports whether an entry stands before the gap.
func (g *gap) before(index uint64) bool { return index < g.behind.Load() }

// store is told of an entry that is about to be stored behind the last one.
func (g *gap) store(index, last uint64) {
	if last != 0 && index > last+1 {
		g.behind.Store(index)
	}
}

// snapshot is told of one that is there, and where the log ends.
func (g *gap) snapshot(index, last uint64) {
	if last < index {
		g.behind.Store(index + 1)
	}
}

// find looks for the last gap of a log when that is opened.
func (g *gap) find(log raft.LogStore) error {
	if f, ok := log.(interface{ AfterGap() uint64 }); ok {
		g.behind.Store(f.AfterGap())
		return nil
	}
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	for i := last; err == nil && i > first; i-- {
		if err = log.GetLog(i-1, new(raft.Log)); errors.Is(err, raft.ErrLogNotFound) {
			g.behind.Store(i)
			return nil
		}
	}
	return err
}
