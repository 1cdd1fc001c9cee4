package history

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// has reports whether the session has ended.
func (l *lock) has(ended string) bool { return contains(l.ended, ended) }

// grants reports whether s may be granted. Its session must be alive, the
// holders must leave room, and the token must be higher than all before.
func (l *lock) grants(s *step) bool {
	return !l.has(s.session) && len(l.delayed) == 0 && l.admits(s) && (s.token == 0 || s.token > l.last)
}

// admits reports whether the holders other than the pair of s leave room for
// one more.
func (l *lock) admits(s *step) bool {
	others := int64(0)
	for _, h := range l.holds {
		if h.who == s.who {
			continue
		}
		if others++; h.mode == lockapi.Exclusive || s.mode == lockapi.Exclusive {
			return false
		}
	}
	return s.limit == 0 || others < s.limit
}

func (l *lock) find(who string) (at int, found bool) {
	return slices.BinarySearchFunc(l.holds, who, func(h hold, who string) int { return cmp.Compare(h.who, who) })
}

func (l *lock) grant(at int, s *step) *lock {
	n := *l
	n.holds = slices.Insert(slices.Clone(l.holds), at, hold{holder{s.who, s.token, s.mode}, s.session, s.delay, s.untold})
	n.last = max(l.last, s.token)
	n.placed = without(l.placed, s.who)
	return &n
}

func (l *lock) without(at int) *lock {
	n := *l
	n.holds = slices.Delete(slices.Clone(l.holds), at, at+1)
	return &n
}

func (l *lock) place(who string) *lock {
	n := *l
	n.placed = with(l.placed, who)
	return &n
}

func (l *lock) unplace(who string) *lock {
	n := *l
	n.placed = without(l.placed, who)
	return &n
}

func (l *lock) end(session string, expired bool) *lock {
	n := *l
	n.ended = with(l.ended, session)
	n.placed = slices.DeleteFunc(slices.Clone(l.placed), func(who string) bool { return strings.HasPrefix(who, session+"/") })
	n.holds = nil
	for _, h := range l.holds {
		switch {
		case h.session != session:
			n.holds = append(n.holds, h)
		case h.delay && expired:
			n.delayed = with(n.delayed, h.who)
		}
	}
	return &n
}

// shows reports whether a read at this instant returns the answer of s.
func (l *lock) shows(s *step) bool {
	state := lockapi.StateFree
	switch {
	case len(l.holds) > 0:
		state = lockapi.StateHeld
	case len(l.delayed) > 0:
		state = lockapi.StateDelayed
	}
	return s.state == state && slices.EqualFunc(l.holds, s.holders, func(h hold, seen holder) bool { return h.holder == seen })
}

func (l *lock) equal(o *lock) bool {
	return l.last == o.last && slices.Equal(l.holds, o.holds) && slices.Equal(l.delayed, o.delayed) &&
		slices.Equal(l.ended, o.ended) && slices.Equal(l.placed, o.placed)
}

var seed = maphash.MakeSeed()

func (l *lock) hash() uint64 {
	sum := l.last
	for _, h := range l.holds {
		sum = sum*31 + h.token + maphash.String(seed, h.who)
	}
	for _, list := range [][]string{l.delayed, l.ended, l.placed} {
		sum = sum*31 + uint64(len(list))
	}
	return sum
}

// contains, with and without keep sets of strings as sorted slices.
func contains(set []string, s string) bool {
	_, found := slices.BinarySearch(set, s)
	return found
}

func with(set []string, s string) []string {
	at, found := slices.BinarySearch(set, s)
	if found {
		return set
	}
	return slices.Insert(slices.Clone(set), at, s)
}

func without(set []string, s string) []string {
	at, found := slices.BinarySearch(set, s)
	if !found {
		return set
	}
	return slices.Delete(slices.Clone(set), at, at+1)
}
