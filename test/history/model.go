package history

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// stepKind is one thing that may happen to a lock in the model.
type stepKind int

const (
	grant       stepKind = iota // who is granted token; 0 stands for one that nobody saw
	confirm                     // who is seen to hold token
	refuse                      // who is refused at once
	place                       // who is told of its queue position, which lasts until it is granted or left
	leave                       // who's wait ends without a grant
	takeBack                    // who's hold ends if nobody was told of its grant
	release                     // who's hold ends, or its queue position where queued says that it may have one
	releaseNone                 // who has nothing to release
	gone                        // the session is found to have ended
	read                        // the holders are seen to be these
	valid                       // token is seen to be held
	invalid                     // token is seen not to be held
	closing                     // the session ends, without lock-delays
	expiry                      // the session ends, and lock-delays begin
	delayOver                   // the lock-delay that who's hold brought about is over
	end                         // of the record: what may have happened and has not, has not
)

// step is one of them, as porcupine's input. There is no output: what was
// answered decides the kind.
type step struct {
	kind    stepKind
	maybe   bool // it may have happened, or not
	session string
	who     string
	mode    lockapi.Mode
	limit   int64
	token   uint64
	delay   bool // the hold brings a lock-delay about if its session expires
	untold  bool // grant: it may be taken back
	queued  bool // release: the pair may have a place; refuse: somebody may wait; grant: of a place only
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

// lock is the state of the model. Values are never changed, only replaced.
type lock struct {
	holds   []hold   // in the order of who
	delayed []string // pairs whose session's expiry began a lock-delay that is not over
	ended   []string // sessions
	placed  []string // pairs that were told of their queue position
	last    uint64   // highest token granted
	over    bool     // the record is
}

// model is one lock, and the sessions that have to do with it.
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

// step is the lock after s, nil where s cannot happen. What may or may not have
// happened can happen where it changes something; else it is put off until the
// record has ended, so that there are not as many orders to try as there are
// places for what changes nothing.
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

// certain is the lock after s, which has happened.
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
	case takeBack:
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

// releaseStep is what a release comes to. One that names a token leaves a queue
// position alone.
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

// sessionStep is what is about a session rather than a pair.
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
