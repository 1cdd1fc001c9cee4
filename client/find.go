package client

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// How long after something has happened replicas are looked for: at half of it at
// the earliest, drawn, so that the clients of a cell do not come all at once.
const (
	firstLook = 2 * time.Second  // after the first answer; short programs are through before
	lookEvery = time.Minute      // after the last look, while there are answers
	soon      = 5 * time.Second  // after a change of master, or a replica that failed
	urgently  = time.Second      // where nobody answers to any purpose
	leastLook = 5 * time.Second  // between two looks, whatever happens
	lookTime  = 10 * time.Second // is the most that one takes
	askTime   = 3 * time.Second  // of it for the master's answer
)

// mostAsked is how many replicas are asked in one look for what they have heard.
const mostAsked = 3

// finder finds the replicas of a cell: by asking the DNS for the names that the
// client was given, and the cell for the URLs of its members. What it finds the
// targets know. It is safe for concurrent use; the nil finder finds nothing.
//
// It has no goroutine but while it looks, and looks only where there was an
// answer or a failure since the last time: a client that is left alone asks for
// nothing, and needs not be closed.
type finder struct {
	c      *caller
	log    *slog.Logger
	fixed  []*endpoint // that were given as URLs
	names  []*dnsName  // that were given as names of the DNS
	dns    Resolver
	learns bool // the cell is asked for its members
	secure bool // what it tells is called by https only

	ctx  context.Context // ends with the client
	stop context.CancelFunc

	found chan struct{} // closed once a replica is known
	waits atomic.Bool   // a look is due, or under way

	publishing sync.Mutex // guards the following
	isFound    bool       // found is closed

	mu     sync.Mutex // guards the following
	timer  *time.Timer
	due    time.Duration // clock of the look that is due
	looks  bool          // one is under way
	last   time.Duration // clock at the end of the last look
	looked bool          // there was one
	told   bool          // the master has told the members

	// Of the members, as keepalives' answers have it; 0 before the first. A look
	// that began after it was first seen has read these members or later ones.
	revision uint64
	current  atomic.Bool  // such a look has succeeded
	seen     atomic.Int64 // clock of the last answer with this revision, ns
}

// revised takes the revision of the members from a keepalive's answer. A change is
// looked for soon. While the revision stays the same, nothing has to be looked for.
func (f *finder) revised(revision uint64) {
	if f == nil || revision == 0 {
		return
	}
	f.seen.Store(int64(f.c.clock.now()))
	f.mu.Lock()
	changed := f.revision != revision
	if changed {
		f.revision = revision
		f.current.Store(false)
	}
	f.mu.Unlock()
	if changed {
		f.want(soon)
	}
}

// isCurrent reports whether keepalives show that the known members are the present
// ones.
func (f *finder) isCurrent() bool {
	return f.current.Load() && len(f.names) == 0 && f.c.clock.now()-time.Duration(f.seen.Load()) < lookEvery
}

// newFinder makes the finder of a caller whose targets and cell are there.
func newFinder(c *caller, fixed []*endpoint, names []*dnsName, dns Resolver, learns bool) *finder {
	f := &finder{c: c, log: c.log, fixed: fixed, names: names, dns: dns, learns: learns, found: make(chan struct{})}
	f.ctx, f.stop = context.WithCancel(context.Background())
	plain := false
	for _, e := range fixed {
		plain, f.secure = plain || e.scheme == "http", f.secure || e.scheme == "https"
	}
	for _, n := range names {
		plain, f.secure = plain || n.scheme == "http", f.secure || n.scheme == "https"
	}
	if plain && f.secure { // anybody on the way may tell what was heard by http
		f.learns = false
	}
	if len(fixed) > 0 {
		f.isFound = true
		close(f.found)
	}
	return f
}

