package master

import (
	"sync"

	"github.com/stoutlock/stout/replica/state"
)

// accounting knows, without a walk of the state, what is used of the quotas.
//
// A new office counts what the state holds. From then on it follows the changes
// that the log makes, all those of an entry at once, and before any call is
// woken by them. What calls under way may add is in it, too (reservations.go),
// so that it is never below what the state will come to.
//
// Its mutex guards the fields below it. No other mutex is taken while it is
// held; the state is read under it, so that none of the changes in that state
// can be counted while a call looks.
type accounting struct {
	quotas  *Quotas
	refused *refusals
	log     Log

	mu       sync.Mutex
	cell     usage
	sessions map[string]*sessionUse
	delays   map[string]bool // paths whose lock-delay is counted
	claims   map[claimKey]*reservation
	openings map[opening]*reservation
	files    fileRooms
	keyed    map[keyedCall]*room

	policy int64 // bytes of the rules and groups that are counted
	ruling int   // rules that calls under way may put
}

// sessionUse is what a session uses: its own bytes, its claims, the answers that
// are remembered, and what calls under way may add.
type sessionUse struct {
	usage
	answers   int64 // bytes of those that are remembered
	answering int   // keyed calls under way
}

func newAccounting(o *Options, refused *refusals, log Log) *accounting {
	return &accounting{quotas: &o.Quotas, refused: refused, log: log, sessions: map[string]*sessionUse{},
		delays: map[string]bool{}, claims: map[claimKey]*reservation{}, openings: map[opening]*reservation{}, files: newFileRooms(),
		keyed: map[keyedCall]*room{}}
}

// count counts a state. It is the first that happens to an accounting.
func (a *accounting) count(s *state.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for v := range s.Sessions("") {
		a.sessionOpened(v)
		for answer := range s.Answers(v.ID).All() {
			a.answered(v.ID, answer, 1)
		}
	}
	for h := range s.Holds() {
		a.claimed(holdKey(h), false)
	}
	for w := range s.Waits() {
		a.claimed(waitKey(w), true)
	}
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			a.delayBegan(l.Path)
		}
	}
	for f := range s.Files("", "") {
		a.fileIs(f)
	}
	a.policyIs(s.Policy().Size())
}

// follow counts what one entry did.
func (a *accounting) follow(changes []state.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		a.changed(c)
	}
}

// changed counts one change. a.mu is held.
func (a *accounting) changed(c state.Change) {
	switch c := c.(type) {
	case state.SessionOpened:
		a.sessionOpened(c.Session)
	case state.SessionEnded:
		a.sessionEnded(c.Session)
	case state.Granted:
		if c.Wait != nil {
			a.waitEnded(holdKey(c.Hold))
		} else {
			a.claimed(holdKey(c.Hold), false)
		}
	case state.Enqueued:
		a.claimed(waitKey(c.Wait), true)
	case state.Withdrawn:
		a.claimEnded(waitKey(c.Wait))
		a.waitEnded(waitKey(c.Wait))
	case state.Released:
		a.claimEnded(holdKey(c.Hold))
	case state.DelayBegan:
		a.delayBegan(c.Path)
	case state.DelayEnded:
		a.delayEnded(c.Path)
	case state.FileChanged:
		a.fileIs(c.File)
	case state.FileDeleted:
		a.fileGone(c.File)
	case state.AccessChanged:
		a.policyIs(a.log.State().Policy().Size()) // which may be a later one's already
	case state.Answered:
		a.answered(c.Session, c.Answer, 1)
		if c.Forgotten != nil {
			a.answered(c.Session, c.Forgotten, -1)
		}
	}
}

// session is what a session uses, nil where it does not live. The accounting
// may not have been told of one that s has. a.mu is held.
func (a *accounting) session(s *state.State, id string) *sessionUse {
	if a.sessions[id] == nil {
		if v, lives := s.Session(id); lives {
			a.addSession(v)
		}
	}
	return a.sessions[id]
}

// addSession begins to count for a session, unless that is done already. a.mu
// is held.
func (a *accounting) addSession(v *state.Session) {
	if a.sessions[v.ID] == nil {
		a.sessions[v.ID] = &sessionUse{usage: usage{bytes: usageOf(v).bytes}}
	}
}

// answered counts an answer that is remembered, or ceases to. a.mu is held.
func (a *accounting) answered(session string, answer *state.Answer, times int64) {
	u := answerUsage(answer)
	a.add(session, u, times)
	if own := a.sessions[session]; own != nil {
		own.answers += times * u.bytes
	}
}

// add counts what a session's claims use, or ceases to. a.mu is held.
func (a *accounting) add(session string, u usage, times int64) {
	a.cell.add(u, times)
	if own := a.sessions[session]; own != nil {
		own.add(u, times)
	}
}

// delayBegan counts a lock-delay, unless it covers one that is counted already.
// a.mu is held.
func (a *accounting) delayBegan(path string) {
	if !a.delays[path] {
		a.delays[path] = true
		a.cell.add(delayUsage(path), 1)
	}
}

// delayEnded ceases to count a lock-delay. a.mu is held.
func (a *accounting) delayEnded(path string) {
	if a.delays[path] {
		delete(a.delays, path)
		a.cell.add(delayUsage(path), -1)
	}
}

// exceeded is a quota that leaves no room.
type exceeded struct {
	kind               quotaKind
	most, used, wanted int64
}

// exceeds is nil where the cell, and the session that uses own, have room for
// more. own is nil for what is no session's. a.mu is held.
func (a *accounting) exceeds(own *sessionUse, more usage) *exceeded {
	for k := range quotaKinds {
		used := &a.cell
		if !k.ofCell() {
			if own == nil {
				continue
			}
			used = &own.usage
		}
		most, wanted := a.quotas.of(k), more.of(k)
		if most > 0 && wanted > 0 && used.of(k)+wanted > most {
			return &exceeded{k, most, used.of(k), wanted}
		}
	}
	return nil
}

// refuse is the answer to a call that found no room.
func (a *accounting) refuse(e *exceeded) error {
	a.refused[e.kind].Add(1)
	return errTooMany(e.kind, e.most, e.used, e.wanted)
}

// ofCell is what the whole cell uses.
func (a *accounting) ofCell() usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cell
}

// claimsOf is how many claims a session has, with those that calls may make.
func (a *accounting) claimsOf(session string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.sessions[session]; own != nil {
		return own.holds
	}
	return 0
}
