package history

import (
	"cmp"
	"maps"
	"slices"
)

// grants adds the steps in which a pair is granted the lock, and the steps in
// which it may lose it without an answer. A token in an answer was granted
// before that, because of one of the pair's attempts that were or may have been
// granted. Each attempt of unknown outcome may cause one more grant that no
// answer showed.
func (b *lockBuilder) grants(who string, c *pairRecord) {
	s := step{kind: grant, session: c.session, who: who, mode: c.mode, limit: c.limit, delay: c.delayMS > 0}
	causes := slices.Concat(c.granted, c.open)
	slices.SortFunc(causes, func(x, y *Attempt) int { return cmp.Compare(x.Call, y.Call) })
	s.queued = !slices.ContainsFunc(causes, func(a *Attempt) bool { return a.Outcome != Queued })
	for i, token := range slices.Sorted(maps.Keys(c.seen)) {
		if i == len(causes) {
			return // a grant without a request: the step that saw it will not fit
		}
		s.token, s.untold = token, c.mayBeRevoked() && !slices.ContainsFunc(c.granted, func(a *Attempt) bool { return a.Token == token })
		b.add(causes[i].Call, c.seen[token], s)
	}
	for _, a := range c.granted {
		b.add(a.Call, a.Return, step{kind: confirm, session: c.session, who: who, token: a.Token})
	}
	losable := len(c.seen)
	if b.unseen {
		losable += b.unseenGrants(c, s)
	}
	if c.mayBeRevoked() {
		for _, a := range c.open[:min(len(c.open), losable)] {
			b.maybe(a.Call, step{kind: revoke, session: c.session, who: who})
		}
	}
	if slices.ContainsFunc(c.open, func(a *Attempt) bool { return a.Outcome == Queued }) {
		losable++
	}
	b.lostReleases(who, c, losable)
}

// lostReleases adds the steps of releases of unknown outcome. For each token it
// adds at most as many as there are holds to lose. It takes the earliest ones,
// which can stand in for any of them.
func (b *lockBuilder) lostReleases(who string, c *pairRecord, most int) {
	count := map[uint64]int{}
	for _, a := range c.lost {
		if count[a.Token]++; count[a.Token] <= most {
			b.maybe(a.Call, step{kind: release, session: c.session, who: who, token: a.Token})
		}
	}
}

// mayBeRevoked reports whether the pair waited without queue in a call that was
// lost. A master revokes a grant to such a call.
func (c *pairRecord) mayBeRevoked() bool {
	return slices.ContainsFunc(c.open, func(a *Attempt) bool { return a.Outcome == Unknown && a.waits() && !a.Queue })
}

// unseenGrants adds the steps of grants that no answer showed, as s, and counts
// them. A queue position that became the answered grant is done with.
func (b *lockBuilder) unseenGrants(c *pairRecord, s step) (n int) {
	placed := len(c.granted) > 0
	for _, a := range c.open {
		if s.queued = a.Outcome == Queued; s.queued && placed {
			continue
		}
		placed = placed || s.queued
		s.token, s.untold = 0, c.mayBeRevoked()
		b.maybe(a.Call, s)
		n++
	}
	return n
}
