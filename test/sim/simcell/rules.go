package simcell

import (
	"cmp"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// These checks must hold for each step of the committed state.

// transition checks one step of the committed state.
func (o *oracle) transition(before, after *state.State, b state.Batch, out state.Outcome) {
	o.w.stats.check("transition")
	if err := after.Check(); err != nil {
		o.w.fail("after entry %d: %v", after.Index, err)
	}
	if after.Epoch != before.Epoch {
		o.office(after)
	}
	for _, r := range out.Results {
		if r, ok := r.(state.AcquireResult); ok && r.Wait != nil {
			for _, path := range slices.Concat(r.Wait.Set, []string{r.Wait.Path}) {
				o.occupied[path] = after.Index
			}
		}
	}
	for _, h := range grants(out) {
		o.occupied[h.Path] = after.Index
		o.granted(after, h)
	}
	for _, c := range out.Changes {
		o.change(after, c)
	}
	for _, c := range out.Changes {
		if r, ok := c.(state.Released); ok && (r.Reason == state.GivenBack || r.Reason == state.Forced) {
			o.givenBack(after, b, r)
		}
	}
}

// givenBack checks that a hold was released by a call or revoked by its master.
func (o *oracle) givenBack(after *state.State, b state.Batch, r state.Released) {
	h, called := r.Hold, r.Reason == state.Forced
	who := pair{h.Session, h.Path, h.Handle}
	for i := range b.Commands {
		switch op := b.Commands[i].Operation.(type) {
		case *state.Transaction:
			called = called || frees(op, who)
		case *state.ChangeKeys:
			called = called || unlocks(op, who)
		case *state.Release:
			called = called || about(op) == who
		}
	}
	if !called {
		o.revoked(after.Index, h)
		return
	}
	o.w.stats.check("release")
	g := o.tokens[h.Token]
	g.given = true
	o.tokens[h.Token] = g
	if why, no := o.untouched[who]; no {
		o.w.fail("entry %d: token %d at %s is released; the only call to do so was answered with %s", after.Index, h.Token, h.Path, why)
	}
	for _, u := range o.w.users {
		if u.counts(h.Path) == h.Token && u.forced != u.held {
			o.w.fail("entry %d: token %d at %s is released, but %s still works under it", after.Index, h.Token, h.Path, u.name)
		}
	}
}

// frees reports whether a transaction may release a pair's hold.
func frees(op *state.Transaction, who pair) bool {
	return slices.ContainsFunc(slices.Concat(op.Then, op.Else), func(step state.Step) bool {
		f, ok := step.(*state.Free)
		return ok && who == pair{op.Session, f.Path, f.Handle}
	})
}

// unlocks reports whether an operation may release a pair's hold of a key.
func unlocks(op *state.ChangeKeys, who pair) bool {
	return slices.ContainsFunc(op.Steps, func(k state.KeyStep) bool {
		return k.Verb == state.KeyUnlock && who == pair{session: k.Session, path: k.Path}
	})
}

// grants returns the grants that a batch made or reported, in the order of
// their tokens.
func grants(out state.Outcome) []*state.Hold {
	var all []*state.Hold
	for _, r := range out.Results {
		if r, ok := r.(state.AcquireResult); ok && r.Verdict == state.Held && r.Hold != nil {
			all = append(all, r.Hold)
		}
	}
	for _, c := range out.Changes {
		if g, ok := c.(state.Granted); ok {
			all = append(all, g.Hold)
		}
	}
	slices.SortFunc(all, func(a, b *state.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

func (o *oracle) office(after *state.State) {
	o.w.stats.Offices++
	if who := o.early[after.Office.Term]; who != "" {
		o.w.fail("entry %d: %s opens an office that it was ready for while %s held a valid lease", after.Index, after.Office.Master, who)
	}
	now := o.w.now()
	for l := range after.Locks("", "") {
		if l.DelayID != 0 { // a new office restarts each lock-delay
			o.delays[l.Path] = now + time.Duration(l.DelayMS)*time.Millisecond
		}
	}
}

// granted checks a grant in a result or an event.
func (o *oracle) granted(after *state.State, h *state.Hold) {
	if _, known := o.tokens[h.Token]; known {
		return
	}
	o.w.stats.check("grant")
	who := pair{h.Session, h.Path, h.Handle}
	o.tokens[h.Token] = grant{hold: h, index: after.Index}
	if until := o.delays[h.Path]; o.w.now() < until {
		o.w.fail("entry %d: %s is granted %v before its lock-delay is over", after.Index, h.Path, until-o.w.now())
	}
	if why, no := o.refused[who]; no {
		o.w.fail("entry %d: %s is granted to %s/%s, which got %s", after.Index, h.Path, h.Session, h.Handle, why)
	}
}

func (o *oracle) change(after *state.State, c state.Change) {
	switch c := c.(type) {
	case state.Released:
		g := o.tokens[c.Hold.Token]
		g.freed = after.Index
		o.tokens[c.Hold.Token] = g
	case state.Enqueued:
		o.enqueued(after, c.Wait)
	case state.SessionOpened:
		o.signs[c.Session.ID] = o.w.now()
	case state.SessionEnded:
		o.ended[c.Session.ID] = end{after.Index, c.Expired}
		if c.Expired {
			o.expired(after, c.Session.ID)
		}
	case state.DelayBegan:
		o.delays[c.Path] = max(o.delays[c.Path], o.w.now()+time.Duration(c.MS)*time.Millisecond)
	}
}

// expired checks that no client counts on an expired session.
func (o *oracle) expired(after *state.State, id string) {
	o.w.stats.check("expiry")
	for _, u := range o.w.users {
		if left, ok := u.remaining(id); ok && left > 0 {
			o.w.fail("entry %d: session %s of %s expires, but its client counts on it for another %v", after.Index, id, u.name, left)
		}
		if h := u.held; h != nil && u.session != nil && u.session.ID() == id && u.counts(h.Path()) != 0 {
			o.w.fail("entry %d: session %s of %s expires, but its work at %s continues", after.Index, id, u.name, h.Path())
		}
	}
}
