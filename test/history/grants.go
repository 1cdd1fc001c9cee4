package history

import (
	"cmp"
	"maps"
	"slices"
)

// grants makes the steps in which a pair is granted the lock, and those in
// which it may lose it unheard. A token that was seen was granted before that,
// in the wake of any of the pair's attempts that were granted or may have been.
// Each of the latter is good for one more grant, which nobody saw.
func (b *builder) grants(who string, c *claims) {
	s := step{kind: grant, session: c.session, who: who, mode: c.mode, limit: c.limit, delay: c.delayMS > 0}
	causes := slices.Concat(c.granted, c.open)
	slices.SortFunc(causes, func(x, y *Attempt) int { return cmp.Compare(x.Call, y.Call) })
	s.queued = !slices.ContainsFunc(causes, func(a *Attempt) bool { return a.Outcome != Queued })
	for i, token := range slices.Sorted(maps.Keys(c.seen)) {
		if i == len(causes) {
			return // a grant that nobody asked for: what saw it will not fit
		}
		s.token, s.untold = token, c.forsaken() && !slices.ContainsFunc(c.granted, func(a *Attempt) bool { return a.Token == token })
		b.add(causes[i].Call, c.seen[token], s)
	}
	for _, a := range c.granted {
		b.add(a.Call, a.Return, step{kind: confirm, session: c.session, who: who, token: a.Token})
	}
	claims := len(c.seen)
	if b.unseen {
		claims += b.unseenGrants(c, s)
	}
	if c.forsaken() {
		for _, a := range c.open[:min(len(c.open), claims)] {
			b.maybe(a.Call, step{kind: takeBack, session: c.session, who: who})
		}
	}
	if slices.ContainsFunc(c.open, func(a *Attempt) bool { return a.Outcome == Queued }) {
		claims++
	}
	b.lostReleases(who, c, claims)
}

// lostReleases makes the steps of releases of unknown outcome: of those that
// name the same token no more than there are claims to lose, the earliest,
// which may have been in the place of any.
func (b *builder) lostReleases(who string, c *claims, most int) {
	count := map[uint64]int{}
	for _, a := range c.lost {
		if count[a.Token]++; count[a.Token] <= most {
			b.maybe(a.Call, step{kind: release, session: c.session, who: who, token: a.Token})
		}
	}
}

// forsaken reports whether the pair asked in a way in which a master takes back
// a grant whose call it has lost: waiting, without queue.
func (c *claims) forsaken() bool {
	return slices.ContainsFunc(c.open, func(a *Attempt) bool { return a.Outcome == Unknown && a.waits() && !a.Queue })
}

// unseenGrants makes the steps of grants that nobody saw, as s, and counts
// them. A place that became the grant that was answered is done with.
func (b *builder) unseenGrants(c *claims, s step) (n int) {
	placed := len(c.granted) > 0
	for _, a := range c.open {
		if s.queued = a.Outcome == Queued; s.queued && placed {
			continue
		}
		placed = placed || s.queued
		s.token, s.untold = 0, c.forsaken()
		b.maybe(a.Call, s)
		n++
	}
	return n
}
