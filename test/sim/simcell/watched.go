package simcell

import (
	"context"
	"time"

	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/state"
)

// watched is the replica as its master sees it. Each call is a point at which
// the process may be paused. The replica may report that it does not lead
// although it does ("pretend you are no longer master", Paxos Made Live, 6).
type watched struct {
	*replica.Replica
	p *process
}

func (l watched) pretends() bool { return l.p.m.deposed > l.p.m.w.now() }

func (l watched) Leading() (uint64, bool) {
	term, ok := l.Replica.Leading()
	if l.pretends() {
		return 0, false
	}
	l.p.point()
	return term, ok
}

func (l watched) Changed() <-chan struct{} { return l.p.changed }

// relay signals changes of leadership to the master: the replica's own and
// pretended ones. It signals first, since the replica may have changed since the
// master looked. It gets the channel before each signal, so that it misses no
// change behind it.
func (p *process) relay() {
	for {
		changed := p.replica.Changed()
		close(p.changed)
		p.changed = make(chan struct{})
		select {
		case <-changed:
		case <-p.m.notice:
		case <-p.gone.Done():
			return
		}
	}
}

func (l watched) Submit(b state.Batch) func() (*state.Outcome, error) {
	l.p.point()
	if m := l.p.m; m.tardy > 0 {
		late := m.tardy
		m.tardy = 0
		l.p.stall(late)
	}
	l.p.m.w.oracle.opens(l.p.m, b)
	wait := l.Replica.Submit(b)
	return func() (*state.Outcome, error) {
		out, err := wait()
		l.p.point()
		return out, err
	}
}

func (l watched) State() *state.State {
	s := l.Replica.State()
	l.p.point()
	return s
}

func (l watched) PromisedBefore(term uint64) time.Duration {
	r := l.Replica.PromisedBefore(term)
	l.p.point()
	return r
}

func (l watched) Transfer(ctx context.Context, to string) error {
	l.p.point()
	return l.Replica.Transfer(ctx, to)
}
