package simcell

import (
	"cmp"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// What has to hold of each step of the committed state.

// transition checks one step of the committed state.
func (j *judge) transition(before, after *state.State, b state.Batch, out state.Outcome) {
	j.w.stats.check("transition")
	if err := after.Check(); err != nil {
		j.w.fail("after entry %d: %v", after.Index, err)
	}
	if after.Epoch != before.Epoch {
		j.office(before, after)
	}
	for _, r := range out.Results {
		if r, ok := r.(state.AcquireResult); ok && r.Wait != nil {
			j.claimed[r.Wait.Path] = after.Index
		}
	}
	for _, h := range grants(out) {
		j.claimed[h.Path] = after.Index
		j.granted(before, after, out, h)
	}
	for _, c := range out.Changes {
		j.change(after, c)
	}
	for _, c := range out.Changes {
		if r, ok := c.(state.Released); ok {
			j.cause(after, b, r.Hold)
		}
	}
	j.releases(before, b)
}

// releases: a release that names a token ends no other grant.
func (j *judge) releases(before *state.State, b state.Batch) {
	for i := range b.Commands {
		c, ok := b.Commands[i].Operation.(*state.Release)
		if !ok || c.Token == 0 || len(b.Commands) != 1 {
			continue
		}
		hold, _ := before.Claim(c.Session, c.Path, c.Handle)
		if hold == nil || hold.Token == c.Token {
			continue
		}
		j.w.stats.check("late release")
		if j.tokens[hold.Token].freed != 0 {
			j.w.fail("a release of token %d ends the hold with token %d of %s/%s at %s", c.Token, hold.Token, c.Session, c.Handle, c.Path)
		}
	}
}

// cause checks the end of a hold against what ended it.
func (j *judge) cause(after *state.State, b state.Batch, h *state.Hold) {
	var released, withdrawn, ended bool
	who := pair{h.Session, h.Path, h.Handle}
	for i := range b.Commands {
		p := about(b.Commands[i].Operation)
		switch op := b.Commands[i].Operation.(type) {
		case *state.Transaction:
			released = released || frees(op, who)
		case *state.Release:
			released = released || p == who
		case *state.Withdraw:
			withdrawn = withdrawn || p == who
		case *state.ExpireSession:
			if p.session == h.Session && !released && !withdrawn && !ended && h.DelayMS > 0 {
				j.w.stats.check("lock-delay")
				j.delays[h.Path] = max(j.delays[h.Path], j.w.now()+time.Duration(h.DelayMS)*time.Millisecond)
			}
			ended = ended || p.session == h.Session
		case *state.CloseSession:
			ended = ended || p.session == h.Session
		}
	}
	switch {
	case ended:
	case released:
		j.w.stats.check("release")
		g := j.tokens[h.Token]
		g.given = true
		j.tokens[h.Token] = g
		if why, no := j.untouched[pair{h.Session, h.Path, h.Handle}]; no {
			j.w.fail("entry %d: token %d at %s is released; the only call to do so was answered with %s", after.Index, h.Token, h.Path, why)
		}
		for _, u := range j.w.users {
			if u.counts(h.Path) && u.held.Token() == h.Token {
				j.w.fail("entry %d: token %d at %s is released, and %s works under it yet", after.Index, h.Token, h.Path, u.name)
			}
		}
	case withdrawn:
		j.takenBack(after.Index, h)
	default:
		j.w.fail("entry %d: the hold with token %d of %s/%s at %s ends, and no command in it says so", after.Index, h.Token, h.Session, h.Handle, h.Path)
	}
}

// frees reports whether a transaction may release what a pair holds.
func frees(op *state.Transaction, who pair) bool {
	return slices.ContainsFunc(slices.Concat(op.Then, op.Else), func(step state.Step) bool {
		f, ok := step.(*state.Free)
		return ok && who == pair{op.Session, f.Path, f.Handle}
	})
}

// grants are those that a batch made or told of, in the order of their tokens.
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

func (j *judge) office(before, after *state.State) {
	j.w.stats.Offices++
	if after.Epoch != before.Epoch+1 || !after.Office.Open {
		j.w.fail("entry %d: epoch %d follows %d", after.Index, after.Epoch, before.Epoch)
	}
	if who := j.early[after.Office.Term]; who != "" {
		j.w.fail("entry %d: %s opens an office, for which it was ready while %s held a valid lease", after.Index, after.Office.Master, who)
	}
	now := j.w.now()
	for l := range after.Locks("", "") {
		if l.DelayID != 0 { // a new office starts each lock-delay anew
			j.delays[l.Path] = now + time.Duration(l.DelayMS)*time.Millisecond
		}
	}
}

// granted checks a grant that is told of in a result or an event.
func (j *judge) granted(before, after *state.State, out state.Outcome, h *state.Hold) {
	if known, ok := j.tokens[h.Token]; ok {
		if known.freed != 0 || *known.hold != *h {
			j.w.fail("entry %d: token %d is granted to %s/%s at %s; it was %s/%s's at %s from entry %d to %d",
				after.Index, h.Token, h.Session, h.Handle, h.Path, known.hold.Session, known.hold.Handle, known.hold.Path, known.index, known.freed)
		}
		return
	}
	j.w.stats.check("grant")
	who := pair{h.Session, h.Path, h.Handle}
	if other := j.tokens[j.holds[who]]; other.hold != nil && other.freed == 0 && !ends(out, other.hold.Token) {
		j.w.fail("entry %d: %s/%s gets %s with token %d, and holds it with token %d", after.Index, h.Session, h.Handle, h.Path, h.Token, other.hold.Token)
	}
	j.tokens[h.Token], j.holds[who] = grant{hold: h, index: after.Index}, h.Token
	if h.Token <= j.top {
		j.w.fail("entry %d: token %d is granted after %d", after.Index, h.Token, j.top)
	}
	j.top = h.Token
	if e, gone := j.ended[h.Session]; gone {
		j.w.fail("entry %d: %s is granted to session %s, which ended with entry %d", after.Index, h.Path, h.Session, e.index)
	}
	if until := j.delays[h.Path]; j.w.now() < until {
		j.w.fail("entry %d: %s is granted %v before its lock-delay is over", after.Index, h.Path, until-j.w.now())
	}
	if why, no := j.refused[who]; no {
		j.w.fail("entry %d: %s is granted to %s/%s, which was told %s", after.Index, h.Path, h.Session, h.Handle, why)
	}
	j.queueOrder(before, after, h)
}

// ends reports whether a batch has ended the grant with a token.
func ends(out state.Outcome, token uint64) bool {
	return slices.ContainsFunc(out.Changes, func(c state.Change) bool {
		r, ok := c.(state.Released)
		return ok && r.Hold.Token == token
	})
}

// queueOrder: nobody who came earlier is left behind.
func (j *judge) queueOrder(before, after *state.State, h *state.Hold) {
	for w := range before.Queue(h.Path) {
		if h.WaitSeq != 0 && w.Seq >= h.WaitSeq {
			return
		}
		if _, still := after.Claim(w.Session, w.Path, w.Handle); still != nil && still.Seq == w.Seq {
			j.w.fail("entry %d: %s is granted to place %d although place %d came earlier and waits", after.Index, h.Path, h.WaitSeq, w.Seq)
			return
		}
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

// expired: no client counts on the session any more.
func (j *judge) expired(after *state.State, id string) {
	j.w.stats.check("expiry")
	for _, u := range j.w.users {
		if left, ok := u.remaining(id); ok && left > 0 {
			j.w.fail("entry %d: session %s of %s expires, whose client counts on it for another %v", after.Index, id, u.name, left)
		}
		if h := u.held; h != nil && u.session != nil && u.session.ID() == id && u.counts(h.Path()) {
			j.w.fail("entry %d: session %s of %s expires, whose work at %s goes on", after.Index, id, u.name, h.Path())
		}
	}
}
