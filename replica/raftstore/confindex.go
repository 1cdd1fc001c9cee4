package raftstore

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// confIndex records where configurations are in this replica's log, committed
// or not, because the library does not expose that. It sees what the log stores
// and deletes, and what the library reads when it looks for configurations at
// its start.
type confIndex struct {
	mu      sync.Mutex // guards what follows
	at      []uint64   // ascending
	changed bool       // an entry was stored or deleted since the start
}

// read notes an entry that was read, until the log changes. From then on all are
// known, and a leader's goroutine may read one that is deleted in the meantime.
func (c *confIndex) read(l *raft.Log) {
	if l.Type != raft.LogConfiguration {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed {
		c.note(l)
	}
}

func (c *confIndex) stored(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = true
	for _, l := range logs {
		c.note(l)
	}
}

// note records an entry. The caller holds mu.
func (c *confIndex) note(l *raft.Log) {
	if l.Type != raft.LogConfiguration {
		return
	}
	if i, there := slices.BinarySearch(c.at, l.Index); !there {
		c.at = slices.Insert(c.at, i, l.Index)
	}
}

// deleted forgets configurations in deleted entries.
func (c *confIndex) deleted(from, to uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = true
	c.at = slices.DeleteFunc(c.at, func(i uint64) bool { return i >= from && i <= to })
}

// latest returns the index of the last configuration, 0 if none is known.
func (c *confIndex) latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.at) == 0 {
		return 0
	}
	return c.at[len(c.at)-1]
}
