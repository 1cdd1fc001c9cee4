package simcell

import (
	"cmp"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// These checks must hold for each step of the committed state.

// transition checks one step of the committed state.
func (j *judge) transition(before, after *state.State, b state.Batch, out state.Outcome) {
	j.w.stats.check("transition")
	if err := after.Check(); err != nil {
		j.w.fail("after entry %d: %v", after.Index, err)
	}
	if after.Epoch != before.Epoch {
		j.office(after)
	}
	for _, r := range out.Results {
		if r, ok := r.(state.AcquireResult); ok && r.Wait != nil {
			j.claimed[r.Wait.Path] = after.Index
		}
	}
	for _, h := range grants(out) {
		j.claimed[h.Path] = after.Index
		j.granted(after, h)
	}
	for _, c := range out.Changes {
		j.change(after, c)
	}
	for _, c := range out.Changes {
		if r, ok := c.(state.Released); ok && (r.Reason == state.GivenBack || r.Reason == state.Forced) {
			j.givenBack(after, b, r)
		}
	}
}

// givenBack checks that a hold was released by a call or revoked by its master.
func (j *judge) givenBack(after *state.State, b state.Batch, r state.Released) {
	h, called := r.Hold, r.Reason == state.Forced
	who := pair{h.Session, h.Path, h.Handle}
	for i := range b.Commands {
		switch op := b.Commands[i].Operation.(type) {
		case *state.Transaction:
			called = called || frees(op, who)
		case *state.Release:
			called = called || about(op) == who
		}
	}
	if !called {
		j.takenBack(after.Index, h)
		return
	}
	j.w.stats.check("release")
	g := j.tokens[h.Token]
	g.given = true
	j.tokens[h.Token] = g
	if why, no := j.untouched[who]; no {
		j.w.fail("entry %d: token %d at %s is released; the only call to do so was answered with %s", after.Index, h.Token, h.Path, why)
	}
	for _, u := range j.w.users {
		if u.counts(h.Path) && u.held.Token() == h.Token {
			j.w.fail("entry %d: token %d at %s is released, but %s still works under it", after.Index, h.Token, h.Path, u.name)
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

func (j *judge) office(after *state.State) {
	j.w.stats.Offices++
	if who := j.early[after.Office.Term]; who != "" {
		j.w.fail("entry %d: %s opens an office that it was ready for while %s held a valid lease", after.Index, after.Office.Master, who)
	}
	now := j.w.now()
	for l := range after.Locks("", "") {
		if l.DelayID != 0 { // a new office restarts each lock-delay
			j.delays[l.Path] = now + time.Duration(l.DelayMS)*time.Millisecond
		}
	}
}

// granted checks a grant in a result or an event.
func (j *judge) granted(after *state.State, h *state.Hold) {
	if _, known := j.tokens[h.Token]; known {
		return
	}
	j.w.stats.check("grant")
	who := pair{h.Session, h.Path, h.Handle}
	j.tokens[h.Token] = grant{hold: h, index: after.Index}
	if until := j.delays[h.Path]; j.w.now() < until {
		j.w.fail("entry %d: %s is granted %v before its lock-delay is over", after.Index, h.Path, until-j.w.now())
	}
	if why, no := j.refused[who]; no {
		j.w.fail("entry %d: %s is granted to %s/%s, which got %s", after.Index, h.Path, h.Session, h.Handle, why)
	}
}

func (j *judge) change(after *state.State, c state.Change) {
	switch c := c.(type) {
	case state.Released:
		g := j.tokens[c.Hold.Token]
		g.freed = after.Index
		j.tokens[c.Hold.Token] = g
	case state.SessionOpened:
		j.signs[c.Session.ID] = j.w.now()
	case state.SessionEnded:
		j.ended[c.Session.ID] = end{after.Index, c.Expired}
		if c.Expired {
			j.expired(after, c.Session.ID)
		}
	case state.DelayBegan:
		j.delays[c.Path] = max(j.delays[c.Path], j.w.now()+time.Duration(c.MS)*time.Millisecond)
	}
}

// expired checks that no client counts on an expired session.
func (j *judge) expired(after *state.State, id string) {
	j.w.stats.check("expiry")
	for _, u := range j.w.users {
		if left, ok := u.remaining(id); ok && left > 0 {
			j.w.fail("entry %d: session %s of %s expires, but its client counts on it for another %v", after.Index, id, u.name, left)
		}
		if h := u.held; h != nil && u.session != nil && u.session.ID() == id && u.counts(h.Path()) {
			j.w.fail("entry %d: session %s of %s expires, but its work at %s continues", after.Index, id, u.name, h.Path())
		}
	}
}