// want has replicas looked for within d, unless that is due sooner. lookEvery is said
// with every answer, and does nothing where a look is due. What is wanted during a
// look may be by what the look itself asks, and counts for nothing: else a client
// whose cell is gone would look for ever.
func (f *finder) want(d time.Duration) {
	if f == nil || d == lookEvery && (f.waits.Load() || f.isCurrent()) || len(f.names) == 0 && !f.learns {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks || f.ctx.Err() != nil {
		return
	}
	if !f.looked {
		d = min(d, firstLook)
	}
	now := f.c.clock.now()
	at := now + d/2 + rand.N(d/2)
	if f.looked {
		at = max(at, f.last+leastLook)
	}
	if f.waits.Load() && f.due <= at {
		return
	}
	f.due = at
	f.waits.Store(true)
	if f.timer == nil {
		f.timer = time.AfterFunc(at-now, f.look)
		return
	}
	f.timer.Reset(at - now)
}

// look looks once, by DNS and by the cell.
func (f *finder) look() {
	f.mu.Lock()
	if f.looks || f.ctx.Err() != nil {
		f.mu.Unlock()
		return
	}
	f.looks = true
	f.mu.Unlock()

	ctx, cancel := context.WithTimeout(f.ctx, lookTime)
	defer cancel()
	f.lookUp(ctx)
	if f.learns && f.c.targets.pick() != nil {
		f.ask(ctx)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks, f.looked, f.last = false, true, f.c.clock.now()
	f.waits.Store(false)
}

// ask asks the master for the members. Its answers follow one another as the
// members do, since it is no older than the question, and there is one question
// at a time: neither a replica that lags nor one that was removed can bring back
// what was. Before the first of them what any replica has heard is taken as well:
// the one that the client was given may be cut off from the others.
func (f *finder) ask(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f.mu.Lock()
	revision := f.revision
	f.mu.Unlock()
	var out lockapi.URLs
	err := f.c.see(within, &call{method: http.MethodGet, path: lockapi.RouteURLs, aside: true, out: &out})
	if err == nil {
		if learned := f.believe(&out); learned != nil {
			f.c.targets.setLearned(learned)
			f.mu.Lock()
			f.told = true
			f.current.Store(revision != 0 && revision == f.revision)
			f.mu.Unlock()
		}
		return
	}
	f.log.Debug("stout: the members are not known", "error", err)
	f.mu.Lock()
	told := f.told
	f.mu.Unlock()
	if _, refused := errors.AsType[*lockapi.Error](err); refused || told {
		return
	}
	for _, e := range f.c.targets.some(mostAsked) {
		var out lockapi.URLs
		q := call{method: http.MethodGet, path: lockapi.RouteURLs, query: "consistency=" + lockapi.ConsistencyStale, stale: true, aside: true, out: &out}
		if f.c.attempt(ctx, &route{to: e}, &q) == nil {
			f.c.targets.learn(f.believe(&out)...)
		}
	}
}

// believe is the endpoints of the members that the cell has told: none that leads
// from https to http, or is anything else than the URL of a host. It is nil where
// there are none.
func (f *finder) believe(told *lockapi.URLs) (out []*endpoint) {
	if !f.c.cell.isThis(told.CellID) {
		return nil
	}
	for _, r := range told.Replicas[:min(len(told.Replicas), mostLearned)] {
		e, err := learnedEndpoint(r.URL, f.secure)
		if err != nil {
			f.log.Debug("stout: the URL of a member is not used", "member", lockapi.Clip(r.ID), "error", err)
			continue
		}
		out = append(out, e)
	}
	return out
}

// learnedEndpoint reads a URL that the cell has told.
func learnedEndpoint(text string, secure bool) (*endpoint, error) {
	if err := lockapi.ValidateMemberURL(text); err != nil {
		return nil, err
	}
	e, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	if secure && e.scheme != "https" {
		return nil, errors.New("stout: " + e.base + " leads from https to http")
	}
	return e, nil
}

// met notes a master that was named and has answered: whoever may not ask for the
// members follows the cell by these.
func (f *finder) met(e *endpoint) {
	if f == nil || !f.learns || strings.Trim(e.path, "/") != "" || f.secure && e.scheme != "https" {
		return
	}
	f.c.targets.learn(e)
}

// close ends what is under way, and all looking.
func (f *finder) close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
}
