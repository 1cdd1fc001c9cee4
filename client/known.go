package client

import (
	"math/rand/v2"
	"slices"
)

// known is where replicas are, as far as a client knows: a value that nobody
// changes.
type known struct {
	all   []*endpoint // each once: those that were given, then those that were learned
	given int         // how many were given, by URL or by a name of the DNS
}

// find is the endpoint with that base, or nil.
func (k *known) find(base string) *endpoint {
	if i := slices.IndexFunc(k.all, func(e *endpoint) bool { return e.base == base }); i >= 0 {
		return k.all[i]
	}
	return nil
}

// random is one of those for which free holds, or nil.
func (k *known) random(free func(i int) bool) (found *endpoint) {
	n := 0
	for i, e := range k.all {
		if !free(i) {
			continue
		}
		if n++; rand.N(n) == 0 {
			found = e
		}
	}
	return found
}

// setGiven puts those that were given in place of what was given before.
func (t *targets) setGiven(given []*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.known.Load()
	t.setKnown(given, was.all[was.given:])
}

// setLearned puts those that the cell tells in place of those that were learned
// before.
func (t *targets) setLearned(learned []*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.known.Load()
	t.setKnown(was.all[:was.given], learned)
}

// mostLearned bounds the endpoints that are learned one by one.
const mostLearned = 32

// learn adds to those that were learned; the oldest go where there are too many.
func (t *targets) learn(more ...*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.known.Load()
	learned := was.all[was.given:]
	for _, e := range more {
		if was.find(e.base) == nil {
			learned = append(slices.Clip(learned), e)
		}
	}
	t.setKnown(was.all[:was.given], learned[max(0, len(learned)-mostLearned):])
}

// setKnown notes where replicas are. What is known of an endpoint stays known of
// it. mu is held.
func (t *targets) setKnown(given, learned []*endpoint) {
	was, now := t.known.Load(), &known{}
	for i, e := range slices.Concat(given, learned) {
		if i == len(given) {
			now.given = len(now.all)
		}
		if now.find(e.base) != nil {
			continue
		}
		if r := t.current.Load(); r != nil && r.to.base == e.base {
			e = r.to
		} else if own := was.find(e.base); own != nil {
			e = own
		}
		now.all = append(now.all, e)
	}
	if len(learned) == 0 {
		now.given = len(now.all)
	}
	t.known.Store(now)
	if t.current.Load() == nil && len(now.all) > 0 {
		t.current.Store(&route{to: now.all[0]})
	}
}

// barrenRounds is how often those that were given are asked in vain before those
// that were learned have their turn.
const barrenRounds = 4

// next is the one of those that are not left out which to ask next, in turn, or
// nil. One that was learned and has never answered may be of a network that only
// the replicas share: the others go first, so that it is no worse to have learned
// it, until they have given no answer of use for some rounds, as in an election
// they do. One with a penalty comes last. mu is held.
func (t *targets) next(leftOut func(*endpoint) bool) *endpoint {
	k := t.known.Load()
	barren := int(t.barren.Load()) >= barrenRounds*k.given
	best, lowest := -1, 0
	for n := range k.all {
		i := (t.last + 1 + n) % len(k.all)
		e := k.all[i]
		if leftOut(e) {
			continue
		}
		rank := 0
		if i >= k.given && !e.works.Load() && !barren {
			rank = 1
		}
		if t.passesOver(e) {
			rank += 2
		}
		if best < 0 || rank < lowest {
			best, lowest = i, rank
		}
	}
	if best < 0 {
		return nil
	}
	if lowest >= 2 {
		t.finder.want(urgently)
	}
	t.last = best
	return k.all[best]
}

// any is a replica for what every one of them can tell: one at random; one that is
// not to be avoided, that has no penalty, and that was given or has answered,
// where there is such. One that was learned, never answered and has a penalty is
// the last resort. It is nil where none is known.
func (t *targets) any(avoid func(*endpoint) bool) *endpoint {
	k := t.known.Load()
	proven := func(i int) bool { return i < k.given || k.all[i].works.Load() }
	for _, free := range []func(i int) bool{
		func(i int) bool { return proven(i) && !avoid(k.all[i]) && !t.isPunished(k.all[i]) },
		func(i int) bool { return !avoid(k.all[i]) && !t.isPunished(k.all[i]) },
		func(i int) bool { return proven(i) && !avoid(k.all[i]) },
		proven,
		func(i int) bool { return !avoid(k.all[i]) },
	} {
		if e := k.random(free); e != nil {
			return e
		}
	}
	return nil
}

// abandoned says whether none of the replicas that are known is left: those that
// were given are as gone says, and so are the others, or could not be reached.
func (t *targets) abandoned(gone func(base string) bool) bool {
	k := t.known.Load()
	for i, e := range k.all {
		if !gone(e.base) && (i < k.given || !t.isPunished(e)) {
			return false
		}
	}
	return true
}
