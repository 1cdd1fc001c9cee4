package simcell

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// A replica answers some calls from its own state. The oracle checks here how
// old that state may be. It includes everything that the replica had applied
// before its restart. With access on, it also includes everything reported
// until some time ago.

const (
	// staleFor is the setting of all replicas.
	staleFor = 5 * time.Second
	// wordLag is the longest time that a master's message may be on its way: a
	// message sometimes takes seconds, is resent for seconds, and goroutines
	// stall on both sides.
	wordLag = 15 * time.Second
)

// reportedAt is the latest reported entry at an instant.
type reportedAt struct {
	at    time.Duration
	index uint64
}

// noteReported records the latest reported entry.
func (o *oracle) noteReported() {
	if n := len(o.reports); n == 0 || o.reports[n-1].index < o.reported {
		o.reports = append(o.reports, reportedAt{o.w.now(), o.reported})
	}
}

// reportedUntil returns the latest entry with an effect reported by an instant.
func (o *oracle) reportedUntil(at time.Duration) uint64 {
	for _, t := range slices.Backward(o.reports) {
		if t.at <= at {
			return t.index
		}
	}
	return 0
}

// ownAnswer checks an answer of a process from its own state.
func (o *oracle) ownAnswer(p *process, q *http.Request, began time.Duration, got *httptest.ResponseRecorder) {
	text := cmp.Or(got.Header().Get(lockapi.HeaderRevision), got.Header().Get("X-Consul-Index"))
	if !stale(q) || got.Code != http.StatusOK && got.Code != http.StatusNotFound || text == "" {
		return
	}
	o.look()
	revision, _ := strconv.ParseUint(text, 10, 64)
	o.w.stats.check("answer from a replica's own state")
	if known := p.disk.knew; revision < known && !p.m.putBack {
		o.w.fail("%s answers %s from its own state at revision %d, and had applied %d before its start", p.m.id, q.URL, revision, known)
	}
	since := began - staleFor - wordLag
	if since < 0 || o.w.woke > since || slices.ContainsFunc(o.rightsAt(0, revision), func(r *rights) bool { return !r.On }) {
		return
	}
	o.w.stats.check("answer from a replica's own state while access is on")
	if floor := o.reportedUntil(since); len(o.rightsAt(floor, revision)) == 0 {
		o.w.fail("%s answers %s from its own state at revision %d while access is on; entry %d had been reported for %v", p.m.id, q.URL, revision, floor, staleFor+wordLag)
	}
}

// exile cuts a follower off from the others for longer than it may answer from
// its own state while access is on. A user calls it all the time. It has a
// random stream of its own, so that the run before it stays the same.
func (w *world) exile() {
	rng := rand.New(rand.NewPCG(w.opts.Seed, 7))
	if w.failed() || w.access == nil || !w.access.ready || rng.IntN(2) > 0 {
		return
	}
	w.heal()
	w.net.fair()
	m := w.machines[rng.IntN(len(w.machines))]
	if m == w.leader() || m.process == nil {
		return
	}
	w.trace.note("script", "exile")
	w.stats.fault("exile")
	w.part(m)
	for end := w.now() + staleFor + 2*wordLag; w.now() < end && !w.isOver(); w.until(time.Second) {
		w.asksOwn(w.users[0].name, m)
	}
}

// asksOwn asks a machine for data from its own state.
func (w *world) asksOwn(who string, m *machine) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.id+"/v1/files?prefix="+aclDir+"&limit=1&consistency=stale", nil)
	if err != nil {
		panic(err)
	}
	_, _ = w.endpoint(who, ctx).RoundTrip(q)
}
