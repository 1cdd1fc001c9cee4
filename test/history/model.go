package history

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// stepKind is a kind of step of a lock in the model.
type stepKind int

const (
	grant       stepKind = iota // the pair is granted token; 0 for one that no answer showed
	confirm                     // an answer shows that the pair holds token
	refuse                      // the pair is refused at once
	place                       // the pair gets its queue position, which lasts until it is granted or released
	leave                       // the pair stops waiting without a grant
	revoke                      // the pair's hold is revoked, if no answer reported its grant
	release                     // the pair's hold ends, or its queue position if queued allows for one
	releaseNone                 // the pair has nothing to release
	gone                        // a call finds that the session has ended
	read                        // a read shows the holders
	valid                       // token is valid
	invalid                     // token is not valid
	closing                     // the session ends, without lock-delays
	expiry                      // the session ends, and lock-delays begin
	delayOver                   // the lock-delay of the pair's hold is over
	end                         // the record ends: possible effects that have not happened never will
)

// step is one step, as porcupine's input. There is no output: the answer
// decides the kind.
type step struct {
	kind    stepKind
	maybe   bool // it may have happened, or not
	session string
	who     string
	mode    lockapi.Mode
	limit   int64
	token   uint64
	delay   bool // the hold causes a lock-delay if its session expires
	untold  bool // grant: it may be revoked
	queued  bool // release: the pair may have a queue position; refuse: others may wait; grant: to a queue position only
	state   string
	holders []holder
}

func (s *step) optional() bool { return s.maybe }

// holder is a hold as a read shows it.
type holder struct {
	who   string
	token uint64
	mode  lockapi.Mode
}

// hold is a hold in the model.
type hold struct {
	holder
	session string
	delay   bool
	untold  bool
}

// lock is the state of the model. Values are immutable.
type lock struct {
	holds   []hold   // sorted by pair
	delayed []string // pairs with a running lock-delay after their session's expiry
	ended   []string // sessions
	placed  []string // pairs that know their queue position
	last    uint64   // highest token granted
	over    bool     // the record has ended
}

// model models one lock and the sessions involved.
var model = porcupine.Model{
	Init: func() any { return &lock{} },
	Step: func(state, in, _ any) (bool, any) {
		next := state.(*lock).step(in.(*step))
		if next == nil {
			return false, state
		}
		return true, next
	},
	Equal:             func(a, b any) bool { return a.(*lock).equal(b.(*lock)) },
	Hash:              func(s any) uint64 { return s.(*lock).hash() },
	DescribeOperation: func(in, _ any) string { return in.(*step).String() },
	DescribeState:     func(s any) string { return s.(*lock).String() },
}

// step returns the lock after s, or nil if s cannot happen. An uncertain step
// happens where it changes something. Otherwise it is put off until the record
// has ended, so that steps without effect do not multiply the orders to try.
func (l *lock) step(s *step) *lock {
	switch {
	case s.kind == end:
		n := *l
		n.over = true
		return &n
	case !s.maybe:
		return l.certain(s)
	case l.over:
		return l
	}
	next := l.certain(s)
	return next.where(next != nil && !next.equal(l))
}

// certain returns the lock after s, which has happened.
func (l *lock) certain(s *step) *lock {
	at, holds := l.find(s.who)
	switch s.kind {
	case grant:
		if holds || !l.grants(s) || s.queued && !contains(l.placed, s.who) {
			return nil
		}
		return l.grant(at, s)
	case confirm:
		return l.where(holds && l.holds[at].token == s.token)
	case revoke:
		if !holds || !l.holds[at].untold {
			return nil
		}
		return l.without(at)
	case refuse:
		return l.where(!holds && !l.has(s.session) && (s.queued || len(l.delayed) > 0 || !l.admits(s)))
	case place:
		if holds || l.has(s.session) {
			return nil
		}
		return l.place(s.who)
	case leave:
		return l.where(!holds && !l.has(s.session) && !contains(l.placed, s.who))
	case read:
		return l.where(l.shows(s))
	case valid, invalid:
		held := slices.ContainsFunc(l.holds, func(h hold) bool { return h.token == s.token && h.mode == s.mode })
		return l.where(held == (s.kind == valid))
	case release, releaseNone:
		return l.releaseStep(s, at, holds)
	}
	return l.sessionStep(s)
}

// releaseStep returns the lock after a release. A release that names a token
// leaves a queue position alone.
func (l *lock) releaseStep(s *step, at int, holds bool) *lock {
	if l.has(s.session) {
		return nil
	}
	next := l
	switch {
	case holds && (s.token == 0 || s.token == l.holds[at].token):
		next = l.without(at)
	case s.token == 0 && contains(l.placed, s.who):
		next = l.unplace(s.who)
	}
	if s.kind == releaseNone {
		return l.where(next == l)
	}
	return next.where(next != l || s.queued && s.token == 0 && !holds)
}

// sessionStep returns the lock after a step of a session rather than of a pair.
func (l *lock) sessionStep(s *step) *lock {
	switch s.kind {
	case gone:
		return l.where(l.has(s.session))
	case delayOver:
		n := *l
		n.delayed = without(l.delayed, s.who)
		return &n
	}
	if l.has(s.session) {
		return l
	}
	return l.end(s.session, s.kind == expiry)
}
