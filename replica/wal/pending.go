package wal

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pending has the entries that are in the write-ahead log and perhaps nowhere
// else: the entries of the current generation, and the entries under way to the
// store, each in the order of their writes. It is safe for concurrent use.
type pending struct {
	mu       sync.RWMutex // guards what follows
	current  []*raft.Log
	flushing []*raft.Log
	latest   map[uint64]*raft.Log // the latest entry at each index, of current and flushing
}

// add copies the entries, because the library may change its own.
func (p *pending) add(logs []*raft.Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil {
		p.latest = map[uint64]*raft.Log{}
	}
	for _, l := range logs {
		own := *l
		p.current = append(p.current, &own)
		p.latest[l.Index] = &own
	}
}

func (p *pending) get(index uint64, l *raft.Log) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	own, ok := p.latest[index]
	if ok {
		*l = *own
	}
	return ok
}

// fresh returns the entries of the current generation.
func (p *pending) fresh() []*raft.Log {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.current
}

// rotate marks the fresh entries as under way to the store, and returns them.
func (p *pending) rotate() []*raft.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushing, p.current = p.current, nil
	return p.flushing
}

// flushed removes the entries that were under way. It keeps an entry that has
// replaced one of them since.
func (p *pending) flushed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.flushing {
		if p.latest[l.Index] == l {
			delete(p.latest, l.Index)
		}
	}
	p.flushing = nil
}
