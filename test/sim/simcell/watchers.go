package simcell

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// watcher receives events. It gets everything that passes its filter, up to a
// revision.
type watcher struct {
	who   string
	ctx   context.Context
	after uint64
	asked asked
}

// asked is a filter of events.
type asked struct {
	prefix string // empty for all nodes
	kind   lockapi.EventType
}

// anyEvents draws a filter.
func anyEvents(r *rand.Rand) asked {
	return asked{
		prefix: pick(r, "", "", "/f/", "/one", "/pair/"),
		kind:   pick(r, "", "", "", lockapi.EventFileDeleted, lockapi.EventLockReleased, lockapi.EventFileChanged),
	}
}

func (a asked) passes(h *expectedEvent) bool {
	return h.kind == lockapi.EventMasterChanged || strings.HasPrefix(h.path, a.prefix) && (a.kind == "" || h.kind == a.kind)
}

func (a asked) filters() (out []client.Filter) {
	if a.prefix != "" {
		out = append(out, client.OnPrefix(a.prefix))
	}
	if a.kind != "" {
		out = append(out, client.OfType(a.kind))
	}
	return append(out, client.EventContents())
}

// query returns the filter of a bare call.
func (a asked) query() string {
	q := ""
	if a.prefix != "" {
		q += "&prefix=" + a.prefix
	}
	if a.kind != "" {
		q += "&types=" + string(a.kind)
	}
	return q
}

// next returns the revision of the first event after a revision that passes, or
// 0.
func (y *revisions) next(after uint64, a asked) uint64 {
	for r := after + 1; r < uint64(len(y.events)); r++ {
		if a.passes(&y.events[r]) {
			return r
		}
	}
	return 0
}

// received checks an event that a watcher received: it must be the next one.
// Later reads at the master must see it.
func (o *oracle) received(w *watcher, e *lockapi.CellEvent) {
	o.checks("received event")
	next := o.revisions.next(w.after, w.asked)
	if next != e.Revision {
		o.w.fail("%s, which had received all %+v up to revision %d, gets %s of revision %d; the next one has revision %d", w.who, w.asked, w.after, lineOf(e), e.Revision, next)
		return
	}
	h := &o.revisions.events[next]
	if h.line != lineOf(e) {
		o.w.fail("%s gets %s of revision %d, which is %s", w.who, lineOf(e), e.Revision, h.line)
	}
	if e.File != nil && e.File.Content != nil && *e.File.Content != string(h.content) {
		o.w.fail("%s gets an event that %s was written with %q by revision %d; it was written with %q", w.who, e.Path, *e.File.Content, e.Revision, h.content)
	}
	w.after = next
	o.reported = max(o.reported, h.index)
}

// skipped checks the answer that events are no longer kept.
func (o *oracle) skipped(w *watcher, at lockapi.Compacted) {
	o.checks("reported compaction")
	if at.Oldest <= w.after || at.Revision < at.Oldest || !o.revisions.whole(at.Revision) {
		o.w.fail("%s, which had received all up to revision %d, gets that those up to %d are gone, at revision %d; the last is %d", w.who, w.after, at.Oldest, at.Revision, o.revisions.revision())
		return
	}
	w.after = at.Revision
	o.reported = max(o.reported, o.revisions.events[at.Revision].index)
}

// keepsEvents checks that a replica has all events after a revision that it has
// to keep: the latest ones since it restored a snapshot or started, up to their
// configured number. No run has as many as the bound on their bytes allows.
func (o *oracle) keepsEvents(p *process, oldest uint64) {
	o.look()
	if p.restored >= uint64(len(o.history)) {
		return // it has not applied that snapshot yet
	}
	o.w.stats.check("kept events")
	began, has := o.before(p.restored).Revision, p.replica.State().Revision
	if oldest > max(began, has-min(has, uint64(o.w.profile.events))) {
		o.w.fail("%s keeps no events up to revision %d; it is at %d, has had all since %d, and is to keep %d", p.m.id, oldest, has, began, o.w.profile.events)
	}
}

// reportedRevision returns the latest reported revision.
func (o *oracle) reportedRevision() uint64 {
	for r := o.revisions.revision(); r > 0; r-- {
		if o.revisions.events[r].index <= o.reported {
			return r
		}
	}
	return 0
}

// watches is another program of the user, which receives events of a kind.
// Watches of one kind share a stream.
func (u *user) watches(ctx context.Context, name string, kind lockapi.EventType) {
	w := &watcher{who: u.name + "'s " + name, ctx: ctx, asked: anyEvents(u.rng)}
	w.asked.kind = kind
	if u.rng.IntN(2) == 0 {
		w.after = u.w.oracle.reportedRevision()
	}
	for ctx.Err() == nil && !u.w.isOver() {
		u.w.oracle.watchers[w.who] = w
		for e, err := range u.client.Watch(ctx, w.after, w.asked.filters()...) {
			switch {
			case err != nil:
				u.w.trace.note(w.who, "ends: %v", err)
			case e.Compacted != nil:
				u.w.oracle.skipped(w, *e.Compacted)
			default:
				u.w.oracle.received(w, &e.CellEvent)
			}
			if u.w.failed() {
				return
			}
			if u.w.profile.slow && !u.w.faultsOver && u.rng.IntN(8) == 0 {
				u.wait(ctx, 4*time.Second) // a slow watcher must not block others
			}
		}
		u.pace(ctx)
	}
}

