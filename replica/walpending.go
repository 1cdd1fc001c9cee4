package replica

import (
	"sync"

	"github.com/hashicorp/raft"
)

// walPending are the entries that are in the write-ahead log only, in the order of
// their writes. It is safe for concurrent use.
type walPending struct {
	mu   sync.RWMutex
	logs []*raft.Log
	by   map[uint64]*raft.Log // index
}

// add takes copies: the library goes on with its entries as it likes.
func (p *walPending) add(logs []*raft.Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[uint64]*raft.Log{}
	}
	for _, l := range logs {
		own := *l
		p.logs = append(p.logs, &own)
		p.by[l.Index] = &own
	}
}

func (p *walPending) get(index uint64, l *raft.Log) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	own, ok := p.by[index]
	if ok {
		*l = *own
	}
	return ok
}

func (p *walPending) all() []*raft.Log {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.logs
}

func (p *walPending) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logs = nil
	clear(p.by)
}
