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

// The judge checks effects and answers against the rights here. A call is
// checked against any state that is at least as old as its effect or answer,
// and no older than what had been reported before the call.

// permits holds the data of these checks.
type permits struct {
	by        []*rights                // by index, like the judge's history
	steps     map[uint64][]*rights     // within entries that have several
	at        []int64                  // wall clock at which the judge saw the entry
	claims    map[pair][]*plea         // calls for a lock
	uses      map[string][]*plea       // by session: guests' calls for it or about it
	deletions map[string][]*plea       // calls that may delete a file
	marks     map[string]*plea         // calls that put a rule, by a unique entry of the rule
	refused   map[string]string        // refused ones of these calls: why
	lingering map[uint64]time.Duration // queue positions of sessions without the right to lock there: since when
}

func newPermits() *permits {
	return &permits{
		by: []*rights{rightsOf(model.New())}, at: []int64{0}, claims: map[pair][]*plea{}, uses: map[string][]*plea{}, deletions: map[string][]*plea{},
		marks: map[string]*plea{}, steps: map[uint64][]*rights{}, refused: map[string]string{}, lingering: map[uint64]time.Duration{},
	}
}

// latest returns the present rights.
func (t *permits) latest() *rights { return t.by[len(t.by)-1] }

// skip adds an entry without a batch.
func (t *permits) skip() {
	t.by, t.at = append(t.by, t.latest()), append(t.at, time.Now().UnixNano())
}

// entitled takes in the steps in which an entry changed rights, and checks that
// its callers had the rights for its changes.
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
					j.w.fail("entry %d: %s is deleted; none of the %d calls to delete it was allowed to", out.Index, c.File.Path, len(all))
				}
			}
		}
	}
}

// marked checks a guest's rule.
func (j *judge) marked(index uint64, list []string) {
	for _, entry := range list {
		p := j.permits.marks[entry]
		if p == nil {
			continue
		}
		j.w.stats.check("permitted rule")
		if why := j.permits.refused[entry]; why != "" {
			j.w.fail("entry %d: %s puts a rule at %s, and got %s", index, p.who, p.needs[0].path, why)
		} else if !j.permitted(p, index) {
			j.w.fail("entry %d: %s puts a rule at %s, and was never allowed to since before its call (entry %d)", index, p.who, p.needs[0].path, p.floor)
		}
	}
}

// entitledTo checks that some call was allowed to request a granted lock.
func (j *judge) entitledTo(index uint64, h *state.Hold) {
	t := j.permits
	p := pair{h.Session, h.Path, h.Handle}
	if all := t.claims[p]; len(all) > 0 {
		j.w.stats.check("permitted grant")
		if !slices.ContainsFunc(all, func(p *plea) bool { return j.permitted(p, index) }) {
			j.w.fail("entry %d: %s is granted to %s/%s; none of the %d calls for it was allowed to request it", index, h.Path, h.Session, h.Handle, len(all))
		}
	}
}

// permitted reports whether some rights allowed a call: those at its start or
// later, before an entry.
func (j *judge) permitted(p *plea, before uint64) bool {
	all := j.permits.by[:before]
	return slices.ContainsFunc(all[min(p.floor, uint64(len(all))):], func(r *rights) bool { return r.answer(p, p.began) == "" })
}

// allowed checks a successful call. It must have been allowed, or one of the
// earlier calls with the same effect: a hold stays when the right to it is
// revoked.
func (j *judge) allowed(p *plea, what string, before ...*plea) {
	j.look()
	j.w.stats.check("permitted answer")
	if !slices.ContainsFunc(append([]*plea{p}, before...), func(p *plea) bool { return j.permitted(p, uint64(len(j.permits.by))) }) {
		j.w.fail("%s got %s, and was never allowed to since before its call (entry %d)", p.who, what, p.floor)
	}
}

// forbidden checks the answer that a caller lacks a permission. That must have
// been so at some moment since the call.
func (j *judge) forbidden(p *plea, err error) {
	j.look()
	e := refusal(err)
	if e == nil || !isForbidden(e) {
		return
	}
	j.w.stats.check("refused permission")
	now := time.Now().UnixNano() // its token may have expired since
	if !slices.ContainsFunc(j.permits.by[p.floor:], func(r *rights) bool { return r.answer(p, p.began) == e.Code || r.answer(p, now) == e.Code }) {
		j.w.fail("%s got %v, which was never so since before its call (entry %d)", p.who, e, p.floor)
	}
}