// polls asks one replica for events once.
func (u *user) polls(ctx context.Context) {
	w := &watcher{who: u.name, ctx: ctx, asked: anyEvents(u.rng), after: u.polled}
	limit := 1 + u.rng.IntN(20)
	route := fmt.Sprintf("%s?after=%d&limit=%d&wait_ms=%d%s", lockapi.RouteEvents, w.after, limit, u.rng.IntN(2)*u.rng.IntN(3000), w.asked.query())
	var got lockapi.EventList
	m := message{method: http.MethodGet, route: route, out: &got}
	at := u.w.machine(u.anyone())
	p := at.process
	err := u.send(ctx, 10*time.Second, at.id, m)
	if e := refusal(err); e != nil && e.Code == lockapi.CodeCompacted {
		if at.process == p {
			u.w.oracle.keepsEvents(p, e.Compacted.Oldest)
		}
		u.w.oracle.skipped(w, e.Compacted)
		u.polled = w.after
	}
	if err != nil {
		return
	}
	for i := range got.Events {
		u.w.oracle.received(w, &got.Events[i])
	}
	u.w.oracle.reached(w, got.Revision)
	u.polled = got.Revision
}

// reached checks the answer that a watcher has everything up to a revision.
func (o *oracle) reached(w *watcher, revision uint64) {
	o.checks("reported end of events")
	if next := o.revisions.next(w.after, w.asked); revision < w.after || revision > o.revisions.revision() || next != 0 && next <= revision {
		o.w.fail("%s gets that there is nothing of %+v after %d up to revision %d; the next one has %d, the last is %d", w.who, w.asked, w.after, revision, next, o.revisions.revision())
	}
}

// asksNow asks for the present revision. It must include everything reported
// before.
func (u *user) asksNow(ctx context.Context) {
	floor := u.w.oracle.floor()
	var got lockapi.EventList
	m := u.message(http.MethodGet, lockapi.RouteEvents+"?limit=1", nil, &got)
	if err := u.send(ctx, 10*time.Second, u.anyone(), m); err == nil {
		u.w.oracle.nowIs(u.name, floor, got.Revision)
	}
}

// nowIs checks the reported present revision. Events may have come with it, so
// it may be in the middle of an entry.
func (o *oracle) nowIs(who string, floor, revision uint64) {
	o.checks("reported present revision")
	if least := o.before(floor).Revision; revision < least || revision > o.revisions.revision() {
		o.w.fail("%s got revision %d as the cell's; %d had been reported before its call, and the last is %d", who, revision, least, o.revisions.revision())
		return
	}
	o.reported = max(o.reported, o.revisions.events[revision].index)
}

// follower keeps a copy of the files below a prefix.
type follower struct {
	files map[string]uint64 // their revisions
	ctx   context.Context
}

const followed = "/f/"

// follows is a second program of the user that keeps a copy.
func (u *user) follows(ctx context.Context) {
	for ctx.Err() == nil && !u.w.isOver() {
		f := &follower{files: map[string]uint64{}, ctx: ctx}
		u.w.oracle.followers[u.name] = f
		for change, err := range u.client.Follow(ctx, followed) {
			if err != nil || u.w.failed() {
				break
			}
			u.w.oracle.followed(u.name, f, &change)
		}
		u.pace(ctx)
	}
}

// followed checks a change from Follow: it must give the file's state at that
// revision, once.
func (o *oracle) followed(who string, f *follower, c *client.FileChange) {
	o.checks("followed")
	switch v := o.revisions.at(c.Path, c.Revision); {
	case c.Synced:
		o.knowsAll(who, f, c.Revision)
	case c.File == nil && v.file != nil:
		o.w.fail("%s gets that %s is gone at revision %d; it was there", who, c.Path, c.Revision)
	case c.File == nil:
		delete(f.files, c.Path)
	case v.revision != c.Revision || v.file == nil || v.file.Instance != c.File.Instance:
		o.w.fail("%s gets revision %d of %s, instance %d; the log has %d", who, c.Revision, c.Path, c.File.Instance, v.revision)
	case c.Revision <= f.files[c.Path]:
		o.w.fail("%s gets revision %d of %s after %d", who, c.Revision, c.Path, f.files[c.Path])
	default:
		f.files[c.Path] = c.Revision
	}
	if !c.Listed && !c.Synced {
		o.knowsAll(who, f, c.Revision)
	}
}

// knowsAll checks a copy after an event, or after the end of a list: every file
// must be as of that revision, or later.
func (o *oracle) knowsAll(who string, f *follower, revision uint64) {
	for path := range o.revisions.files {
		has, ok := f.files[path]
		v := o.revisions.at(path, revision)
		if strings.HasPrefix(path, followed) && (ok != (v.file != nil) || ok && has < v.revision) {
			o.w.fail("%s follows %s and has received all up to revision %d: it has %d of %s, which was at %d", who, followed, revision, has, path, v.revision)
		}
	}
}

// allReceived reports whether every watcher has received all events, and every
// copy is correct.
func (w *world) allReceived() bool {
	for _, one := range w.oracle.watchers {
		if one.ctx.Err() == nil && w.oracle.revisions.next(one.after, one.asked) != 0 {
			return false
		}
	}
	present := map[string]uint64{}
	for path := range w.oracle.revisions.files {
		if v := w.oracle.revisions.now(path); v.file != nil && strings.HasPrefix(path, followed) {
			present[path] = v.revision
		}
	}
	return !slices.ContainsFunc(slices.Collect(maps.Values(w.oracle.followers)), func(f *follower) bool {
		return f.ctx.Err() == nil && !maps.Equal(f.files, present)
	})
}
