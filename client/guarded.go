package client

import "context"

// guarded is a context that ends with a hold at the latest. Its methods read
// the clock instead of waiting for a timer: after the machine has slept for
// longer than the lease, a worker may be awake before the timers have run.
//
// It reads the clock without the lease's mutex. The caller may call its methods
// under a lock that the caller's logger also takes, and the session logs under
// that mutex.
type guarded struct {
	context.Context // ended by end
	end             context.CancelCauseFunc
	h               *Held
}

// look ends the context if the hold has ended.
func (g *guarded) look() {
	if g.Context.Err() == nil {
		if reason := g.h.over(); reason != nil {
			g.end(reason)
		}
	}
}

func (g *guarded) Err() error {
	g.look()
	return g.Context.Err()
}

func (g *guarded) Done() <-chan struct{} {
	g.look()
	return g.Context.Done()
}

// over returns why the hold can no longer be relied upon, or nil. If the lease
// has ended, it ends the hold; the session changes its state when it is next
// read.
func (h *Held) over() error {
	now := h.a.s.c.clock.now() // first: the lease may be extended in between
	if now >= h.a.s.lease.end.get() {
		h.cancel(ErrJeopardy)
	}
	return context.Cause(h.ctx)
}