func isForbidden(err error) bool {
	e := refusal(err)
	return e != nil && (e.Code == lockapi.CodePermissionDenied || e.Code == lockapi.CodeUnauthenticated)
}

// lands checks that an acknowledged change of rights happened since its call
// began. The first such entry counts as reported.
func (j *judge) lands(what string, floor uint64, so func(*rights) bool) {
	j.look()
	j.w.stats.check("reported change of rights")
	for i := floor; i < uint64(len(j.permits.by)); i++ {
		if so(j.permits.by[i]) || i > floor && slices.ContainsFunc(j.permits.steps[i], so) {
			j.told = max(j.told, i)
			return
		}
	}
	j.w.fail("it was acknowledged that %s; since entry %d that was never so", what, floor)
}

// now reports whether a condition holds by the present rights.
func (j *judge) now(so func(*rights) bool) bool {
	j.look()
	return so(j.permits.latest())
}

// rightsAt returns the rights in all states with a revision that a read may
// have seen.
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

// toldAt checks that the rights in a state with this revision permit an answer.
func (j *judge) toldAt(p *plea, revision uint64, what string) {
	j.look()
	j.w.stats.check("permitted answer as of a revision")
	if !slices.ContainsFunc(j.rightsAt(p.floor, revision), func(r *rights) bool { return r.answer(p, p.began) == "" }) {
		j.w.fail("%s got %s as of revision %d, and may not by any state of that revision since entry %d", p.who, what, revision, p.floor)
	}
}

// shown checks a refusal that shows what is at a path. The product determines
// the caller's identity and its right to read one after the other.
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
	j.w.fail("%s got a refusal that shows what is at %s, and was never allowed to read there since before its call (entry %d)", p.who, path, p.floor)
}

// listed checks the first page of a list of files below a prefix.
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
	j.w.fail("%s listed %q at revision %d: %q; by none of the %d states since entry %d that is what it may see",
		p.who, prefix, revision, has, len(all), p.floor)
}

// eventTold checks an event in a caller's stream. Some rights since the event
// must allow reading it. Events that the caller could always read must not be
// missing.
func (j *judge) eventTold(p *plea, w *watcher, e *lockapi.CellEvent) {
	j.look()
	j.w.stats.check("permitted event")
	if e.Revision <= w.after || e.Revision > j.annals.revision() {
		j.w.fail("%s, which had received all events up to revision %d, gets %s of revision %d", w.who, w.after, lineOf(e), e.Revision)
		return
	}
	h := &j.annals.events[e.Revision]
	if h.line != lineOf(e) {
		j.w.fail("%s gets %s of revision %d, which is %s", w.who, lineOf(e), e.Revision, h.line)
	}
	if !j.mayKnow(p, h) {
		j.w.fail("%s gets %s of revision %d (entry %d), which it was never allowed to read since", w.who, h.line, e.Revision, h.index)
	}
	j.leftOut(p, w, e.Revision)
	w.after = e.Revision
}

// mayKnow reports whether some rights since an event allow reading it.
func (j *judge) mayKnow(p *plea, h *happening) bool {
	return slices.ContainsFunc(j.permits.by[h.index:], func(r *rights) bool {
		// A token counts if it had not ended at the event. The judge sees an
		// entry a little later than its replica.
		who, genuine := r.principal(p.sum, j.permits.at[h.index]-int64(20*time.Millisecond))
		return genuine && (h.path == "" || r.May(who, access.Read, h.path))
	})
}

// leftOut checks that each event missing before a revision was unreadable for
// the watcher at some moment since.
func (j *judge) leftOut(p *plea, w *watcher, before uint64) {
	for next := j.annals.next(w.after, w.asked); next != 0 && next < before; next = j.annals.next(next, w.asked) {
		h := &j.annals.events[next]
		if !slices.ContainsFunc(j.permits.by[h.index:], func(r *rights) bool {
			who, genuine := r.principal(p.sum, p.began)
			return !genuine || h.path != "" && !r.May(who, access.Read, h.path)
		}) {
			j.w.fail("%s, which had received all events up to revision %d, does not get %s of revision %d, which it may read", w.who, w.after, h.line, next)
		}
	}
}

// linger looks for queue positions of sessions that may no longer lock there,
// although a master is in office.
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
			j.w.fail("place %d of %s/%s at %s is still there %v after its owner lost the right to lock there", v.Seq, v.Session, v.Handle, v.Path, late)
			return
		}
	}
	j.permits.lingering = still
}
