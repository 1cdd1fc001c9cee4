package history

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// stepKind is a kind of step of the models.
type stepKind int

// The kinds of all models, and of the one about files and of that about keys.
const (
	gone      stepKind = iota // a call finds that the session has ended
	closing                   // the session ends, without lock-delays
	expiry                    // the session ends, and lock-delays begin
	delayOver                 // the lock-delay of a hold is over
	end                       // the record ends: possible effects that have not happened never will
	called                    // files and keys: a call was made, with the outcome of its attempt
)

// The kinds of one lock.
const (
	grant       stepKind = called + 1 + iota // the pair is granted token; 0 for one that no answer showed
	confirm                                  // an answer shows that the pair holds token
	refuse                                   // the pair is refused at once
	place                                    // the pair gets its queue position, which lasts until it is granted or released
	leave                                    // the pair stops waiting without a grant
	revoke                                   // the pair's hold is revoked, if no answer reported its grant
	release                                  // the pair's hold ends, or its queue position if queued allows for one
	releaseNone                              // the pair has nothing to release
	read                                     // a read shows the holders
	valid                                    // token is valid
	invalid                                  // token is not valid
)

// step is one step, as porcupine's input. There is no output: the answer
// decides the kind.
type step struct {
	kind    stepKind
	maybe   bool // it may have happened, or not
	session string
	who     string   // a pair; of keys, a path and a session
	attempt *Attempt // that called
	mode    lockapi.Mode
	limit   int64
	token   uint64
	delay   bool // the hold causes a lock-delay if its session expires
	untold  bool // grant: it may be revoked
	queued  bool // release: the pair may have a queue position; refuse: others may wait; grant: to a queue position only
	state   string
	holders []holder
}

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
}

// state is the state of a model. Values are immutable.
type state[S any] interface {
	comparable
	fmt.Stringer
	certain(s *step) S // the state after s, which has happened; nil if s cannot happen
	equal(S) bool
	hash() uint64
}

// course is a state, and whether the record has ended.
type course[S any] struct {
	state S
	over  bool
}

// modelOf returns the model that starts with a state. An uncertain step happens
// where it changes something. Otherwise it is put off until the record has
// ended, so that steps without effect do not multiply the orders to try.
func modelOf[S state[S]](start S) porcupine.Model {
	var none S
	same := func(x, y S) bool { return x == y || x.equal(y) }
	return porcupine.Model{
		Init: func() any { return course[S]{state: start} },
		Step: func(from, in, _ any) (bool, any) {
			c, s := from.(course[S]), in.(*step)
			switch {
			case s.kind == end:
				return true, course[S]{c.state, true}
			case s.maybe && c.over:
				return true, c
			}
			next := c.state.certain(s)
			if next == none || s.maybe && same(next, c.state) {
				return false, c
			}
			return true, course[S]{next, c.over}
		},
		Equal: func(a, b any) bool {
			x, y := a.(course[S]), b.(course[S])
			return x.over == y.over && same(x.state, y.state)
		},
		Hash:              func(c any) uint64 { return c.(course[S]).state.hash() },
		DescribeOperation: func(in, _ any) string { return in.(*step).String() },
		DescribeState:     func(c any) string { return c.(course[S]).state.String() },
	}
}

// where returns a state if a step can happen there.
func where[S any](s *S, ok bool) *S {
	if !ok {
		return nil
	}
	return s
}

func (l *lock) certain(s *step) *lock {
	at, holds := l.find(s.who)
	switch s.kind {
	case grant:
		if holds || !l.grants(s) || s.queued && !contains(l.placed, s.who) {
			return nil
		}
		return l.grant(at, s)
	case confirm:
		return where(l, holds && l.holds[at].token == s.token)
	case revoke:
		if !holds || !l.holds[at].untold {
			return nil
		}
		return l.without(at)
	case refuse:
		return where(l, !holds && !l.has(s.session) && (s.queued || len(l.delayed) > 0 || !l.admits(s)))
	case place:
		if holds || l.has(s.session) {
			return nil
		}
		return l.place(s.who)
	case leave:
		return where(l, !holds && !l.has(s.session) && !contains(l.placed, s.who))
	case read:
		return where(l, l.shows(s))
	case valid, invalid:
		held := slices.ContainsFunc(l.holds, func(h hold) bool { return h.token == s.token && h.mode == s.mode })
		return where(l, held == (s.kind == valid))
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
		return where(l, next == l)
	}
	return where(next, next != l || s.queued && s.token == 0 && !holds)
}

// sessionStep returns the lock after a step of a session rather than of a pair.
func (l *lock) sessionStep(s *step) *lock {
	switch s.kind {
	case gone:
		return where(l, l.has(s.session))
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
