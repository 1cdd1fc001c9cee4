package simcell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle checks answers to clients against the committed log here.

// floor returns the index of the latest entry with a reported effect: a call
// that begins now must see it. Committed entries that were not reported need
// not be seen yet.
func (o *oracle) floor() uint64 {
	o.look()
	return o.reported
}

// acquired checks a grant reported to a client. It may have ended since, but
// not before the call began.
func (o *oracle) acquired(who string, floor uint64, p pair, token uint64) {
	o.checks("reported grant")
	g, ok := o.tokens[token]
	switch {
	case !ok || g.hold.Path != p.path || g.hold.Session != p.session || g.hold.Handle != p.handle:
		o.w.fail("%s got the answer that %s/%s holds %s with token %d; the log does not have it", who, p.session, p.handle, p.path, token)
	case g.revoked:
		o.w.fail("%s got the answer that %s/%s holds %s with token %d; entry %d revoked that grant", who, p.session, p.handle, p.path, token, g.freed)
	case g.freed != 0 && g.freed <= floor:
		o.w.fail("%s got the answer that %s/%s holds %s with token %d; that ended with entry %d, before its call", who, p.session, p.handle, p.path, token, g.freed)
	}
	o.known[token] = who
	o.reported = max(o.reported, g.index)
}

// released checks a release reported to a client.
func (o *oracle) released(who string, token uint64) {
	o.checks("reported release")
	g := o.tokens[token]
	if g.freed == 0 {
		o.w.fail("%s got the answer that the hold with token %d is released; it still exists", who, token)
	}
	o.reported = max(o.reported, g.freed)
}

// gaveBack checks the answer to a call that releases a grant. Only a release or
// the end of the session ends a grant that its holder knows. So the first
// release finds it, and no call releases a grant that ended before the call.
func (o *oracle) gaveBack(who string, floor, token uint64, released, first bool) {
	o.look()
	h, freed := o.tokens[token].hold, o.tokens[token].freed
	first = first && (h == nil || !o.copies[pair{h.Session, h.Path, h.Handle}])
	switch {
	case !released && first:
		o.w.fail("%s got the answer that token %d has nothing to release, from the first call to release it; it ended with entry %d", who, token, freed)
	case released && freed != 0 && freed <= floor:
		o.w.fail("%s got the answer that its call released token %d; that had ended with entry %d", who, token, freed)
	case released:
		o.released(who, token)
	}
}

// kept checks the answer that the first call to release a grant had no effect.
func (o *oracle) kept(who string, p pair, token uint64, why string) {
	o.checks("reported failure to release")
	if o.copies[p] {
		return
	}
	o.untouched[p] = why
	if g := o.tokens[token]; g.given {
		o.w.fail("%s got %s from the first call to release token %d, which entry %d released", who, why, token, g.freed)
	}
}

// obstructed checks a refusal because of an obstacle at one of the locks: it must
// have existed at some moment since the call began.
func (o *oracle) obstructed(who string, floor uint64, q *lockapi.LockRequest, why string, paths ...string) {
	o.checks("reported obstacle")
	mode := state.Exclusive
	if q.Mode == lockapi.Shared {
		mode = state.Shared
	}
	if o.since(floor, func(s *state.State) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return !toBeHad(s, path, mode, q.Limit, q.Priority) })
	}) {
		return
	}
	inside := func(path string) bool { return o.occupied[path] > floor } // it may have existed in the middle of an entry
	if !slices.ContainsFunc(paths, inside) {
		o.w.fail("%s got: %s; since before its call the lock was available (entry %d)", who, why, floor)
	}
}

// toBeHad reports whether a session without a hold or wait would be granted a lock at
// once. A request passes the waits of lower priority.
func toBeHad(s *state.State, path string, mode state.Mode, limit, priority int64) bool {
	l, ok := s.Lock(path)
	if !ok || l.Free() {
		return true
	}
	together := mode == state.Shared && l.Mode == state.Shared && l.Limit == limit && (limit == 0 || int64(l.Holders) < limit)
	waiters := l.Waiters
	if priority > 0 && s.QueuesByPriority() {
		waiters = 0
		for w := range s.Queue(path) {
			if int64(w.Priority) >= priority {
				waiters++
			}
		}
	}
	return l.DelayID == 0 && waiters == 0 && (l.Holders == 0 || together)
}

