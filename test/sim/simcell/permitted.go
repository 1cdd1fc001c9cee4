package simcell

import (
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
	"github.com/stoutlock/stout/test/model"
)

// What was done and told is held against the rights here. A call is judged by
// some state that is not older than what anybody had been told before it came,
// nor newer than its effect or its answer.

// permits keeps what the checks of rights need.
type permits struct {
	by        []*rights                // by index, as the judge's history
	steps     map[uint64][]*rights     // within entries that have several
	at        []int64                  // wall clock at which the judge has met the entry
	claims    map[pair][]*plea         // calls for a lock
	uses      map[string][]*plea       // by session: calls of guests on behalf of it or about it
	deletions map[string][]*plea       // calls that may delete a file
	marks     map[string]*plea         // calls that put a rule, by an entry that is their own
	refused   map[string]string        // those of them that were refused: why
	lingering map[uint64]time.Duration // places in queues of those who may not lock there: since when
}

func newPermits() *permits {
	return &permits{
		by: []*rights{rightsOf(model.New())}, at: []int64{0}, claims: map[pair][]*plea{}, uses: map[string][]*plea{}, deletions: map[string][]*plea{},
		marks: map[string]*plea{}, steps: map[uint64][]*rights{}, refused: map[string]string{}, lingering: map[uint64]time.Duration{},
	}
}

// latest are the present rights.
func (t *permits) latest() *rights { return t.by[len(t.by)-1] }

// skip takes in an entry that is none of the office's.
func (t *permits) skip() {
	t.by, t.at = append(t.by, t.latest()), append(t.at, time.Now().UnixNano())
}

// entitled takes in the steps in which an entry has changed rights, and checks that
// its callers were allowed to make its changes.
func (j *judge) entitled(b state.Batch, out state.Outcome, steps []*rights) {
	t := j.permits
	t.skip()
	if n := len(steps); n > 0 {
		t.steps[out.Index], t.by[out.Index] = steps, steps[n-1]
	}
	for i, c := range b.Commands {
		if out.Results[i] != state.Done {
			continue
		}
		switch op := c.Operation.(type) {
		case *state.PutRule:
			j.marked(out.Index, op.Rule.Lists[access.Admin])
		case *state.AdoptSession:
			j.adopted(out.Index, op)
		}
	}
	for _, c := range out.Changes {
		switch c := c.(type) {
		case state.Granted:
			j.entitledTo(out.Index, c.Hold)
		case state.FileDeleted:
			if all := t.deletions[c.File.Path]; c.Reason == state.Deleted && strings.HasPrefix(c.File.Path, guarded) {
				j.w.stats.check("permitted deletion")
				if !slices.ContainsFunc(all, func(p *plea) bool { return j.permitted(p, out.Index) }) {
					j.w.fail("entry %d: %s is deleted; none of the %d calls to do so was allowed to", out.Index, c.File.Path, len(all))
				}
			}
		}
	}
}

// marked: a rule was put by a guest.
func (j *judge) marked(index uint64, list []string) {
	for _, entry := range list {
		p := j.permits.marks[entry]
		if p == nil {
			continue
		}
		j.w.stats.check("permitted rule")
		if why := j.permits.refused[entry]; why != "" {
			j.w.fail("entry %d: %s puts a rule at %s, and was told %s", index, p.who, p.needs[0].path, why)
		} else if !j.permitted(p, index) {
			j.w.fail("entry %d: %s puts a rule at %s, and was never allowed to since before its call (entry %d)", index, p.who, p.needs[0].path, p.floor)
		}
	}
}

// entitledTo: a lock was granted, at once or from the queue, and some call was
// allowed to ask for it.
func (j *judge) entitledTo(index uint64, h *state.Hold) {
	t := j.permits
	p := pair{h.Session, h.Path, h.Handle}
	if all := t.claims[p]; len(all) > 0 {
		j.w.stats.check("permitted grant")
		if !slices.ContainsFunc(all, func(p *plea) bool { return j.permitted(p, index) }) {
			j.w.fail("entry %d: %s is granted to %s/%s; none of the %d calls for it was allowed to ask", index, h.Path, h.Session, h.Handle, len(all))
		}
	}
}

