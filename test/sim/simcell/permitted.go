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

// The oracle checks effects and answers against the rights here. A call is
// checked against any state that is at least as old as its effect or answer,
// and no older than what had been reported before the call.

// permits holds the data of these checks.
type permits struct {
	by        []*rights                // by index, like the oracle's history
	steps     map[uint64][]*rights     // within entries that have several
	at        []int64                  // wall clock at which the oracle saw the entry
	acquires  map[pair][]*guestCall    // calls for a lock
	uses      map[string][]*guestCall  // by session: guests' calls for it or about it
	deletions map[string][]*guestCall  // calls that may delete a file
	marks     map[string]*guestCall    // calls that put a rule, by a unique entry of the rule
	refused   map[string]string        // refused ones of these calls: why
	lingering map[uint64]time.Duration // queue positions of sessions without the right to lock there: since when
}

func newPermits() *permits {
	return &permits{
		by: []*rights{rightsOf(model.New())}, at: []int64{0}, acquires: map[pair][]*guestCall{}, uses: map[string][]*guestCall{}, deletions: map[string][]*guestCall{},
		marks: map[string]*guestCall{}, steps: map[uint64][]*rights{}, refused: map[string]string{}, lingering: map[uint64]time.Duration{},
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
func (o *oracle) entitled(b state.Batch, out state.Outcome, steps []*rights) {
	t := o.permits
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
			o.marked(out.Index, op.Rule.Lists[access.Admin])
		case *state.AdoptSession:
			o.adopted(out.Index, op)
		}
	}
	for _, c := range out.Changes {
		switch c := c.(type) {
		case state.Granted:
			o.entitledTo(out.Index, c.Hold)
		case state.FileDeleted:
			if all := t.deletions[c.File.Path]; c.Reason == state.Deleted && strings.HasPrefix(c.File.Path, aclDir) {
				o.w.stats.check("permitted deletion")
				if !slices.ContainsFunc(all, func(p *guestCall) bool { return o.permitted(p, out.Index) }) {
					o.w.fail("entry %d: %s is deleted; none of the %d calls to delete it was allowed to", out.Index, c.File.Path, len(all))
				}
			}
		}
	}
}

// marked checks a guest's rule.
func (o *oracle) marked(index uint64, list []string) {
	for _, entry := range list {
		p := o.permits.marks[entry]
		if p == nil {
			continue
		}
		o.w.stats.check("permitted rule")
		if why := o.permits.refused[entry]; why != "" {
			o.w.fail("entry %d: %s puts a rule at %s, and got %s", index, p.who, p.needs[0].path, why)
		} else if !o.permitted(p, index) {
			o.w.fail("entry %d: %s puts a rule at %s, and was never allowed to since before its call (entry %d)", index, p.who, p.needs[0].path, p.floor)
		}
	}
}

// entitledTo checks that some call was allowed to request a granted lock.
func (o *oracle) entitledTo(index uint64, h *state.Hold) {
	t := o.permits
	p := pair{h.Session, h.Path, h.Handle}
	if all := t.acquires[p]; len(all) > 0 {
		o.w.stats.check("permitted grant")
		if !slices.ContainsFunc(all, func(p *guestCall) bool { return o.permitted(p, index) }) {
			o.w.fail("entry %d: %s is granted to %s/%s; none of the %d calls for it was allowed to request it", index, h.Path, h.Session, h.Handle, len(all))
		}
	}
}

// permitted reports whether some rights allowed a call: those at its start or
// later, before an entry.
func (o *oracle) permitted(p *guestCall, before uint64) bool {
	all := o.permits.by[:before]
	return slices.ContainsFunc(all[min(p.floor, uint64(len(all))):], func(r *rights) bool { return r.answer(p, p.began) == "" })
}

// allowed checks a successful call. It must have been allowed, or one of the
// earlier calls with the same effect: a hold stays when the right to it is
// revoked.
func (o *oracle) allowed(p *guestCall, what string, before ...*guestCall) {
	o.checks("permitted answer")
	if !slices.ContainsFunc(append([]*guestCall{p}, before...), func(p *guestCall) bool { return o.permitted(p, uint64(len(o.permits.by))) }) {
		o.w.fail("%s got %s, and was never allowed to since before its call (entry %d)", p.who, what, p.floor)
	}
}

// forbidden checks the answer that a caller lacks a permission. That must have
// been so at some moment since the call.
func (o *oracle) forbidden(p *guestCall, err error) {
	o.look()
	o.overQuota(p, err)
	e := refusal(err)
	if e == nil || !isForbidden(e) {
		return
	}
	o.w.stats.check("refused permission")
	now := time.Now().UnixNano() // its token may have expired since
	if !slices.ContainsFunc(o.permits.by[p.floor:], func(r *rights) bool { return r.answer(p, p.began) == e.Code || r.answer(p, now) == e.Code }) {
		o.w.fail("%s got %v, which was never so since before its call (entry %d)", p.who, e, p.floor)
	}
}

func isForbidden(err error) bool {
	e := refusal(err)
	return e != nil && (e.Code == lockapi.CodePermissionDenied || e.Code == lockapi.CodeUnauthenticated)
}

// acknowledged checks that an acknowledged change of rights happened since its call
// began. The first such entry counts as reported.
func (o *oracle) acknowledged(what string, floor uint64, so func(*rights) bool) {
	o.checks("reported change of rights")
	for i := floor; i < uint64(len(o.permits.by)); i++ {
		if so(o.permits.by[i]) || i > floor && slices.ContainsFunc(o.permits.steps[i], so) {
			o.reported = max(o.reported, i)
			return
		}
	}
	o.w.fail("it was acknowledged that %s; since entry %d that was never so", what, floor)
}