// reopened checks a session that was opened again with its key. The key returns
// the same session while that lives, and never one that had ended before the
// call.
func (o *oracle) reopened(who string, floor uint64, first, again string) {
	o.checks("opening repeated")
	if _, gone := o.ended[first]; !gone && first != again {
		o.w.fail("%s opened session %s, and %s under the same key while the first lives", who, first, again)
	}
	if e, gone := o.ended[again]; gone && e.index <= floor {
		o.w.fail("%s got session %s under its key, which had ended with entry %d", who, again, e.index)
	}
}

// closed checks the answer that a session is closed.
func (o *oracle) closed(who, session string) {
	o.checks("reported closing")
	e, gone := o.ended[session]
	if !gone {
		o.w.fail("%s got the answer that session %s is closed; it lives", who, session)
	}
	o.reported = max(o.reported, e.index)
}

// hadNoEffect checks the answer that an acquire with a handle of its own had no
// effect. It must not have one later either.
func (o *oracle) hadNoEffect(who string, p pair, why string) {
	o.checks("reported lack of effect")
	if o.copies[p] {
		return
	}
	o.refused[p] = why
	for token, g := range o.tokens {
		if g.hold.Session == p.session && g.hold.Path == p.path && g.hold.Handle == p.handle {
			o.w.fail("%s got %s for %s/%s at %s, which was granted with token %d by entry %d", who, why, p.session, p.handle, p.path, token, g.index)
		}
	}
}

// read checks that a lock was as the client read it at some moment since its
// call began.
func (o *oracle) read(who string, floor uint64, got lockapi.Lock) {
	o.checks("read")
	want := shape(got)
	if !o.since(floor, func(s *state.State) bool { return shapeOf(s, got.Path) == want }) {
		o.w.fail("%s read %s as %s, which was never so since before the call (entry %d); now it is %s",
			who, got.Path, want, floor, shapeOf(o.latest(), got.Path))
	}
}

// checked checks that the answer about a sequencer was true since the call
// began.
func (o *oracle) checked(who string, floor uint64, path string, token uint64, valid bool) {
	o.checks("sequencer")
	holds := func(s *state.State) bool { _, held := s.HoldByToken(path, token); return held == valid }
	if !o.since(floor, holds) {
		o.w.fail("%s got the answer that token %d at %s is valid: %v, which was never so since before the call", who, token, path, valid)
	}
}

// since reports whether something held after an entry or a later one. The first
// such entry counts as reported.
func (o *oracle) since(floor uint64, holds func(*state.State) bool) bool {
	for floor > 0 && o.history[floor] == nil {
		floor--
	}
	for i, s := range o.history[floor:] {
		if s != nil && holds(s) {
			o.reported = max(o.reported, floor+uint64(i))
			return true
		}
	}
	return false
}

// byForce reports whether an operator has ended the session. Its client may not
// know yet.
func (o *oracle) byForce(s *client.Session) bool {
	if s == nil {
		return false
	}
	e, gone := o.ended[s.ID()]
	return gone && !e.expired
}

// lost checks the answer that a session does not exist.
func (o *oracle) lost(who, session string) {
	o.checks("reported end of a session")
	if _, lives := o.latest().Session(session); lives {
		o.w.fail("%s got the answer that session %s is gone; it lives", who, session)
	}
}

func (o *oracle) latest() *state.State {
	for i := len(o.history) - 1; ; i-- {
		if o.history[i] != nil {
			return o.history[i]
		}
	}
}

// shape describes what a read shows of a lock, without times.
func shape(l lockapi.Lock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s with %d waiters", l.State, l.Waiters)
	for _, h := range l.Holders {
		fmt.Fprintf(&b, ", %s/%s %s %d", h.Session, h.Handle, h.Mode, h.Token)
	}
	return b.String()
}

func shapeOf(s *state.State, path string) string {
	out := lockapi.Lock{Path: path, State: lockapi.StateFree}
	l, ok := s.Lock(path)
	if ok {
		out.Waiters = l.Waiters
		if l.DelayID != 0 {
			out.State = lockapi.StateDelayed
		}
		if l.Holders > 0 {
			out.State = lockapi.StateHeld
		}
	}
	for h := range s.Holders(path) {
		mode := lockapi.Exclusive
		if h.Mode == state.Shared {
			mode = lockapi.Shared
		}
		out.Holders = append(out.Holders, lockapi.Holder{Session: h.Session, Handle: h.Handle, Mode: mode, Token: h.Token})
	}
	return shape(out)
}