// permitted reports whether a call was allowed by some rights from before it
// came on and before an entry.
func (j *judge) permitted(p *plea, before uint64) bool {
	all := j.permits.by[:before]
	return slices.ContainsFunc(all[min(p.floor, uint64(len(all))):], func(r *rights) bool { return r.answer(p, p.began) == "" })
}

// allowed: a call came to something, so it was allowed, or one of those before it by
// which that came about: what is held stays when the right to it is taken away.
func (j *judge) allowed(p *plea, what string, before ...*plea) {
	j.look()
	j.w.stats.check("told what is permitted")
	if !slices.ContainsFunc(append([]*plea{p}, before...), func(p *plea) bool { return j.permitted(p, uint64(len(j.permits.by))) }) {
		j.w.fail("%s was told %s, and was never allowed to since before its call (entry %d)", p.who, what, p.floor)
	}
}

// forbidden: a call was told that its caller may not do it. That was so at some
// moment since it came.
func (j *judge) forbidden(p *plea, err error) {
	j.look()
	e := refusal(err)
	if e == nil || !isForbidden(e) {
		return
	}
	j.w.stats.check("told of no permission")
	now := time.Now().UnixNano() // its token may have expired meanwhile
	if !slices.ContainsFunc(j.permits.by[p.floor:], func(r *rights) bool { return r.answer(p, p.began) == e.Code || r.answer(p, now) == e.Code }) {
		j.w.fail("%s was told %v, which has not been so since before its call (entry %d)", p.who, e, p.floor)
	}
}

func isForbidden(err error) bool {
	e := refusal(err)
	return e != nil && (e.Code == lockapi.CodePermissionDenied || e.Code == lockapi.CodeUnauthenticated)
}

// lands: a change of rights was acknowledged, so it came about since its call
// began. The first such entry counts as told.
func (j *judge) lands(what string, floor uint64, so func(*rights) bool) {
	j.look()
	j.w.stats.check("told of a change of rights")
	for i := floor; i < uint64(len(j.permits.by)); i++ {
		if so(j.permits.by[i]) || i > floor && slices.ContainsFunc(j.permits.steps[i], so) {
			j.told = max(j.told, i)
			return
		}
	}
	j.w.fail("it was acknowledged that %s; since entry %d that has never been so", what, floor)
}

// now reports whether something is so by the present rights.
func (j *judge) now(so func(*rights) bool) bool {
	j.look()
	return so(j.permits.latest())
}

// rightsAt are the rights of all states with a revision that a read may have been of.
func (j *judge) rightsAt(floor, revision uint64) (all []*rights) {
	revisionAt := j.before(floor).Revision
	for i := floor; i < uint64(len(j.history)); i++ {
		if s := j.history[i]; s != nil {
			revisionAt = s.Revision
		}
		if revisionAt == revision {
			all = append(all, j.permits.by[i])
		}
	}
	return all
}

// toldAt: a caller was told something as of a revision that some rights of that
// very state permit.
func (j *judge) toldAt(p *plea, revision uint64, what string) {
	j.look()
	j.w.stats.check("told as of a revision what is permitted")
	if !slices.ContainsFunc(j.rightsAt(p.floor, revision), func(r *rights) bool { return r.answer(p, p.began) == "" }) {
		j.w.fail("%s was told %s as of revision %d, and may not be by any state of that revision since entry %d", p.who, what, revision, p.floor)
	}
}

// shown: a refusal has shown its caller what is at a path. Who he is, and what he
// may read, are found out one after the other.
func (j *judge) shown(p *plea, path string) {
	j.look()
	j.w.stats.check("shown in a refusal")
	all := j.permits.by[p.floor:]
	for _, r := range all {
		who, genuine := r.principal(p.sum, p.began)
		if genuine && slices.ContainsFunc(all, func(r *rights) bool { return r.May(who, access.Read, path) }) {
			return
		}
	}
	j.w.fail("%s was shown in a refusal what is at %s, and was never allowed to read there since before its call (entry %d)", p.who, path, p.floor)
}