// now reports whether a condition holds by the present rights.
func (o *oracle) now(so func(*rights) bool) bool {
	o.look()
	return so(o.permits.latest())
}

// rightsAt returns the rights in all states with a revision that a read may
// have seen.
func (o *oracle) rightsAt(floor, revision uint64) (all []*rights) {
	revisionAt := o.before(floor).Revision
	for i := floor; i < uint64(len(o.history)); i++ {
		if s := o.history[i]; s != nil {
			revisionAt = s.Revision
		}
		if revisionAt == revision {
			all = append(all, o.permits.by[i])
		}
	}
	return all
}

// permittedAt checks that the rights in a state with this revision permit an answer.
func (o *oracle) permittedAt(p *guestCall, revision uint64, what string) {
	o.checks("permitted answer as of a revision")
	if !slices.ContainsFunc(o.rightsAt(p.floor, revision), func(r *rights) bool { return r.answer(p, p.began) == "" }) {
		o.w.fail("%s got %s as of revision %d, and may not by any state of that revision since entry %d", p.who, what, revision, p.floor)
	}
}

// shown checks a refusal that shows what is at a path. The product determines
// the caller's identity and its right to read one after the other.
func (o *oracle) shown(p *guestCall, path string) {
	o.checks("shown in a refusal")
	all := o.permits.by[p.floor:]
	for _, r := range all {
		who, genuine := r.principal(p.sum, p.began)
		if genuine && slices.ContainsFunc(all, func(r *rights) bool { return r.May(who, access.Read, path) }) {
			return
		}
	}
	o.w.fail("%s got a refusal that shows what is at %s, and was never allowed to read there since before its call (entry %d)", p.who, path, p.floor)
}

// listed checks the first page of a list of files below a prefix.
func (o *oracle) listed(p *guestCall, revision uint64, prefix string, page *lockapi.FileList) {
	if !o.readAt(p.who, p.floor, revision) {
		return
	}
	o.w.stats.check("list of what is permitted")
	has := linesOf(page)
	all := o.rightsAt(p.floor, revision)
	for _, r := range all {
		who, genuine := r.principal(p.sum, p.began)
		if genuine && isPage(page, has, o.revisions.listing(prefix, revision, func(path string) bool { return r.May(who, access.Read, path) })) {
			return
		}
	}
	o.w.fail("%s listed %q at revision %d: %q; by none of the %d states since entry %d that is what it may see",
		p.who, prefix, revision, has, len(all), p.floor)
}

// eventReceived checks an event in a caller's stream. Some rights since the event
// must allow reading it. Events that the caller could always read must not be
// missing.
func (o *oracle) eventReceived(p *guestCall, w *watcher, e *lockapi.CellEvent) {
	o.checks("permitted event")
	if e.Revision <= w.after || e.Revision > o.revisions.revision() {
		o.w.fail("%s, which had received all events up to revision %d, gets %s of revision %d", w.who, w.after, lineOf(e), e.Revision)
		return
	}
	h := &o.revisions.events[e.Revision]
	if h.line != lineOf(e) {
		o.w.fail("%s gets %s of revision %d, which is %s", w.who, lineOf(e), e.Revision, h.line)
	}
	if !o.mayKnow(p, h) {
		o.w.fail("%s gets %s of revision %d (entry %d), which it was never allowed to read since", w.who, h.line, e.Revision, h.index)
	}
	o.leftOut(p, w, e.Revision)
	w.after = e.Revision
}

// mayKnow reports whether some rights since an event allow reading it.
func (o *oracle) mayKnow(p *guestCall, h *expectedEvent) bool {
	return slices.ContainsFunc(o.permits.by[h.index:], func(r *rights) bool {
		// A token counts if it had not ended at the event. The oracle sees an
		// entry a little later than its replica.
		who, genuine := r.principal(p.sum, o.permits.at[h.index]-int64(20*time.Millisecond))
		return genuine && (h.path == "" || r.May(who, access.Read, h.path))
	})
}

// leftOut checks that each event missing before a revision was unreadable for
// the watcher at some moment since.
func (o *oracle) leftOut(p *guestCall, w *watcher, before uint64) {
	for next := o.revisions.next(w.after, w.asked); next != 0 && next < before; next = o.revisions.next(next, w.asked) {
		h := &o.revisions.events[next]
		if !slices.ContainsFunc(o.permits.by[h.index:], func(r *rights) bool {
			who, genuine := r.principal(p.sum, p.began)
			return !genuine || h.path != "" && !r.May(who, access.Read, h.path)
		}) {
			o.w.fail("%s, which had received all events up to revision %d, does not get %s of revision %d, which it may read", w.who, w.after, h.line, next)
		}
	}
}

// linger looks for queue positions of sessions that may no longer lock there,
// although a master is in office.
func (o *oracle) linger() {
	now, r := o.w.now(), o.permits.latest()
	still := map[uint64]time.Duration{}
	for v := range o.latest().Waits() {
		if owner, _ := r.owner(v.Session); r.May(owner, access.Lock, v.Path) {
			continue
		}
		since, known := o.permits.lingering[v.Seq]
		if !known {
			since = now
		}
		still[v.Seq] = since
		if late := now - max(since, o.steady); late > lateEnd {
			o.w.fail("place %d of %s/%s at %s is still there %v after its owner lost the right to lock there", v.Seq, v.Session, v.Handle, v.Path, late)
			return
		}
	}
	o.permits.lingering = still
}