// short describes an operation or a result briefly.
func short(v any) string {
	switch v := v.(type) {
	case *state.OpenOffice:
		return fmt.Sprintf("by %s for term %d", v.Master, v.Term)
	case *state.Release:
		return fmt.Sprintf("%v token %d", about(v), v.Token)
	case *state.Transaction:
		return fmt.Sprintf("of %.4s, key %q, guards %v, if %s then %s else %s", v.Session, v.Key, v.Guards, partsOf(v.If), partsOf(v.Then), partsOf(v.Else))
	case state.TransactionResult:
		return fmt.Sprintf("%v succeeded %v revision %d replayed %v", v.Verdict, v.Succeeded, v.Revision, v.Replayed)
	case *state.ChangeKeys:
		return partsOf(v.Steps)
	case *state.Withdraw:
		return fmt.Sprintf("%v place %d undo %v", about(v), v.Seq, v.Undo)
	case *state.EndDelay:
		return fmt.Sprintf("at %s number %d", v.Path, v.ID)
	case *state.PutRule:
		return fmt.Sprintf("at %s %v", v.Rule.Path, v.Rule.Lists)
	case *state.PutGroup:
		return fmt.Sprint(v.Group)
	case *state.DropRule, *state.DropRules, *state.DropToken, *state.AdoptSession, *state.Expel:
		return fmt.Sprint(v)
	case *state.AddToken:
		return fmt.Sprintf("%s of %s until %d", v.Token.ID, v.Token.Principal, v.Token.ExpiresAt)
	case state.Operation:
		return fmt.Sprint(about(v))
	case state.AcquireResult:
		text := v.Verdict.String()
		if v.Hold != nil {
			text += fmt.Sprintf(" token %d", v.Hold.Token)
		}
		if v.Wait != nil {
			text += fmt.Sprintf(" place %d", v.Wait.Seq)
		}
		return text
	case state.SessionResult:
		return v.Verdict.String()
	case state.TokenResult:
		return v.Verdict.String()
	case nil:
		return "refused"
	}
	return fmt.Sprint(v)
}

// partsOf describes conditions or steps.
func partsOf[T any](all []T) string {
	var text strings.Builder
	for _, one := range all {
		if w, ok := any(one).(*state.Write); ok {
			fmt.Fprintf(&text, "[write %s %q when %d %d owner %d]", w.Path, w.Content, w.When, w.Revision, w.Owner)
			continue
		}
		fmt.Fprintf(&text, "[%T %+v]", one, one)
	}
	return text.String()
}

// about returns the session, path and handle of an operation, as far as it has
// them.
func about(op state.Operation) pair {
	switch op := op.(type) {
	case *state.OpenSession:
		return pair{session: op.Session}
	case *state.CloseSession:
		return pair{session: op.Session}
	case *state.ExpireSession:
		return pair{session: op.Session}
	case *state.Acquire:
		return pair{op.Session, op.Path, op.Handle}
	case *state.Release:
		return pair{op.Session, op.Path, op.Handle}
	case *state.Withdraw:
		return pair{op.Session, op.Path, op.Handle}
	}
	return pair{}
}

// describe describes a batch for the trace.
func describe(b state.Batch, out state.Outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "epoch %d, lease %d ms", b.Epoch, b.LeaseMS)
	if !out.Accepted {
		text.WriteString(", NOT ACCEPTED")
	}
	for i, c := range b.Commands {
		fmt.Fprintf(&text, "; %s %s → %s", state.Name(c.Operation), short(c.Operation), short(out.Results[i]))
	}
	for _, c := range out.Changes {
		switch c := c.(type) {
		case state.Granted:
			fmt.Fprintf(&text, "; granted token %d to %.4s/%s", c.Hold.Token, c.Hold.Session, c.Hold.Handle)
		case state.Released:
			fmt.Fprintf(&text, "; released token %d of %.4s/%s", c.Hold.Token, c.Hold.Session, c.Hold.Handle)
		case state.FileChanged:
			fmt.Fprintf(&text, "; %s revision %d generation %d owner %.4s", c.File.Path, c.File.Revision, c.File.Generation, c.File.Session)
		case state.FileDeleted:
			fmt.Fprintf(&text, "; %s deleted by revision %d", c.File.Path, c.Revision)
		case state.SessionEnded:
			fmt.Fprintf(&text, "; ended %.4s expired %v", c.Session.ID, c.Expired)
		}
	}
	return text.String()
}
