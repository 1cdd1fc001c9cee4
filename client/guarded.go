package client

import "context"

// guarded is a context that ends with a hold at the latest. Whoever asks it is
// told by the clock, not by a timer: after the machine has slept for longer
// than the lease, timers have yet to run, and a worker is awake already.
//
// It asks the clock without the lease's mutex, since its methods may be called
// under locks that the caller's logger takes too, to which the session speaks
// under that mutex.
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

// over is why the hold can no longer be relied upon, or nil. When it finds the
// lease at its end, it ends the hold; the session follows when it is looked at.
func (h *Held) over() error {
	now := h.a.s.c.clock.now() // first: the lease may be extended meanwhile
	if now >= h.a.s.lease.end.get() {
		h.cancel(ErrJeopardy)
	}
	return context.Cause(h.ctx)
}
