package raftstore

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// confIndex knows where in this replica's log configurations are, committed or
// not: the library keeps that to itself. It is told what the log stores,
// deletes and, when the library looks for configurations at its start, reads.
type confIndex struct {
	mu sync.Mutex // guards at
	at []uint64   // ascending
}

func (c *confIndex) note(l *raft.Log) {
	if l.Type != raft.LogConfiguration {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, there := slices.BinarySearch(c.at, l.Index); !there {
		c.at = slices.Insert(c.at, i, l.Index)
	}
}

// deleted is told of entries that are gone.
func (c *confIndex) deleted(from, to uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = slices.DeleteFunc(c.at, func(i uint64) bool { return i >= from && i <= to })
}

// latest is the place of the last one, 0 where none is known.
func (c *confIndex) latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.at) == 0 {
		return 0
	}
	return c.at[len(c.at)-1]
}
