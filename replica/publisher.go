package replica

import (
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// publisher publishes the events that the master in office has applied: to
// watchers at this replica and, by the commit index that it sends, at its
// followers. A client that has seen an event therefore finds it in every later
// answer of the master.
//
// A committed entry is not enough. The master may be slow to apply it. Or a new
// leader, with an office not yet open, has committed an entry of its predecessor,
// which still holds its lease and does not know: the answers were lost.
//
// A replica may publish an entry in two cases: it leads in the term of the last
// office that it has applied, and so is the master; or a leader has reported the
// entry as committed, and leaders follow the same rule.
type publisher struct {
	leads    func(term uint64) bool // whether this replica leads in the term
	events   *events.Ring
	advanced chan struct{} // has a value when published has grown
	fresh    freshness

	mu          sync.Mutex // guards what follows
	commitIndex uint64     // entries up to it are committed, as leaders report
	applied     uint64
	mine        bool   // this replica led in the term of the last office when it had applied that
	published   uint64 // entries up to it are published
}

// append adds the changes of an entry that was applied.
func (p *publisher) append(index uint64, changes []state.Change, after *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events.Append(changes, after)
	p.applied, p.mine = index, p.leads(after.Office.Term)
	p.fresh.advance(index, after.Office.Term)
	p.publish()
}

// committed records the commit index that a leader of a term reports. last
// reports whether the leader had nothing more to report.
func (p *publisher) committed(term, index uint64, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commitIndex = max(p.commitIndex, index)
	if last {
		p.fresh.report(term, index)
	}
	p.publish()
}

// proposed records that an entry which this replica proposed at an instant was accepted.
func (p *publisher) proposed(at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh.since(at)
}

// restored starts again from a state; watchers read it anew.
func (p *publisher) restored(s *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events.Restore(s.Revision)
	p.applied, p.mine, p.published = s.Index, false, 0
	p.fresh.advance(s.Index, s.Office.Term)
	p.publish()
}

// publish publishes everything applied, if allowed. The caller holds mu.
func (p *publisher) publish() {
	if p.published == p.applied {
		return
	}
	if p.mine || p.applied <= p.commitIndex {
		p.published = p.applied
		p.events.Publish()
		select {
		case p.advanced <- struct{}{}:
		default:
		}
	}
}

// publishedTo returns the last entry that is published.
func (p *publisher) publishedTo() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}
