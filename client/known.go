package client

import (
	"math/rand/v2"
	"slices"
)

// known is the list of replicas that a client knows: an immutable value.
type known struct {
	all   []*endpoint // each once: first the given ones, then the learned ones
	given int         // number of those given, by URL or by DNS name
}

// find returns the endpoint with that base, or nil.
func (k *known) find(base string) *endpoint {
	if i := slices.IndexFunc(k.all, func(e *endpoint) bool { return e.base == base }); i >= 0 {
		return k.all[i]
	}
	return nil
}

// random returns a random endpoint for which free holds, or nil.
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

// setGiven replaces the given endpoints.
func (t *targets) setGiven(given []*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.known.Load()
	t.setKnown(given, was.all[was.given:])
}

// setLearned replaces the learned endpoints by the cell's list.
func (t *targets) setLearned(learned []*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.known.Load()
	t.setKnown(was.all[:was.given], learned)
}

// mostLearned bounds the endpoints that are learned one by one.
const mostLearned = 32

// learn adds learned endpoints, and drops the oldest if there are too many.
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

// setKnown stores the list of replicas. It keeps the record of known endpoints.
// mu is held.
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

// barrenRounds is how often all given endpoints are asked in vain before the
// learned ones have their turn.
const barrenRounds = 4

// next returns the endpoint to ask next, in turn, or nil; leftOut excludes
// some. A learned endpoint that has never answered may belong to a network that
// only the replicas share. It comes after the others, so that learning it does
// no harm, until the others have given no useful answer for some rounds (as
// during an election). One with a penalty comes last. mu is held.
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

// any returns a random replica for a question that every replica can answer. It
// prefers one that is not to be avoided, has no penalty, and was given or has
// answered. Its last resort is one that was learned, has never answered and has
// a penalty. It is nil if no replica is known.
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

// abandoned reports whether no known replica is left: gone holds for each given
// one, and each other one is gone or could not be reached.
func (t *targets) abandoned(gone func(base string) bool) bool {
	k := t.known.Load()
	for i, e := range k.all {
		if !gone(e.base) && (i < k.given || !t.isPunished(e)) {
			return false
		}
	}
	return true
}
