package master

import (
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// A transaction reserves the room for what it may write, and for its answer where
// that is remembered, before it is proposed, and keeps that until it is answered.
//
// Calls under one key that are the same call share one room, and one whose answer
// is remembered needs none: a repeated call is never refused.
//
// An answer takes the place of the oldest where the session has as many as are
// remembered, so that a session that only overwrites its files needs no more room.
// What only deletes and releases is not refused for its answer's sake: it is what
// makes room.
//
// Deletions give no credit for what is written beside them. The files may be gone
// before the transaction's turn comes, or be made anew by a call that needed no
// room since they were there when it asked.

// keyedCall names the calls that are one: those of a session under one key with the
// same digest.
type keyedCall struct{ session, key, digest string }

// room is what calls under way have taken.
type room struct {
	calls   int
	files   map[string]int64 // bytes of content by path
	choice  *choice          // in place of files, where both branches write
	session string           // of the answer; empty for none that is remembered
	answer  usage
}

// reserveTransaction takes the room for what a transaction may add. leave is to be
// called when it is answered, unless there is no room, which err says.
func (a *accounting) reserveTransaction(op *state.Transaction) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := keyedCall{op.Session, op.Key, string(op.Digest)}
	r := a.keyed[name]
	if r == nil {
		s := a.log.State()
		fresh, e := a.makeRoom(s, op)
		if e != nil {
			if _, again := s.Answer(op.Session, op.Key); again && op.Key != "" {
				return func() {}, nil
			}
			return nil, a.refuse(e)
		}
		r = fresh
		a.enterRoom(r)
		if op.Key != "" {
			a.keyed[name] = r
		}
	}
	r.calls++
	return func() { a.leaveRoom(name, r) }, nil
}

// makeRoom finds the room that a transaction needs. a.mu is held.
func (a *accounting) makeRoom(s *state.State, op *state.Transaction) (*room, *exceeded) {
	r, f := &room{}, &a.files
	var more usage
	then, other := f.needs(op.Then), f.needs(op.Else)
	switch {
	case len(then) > 0 && len(other) > 0:
		r.choice = newChoice(f, then, other)
		more = r.choice.usage()
	case len(then) > 0:
		r.files = then
	default:
		r.files = other
	}
	for path, content := range r.files {
		more.add(f.more(path, content), 1)
	}
	if op.Key == "" {
		return r, a.exceeds(nil, more)
	}
	if own := a.session(s, op.Session); own != nil { // else the log will tell
		r.session, r.answer = op.Session, a.answerRoom(s, own, op)
		if !makesRoom(op) {
			if e := a.exceeds(own, r.answer); e != nil {
				return nil, e
			}
			more.add(r.answer, 1)
		}
	}
	return r, a.exceeds(nil, more)
}

// enterRoom counts a room, and leaveRoom ends a call's part in it. With the last one
// it is not counted any more.
func (a *accounting) enterRoom(r *room) {
	for path, content := range r.files {
		a.recount(path, func() { a.files.enter(path, content) })
	}
	if r.choice != nil {
		a.choose(r.choice)
	}
	a.countAnswering(r, 1)
}

func (a *accounting) leaveRoom(name keyedCall, r *room) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.calls--; r.calls > 0 {
		return
	}
	if name.key != "" {
		delete(a.keyed, name)
	}
	for path := range r.files {
		a.recount(path, func() { a.files.leave(path) })
	}
	if r.choice != nil {
		a.chosen(r.choice)
	}
	a.countAnswering(r, -1)
}

func (a *accounting) countAnswering(r *room, times int) {
	if r.session == "" {
		return
	}
	a.add(r.session, r.answer, int64(times))
	if own := a.sessions[r.session]; own != nil {
		own.answering += times
	}
}

// answerRoom is what the answer to a keyed call may take, besides the one that is
// forgotten for it. That is the smallest of those that it may be: of the calls
// under way not all come to an answer that is remembered, and some have it already.
// a.mu is held.
func (a *accounting) answerRoom(s *state.State, own *sessionUse, op *state.Transaction) usage {
	u := a.answerMost(s, op)
	all := s.Answers(op.Session)
	if all.Len() < state.MostAnswers {
		return u
	}
	forgotten := answerUsage(all.At(0)).bytes
	for i := range min(own.answering, all.Len()-1) {
		forgotten = min(forgotten, answerUsage(all.At(i+1)).bytes)
	}
	u.bytes = max(0, u.bytes-forgotten)
	return u
}

// answerMost is the most that the answer to a transaction may take. Contents count
// as long as they are now, or may become by calls that are under way.
func (a *accounting) answerMost(s *state.State, op *state.Transaction) usage {
	most := 0
	for _, q := range op.Guards {
		most = max(most, toldUsage(q.Path, 0))
	}
	for _, branch := range [][]state.Step{op.Then, op.Else} {
		all, contents := 0, 0
		for i, step := range branch {
			done, content := a.stepMost(step, branch[:i])
			all, contents = all+done, contents+content
			most = max(most, a.failureMost(s, step))
		}
		most = max(most, all+min(contents, lockapi.MaxRememberedAnswer))
	}
	return usage{bytes: int64(answerBytes + len(op.Key) + most)}
}

// stepMost is the most that a step's part of an answer takes, and the content in
// it, which may be that of a step before.
func (a *accounting) stepMost(step state.Step, before []state.Step) (n, content int) {
	switch step := step.(type) {
	case *state.Write:
		return toldUsage(step.Path, state.SequenceDigits), 0
	case *state.Get:
		return toldUsage(step.Path, 0), int(max(a.files.longest(step.Path), written(before, step.Path)))
	case *state.Take:
		return toldUsage(step.Path, len(step.Handle)), 0
	}
	return stepBytes, 0
}

// written is the most content that steps may write to a path. A sequential file may
// come to have it for its name.
func written(steps []state.Step, path string) int64 {
	most := 0
	for _, step := range steps {
		w, ok := step.(*state.Write)
		if !ok {
			continue
		}
		rest, below := strings.CutPrefix(path, w.Path)
		if below && (rest == "" || w.Sequential && len(rest) == state.SequenceDigits) {
			most = max(most, len(w.Content))
		}
	}
	return int64(most)
}

// failureMost is the most that is told of what stands in a step's way.
func (a *accounting) failureMost(s *state.State, step state.Step) int {
	switch step := step.(type) {
	case *state.Write:
		if step.Tell {
			return toldUsage(step.Path, int(min(a.files.longest(step.Path), lockapi.MaxRememberedAnswer)))
		}
		return toldUsage(step.Path, state.SequenceDigits)
	case *state.Delete:
		return toldUsage(step.Path, 0)
	case *state.Take:
		n, told := toldBytes, 0
		for h := range s.Holders(step.Path) {
			if told++; told > state.MaxStandingHolders {
				break
			}
			v, _ := s.Session(h.Session)
			n += holdingUsage(v.Name, h.Handle)
		}
		return n
	}
	return 0
}

// makesRoom says that a transaction does nothing but delete and release.
func makesRoom(op *state.Transaction) bool {
	for _, branch := range [][]state.Step{op.Then, op.Else} {
		for _, step := range branch {
			switch step.(type) {
			case *state.Delete, *state.DeleteBelow, *state.Free:
			default:
				return false
			}
		}
	}
	return len(op.Then)+len(op.Else) > 0
}