// listed: a caller was told the first page of the files below a prefix that it may
// read.
func (j *judge) listed(p *plea, revision uint64, prefix string, page *lockapi.FileList) {
	if !j.readAt(p.who, p.floor, revision) {
		return
	}
	j.w.stats.check("list of what is permitted")
	has := linesOf(page)
	all := j.rightsAt(p.floor, revision)
	for _, r := range all {
		who, genuine := r.principal(p.sum, p.began)
		if genuine && isPage(page, has, j.annals.listing(prefix, revision, func(path string) bool { return r.May(who, access.Read, path) })) {
			return
		}
	}
	j.w.fail("%s listed %q at revision %d: %q; by the rights of none of the %d states since entry %d there is that to be seen",
		p.who, prefix, revision, has, len(all), p.floor)
}

// eventTold: a caller was told an event that he may read by some rights since it
// came about, and nothing was left out that he could read all the time.
func (j *judge) eventTold(p *plea, w *watcher, e *lockapi.CellEvent) {
	j.look()
	j.w.stats.check("told of a permitted event")
	if e.Revision <= w.after || e.Revision > j.annals.revision() {
		j.w.fail("%s, which was told all up to revision %d, is told %s of revision %d", w.who, w.after, lineOf(e), e.Revision)
		return
	}
	h := &j.annals.events[e.Revision]
	if h.line != lineOf(e) {
		j.w.fail("%s is told %s of revision %d, which is %s", w.who, lineOf(e), e.Revision, h.line)
	}
	if !j.mayKnow(p, h) {
		j.w.fail("%s is told %s of revision %d (entry %d), which it was never allowed to read since", w.who, h.line, e.Revision, h.index)
	}
	j.leftOut(p, w, e.Revision)
	w.after = e.Revision
}

// mayKnow: an event may be read by some rights since it came about.
func (j *judge) mayKnow(p *plea, h *happening) bool {
	return slices.ContainsFunc(j.permits.by[h.index:], func(r *rights) bool {
		// A token counts that had not ended when the event came about; the judge
		// meets an entry a little later than its replica.
		who, genuine := r.principal(p.sum, j.permits.at[h.index]-int64(20*time.Millisecond))
		return genuine && (h.path == "" || r.May(who, access.Read, h.path))
	})
}

// leftOut: what a watcher was not told before a revision it was not allowed to
// read at some moment since.
func (j *judge) leftOut(p *plea, w *watcher, before uint64) {
	for next := j.annals.next(w.after, w.asked); next != 0 && next < before; next = j.annals.next(next, w.asked) {
		h := &j.annals.events[next]
		if !slices.ContainsFunc(j.permits.by[h.index:], func(r *rights) bool {
			who, genuine := r.principal(p.sum, p.began)
			return !genuine || h.path != "" && !r.May(who, access.Read, h.path)
		}) {
			j.w.fail("%s, which was told all up to revision %d, is not told %s of revision %d, which it may read", w.who, w.after, h.line, next)
		}
	}
}

// linger looks for places in queues that are kept by those who may not lock there,
// though a master is in office.
func (j *judge) linger() {
	now, r := j.w.now(), j.permits.latest()
	still := map[uint64]time.Duration{}
	for v := range j.latest().Waits() {
		if owner, _ := r.owner(v.Session); r.May(owner, access.Lock, v.Path) {
			continue
		}
		since, known := j.permits.lingering[v.Seq]
		if !known {
			since = now
		}
		still[v.Seq] = since
		if late := now - max(since, j.steady); late > lateEnd {
			j.w.fail("place %d of %s/%s at %s is kept %v after its owner may not lock there any more", v.Seq, v.Session, v.Handle, v.Path, late)
			return
		}
	}
	j.permits.lingering = still
}
