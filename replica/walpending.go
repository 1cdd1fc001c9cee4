package replica

import (
	"sync"

	"github.com/hashicorp/raft"
)

// walPending are the entries that are in the write-ahead log and perhaps nowhere
// else: those of the generation that takes entries, and those on their way to
// raft-boltdb, each in the order of their writes. It is safe for concurrent use.
type walPending struct {
	mu     sync.RWMutex
	taken  []*raft.Log
	leave  []*raft.Log
	latest map[uint64]*raft.Log // of both, by index
}

// add takes copies: the library goes on with its entries as it likes.
func (p *walPending) add(logs []*raft.Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil {
		p.latest = map[uint64]*raft.Log{}
	}
	for _, l := range logs {
		own := *l
		p.taken = append(p.taken, &own)
		p.latest[l.Index] = &own
	}
}

func (p *walPending) get(index uint64, l *raft.Log) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	own, ok := p.latest[index]
	if ok {
		*l = *own
	}
	return ok
}

// fresh are those of the generation that takes entries.
func (p *walPending) fresh() []*raft.Log {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.taken
}

// turn puts them on their way, and returns them.
func (p *walPending) turn() []*raft.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave, p.taken = p.taken, nil
	return p.leave
}

// handedOver forgets those that were on their way. An entry that has come in the
// place of one since stays.
func (p *walPending) handedOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leave {
		if p.latest[l.Index] == l {
			delete(p.latest, l.Index)
		}
	}
	p.leave = nil
}
