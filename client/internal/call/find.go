package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// The delays between an event and the search for replicas. The actual delay is
// drawn from between half of it and all, so that the clients of a cell do not
// ask all at once.
const (
	firstLook = 2 * time.Second  // after the first answer; short programs have ended by then
	lookEvery = time.Minute      // after the last look, while there are answers
	soon      = 5 * time.Second  // after a change of master, or a replica that failed
	urgently  = time.Second      // when no replica gives a useful answer
	leastLook = 5 * time.Second  // between two looks, in any case
	lookTime  = 10 * time.Second // bounds a look
	askTime   = 3 * time.Second  // bounds the master's answer within it
)

// mostAsked is how many replicas one look asks for the members that they know.
const mostAsked = 3

// finder finds the replicas of a cell: it resolves the DNS names given to the
// client, and asks the cell for the URLs of its members. It passes them to the
// router. It is safe for concurrent use; the nil finder does no search.
//
// It has a goroutine only while it looks. It looks only if there was an answer
// or a failure since the last look. An unused client makes no requests, and
// need not be closed.
type finder struct {
	c      *Caller
	fixed  []*Endpoint // given as URLs
	names  []*dnsName  // given as DNS names
	learns bool        // the cell is asked for its members
	secure bool        // learned URLs must be https

	ctx  context.Context // ends with the client
	stop context.CancelFunc

	found      chan struct{} // closed once a replica is known
	foundOnce  sync.Once     // closes found
	waits      atomic.Bool   // a look is due, or under way
	publishing sync.Mutex    // held while endpoints are passed to the router

	mu     sync.Mutex // guards the following
	timer  *time.Timer
	due    time.Duration // clock of the look that is due
	looks  bool          // one is under way
	last   time.Duration // clock at the end of the last look
	looked bool          // there was one
	listed bool          // the master has listed the members

	revision uint64       // of the members, in the latest list or keepalive; 0 before the first
	current  atomic.Bool  // the list has this revision
	seen     atomic.Int64 // clock of the last keepalive's answer with a revision, ns
}

// SawRevision records the members' revision in a keepalive's answer. A change
// causes a look soon. While the revision stays the same, no look is needed.
func (f *finder) SawRevision(revision uint64) {
	if f == nil || revision == 0 {
		return
	}
	f.seen.Store(int64(f.c.Now()))
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

// isCurrent reports whether keepalives show that the known members are up to
// date.
func (f *finder) isCurrent() bool {
	return f.current.Load() && len(f.names) == 0 && f.c.Now()-time.Duration(f.seen.Load()) < lookEvery
}

// newFinder makes the finder of a caller that already has a router and a cell.
func newFinder(c *Caller, fixed []*Endpoint, names []*dnsName) *finder {
	f := &finder{c: c, fixed: fixed, names: names, learns: !c.OnlyURLs, found: make(chan struct{})}
	f.ctx, f.stop = context.WithCancel(context.Background())
	plain := false
	for _, e := range fixed {
		plain, f.secure = plain || e.scheme == "http", f.secure || e.scheme == "https"
	}
	for _, n := range names {
		plain, f.secure = plain || n.scheme == "http", f.secure || n.scheme == "https"
	}
	if plain && f.secure { // an attacker on the way can forge http answers
		f.learns = false
	}
	if len(fixed) > 0 {
		f.foundOnce.Do(func() { close(f.found) })
	}
	return f
}

// want schedules a look within d, unless one is due sooner. Every answer calls
// it with lookEvery, which has no effect if a look is due. Calls during a look
// are ignored, since the look's own requests may cause them: otherwise a client
// with a lost cell would look for ever.
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
	now := f.c.Now()
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

// KeepLooking schedules the usual look, since the cell answers.
func (f *finder) KeepLooking() { f.want(lookEvery) }

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
	for _, l := range f.beginAll() {
		if timing.Await(ctx, l.done) != nil {
			break
		}
	}
	if f.learns && f.c.router.pick() != nil {
		f.ask(ctx)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks, f.looked, f.last = false, true, f.c.Now()
	f.waits.Store(false)
}

// ask asks the master for the members. The master's answer is no older than the
// question, and there is one question at a time. So answers follow the order of
// the changes: a lagging or removed replica cannot bring back an old list.
// Before the first such answer, the lists that any replica knows are used as
// well: the given replica may be cut off from the others.
func (f *finder) ask(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var out lockapi.URLs
	err := f.c.repeat(within, &Call{Method: http.MethodGet, Path: lockapi.RouteURLs, aside: true, Out: &out})
	if err == nil {
		if learned := f.believe(&out); learned != nil {
			f.c.router.set(nil, learned)
			f.mu.Lock()
			f.listed = true
			if out.MembersRevision != 0 {
				f.revision = out.MembersRevision
				f.current.Store(true)
			}
			f.mu.Unlock()
		}
		return
	}
	f.c.Log.Debug("stout: the members are not known", "error", err)
	f.mu.Lock()
	listed := f.listed
	f.mu.Unlock()
	if _, refused := errors.AsType[*lockapi.Error](err); refused || listed {
		return
	}
	for _, e := range f.c.router.some(mostAsked) {
		var out lockapi.URLs
		q := Call{Method: http.MethodGet, Path: lockapi.RouteURLs, Query: "consistency=" + lockapi.ConsistencyStale, Stale: true, aside: true, Out: &out}
		if f.c.Attempt(ctx, &Route{To: e}, &q) == nil {
			f.c.router.learn(f.believe(&out)...)
		}
	}
}

// believe returns the endpoints of the members in the cell's list. It omits a
// URL that leads from https to http, or is not the URL of a host. It is nil if
// there are none, or the list is another cell's.
func (f *finder) believe(list *lockapi.URLs) (out []*Endpoint) {
	if !f.c.sameCell.isThis(list.CellID) {
		return nil
	}
	for _, r := range list.Replicas[:min(len(list.Replicas), mostLearned)] {
		e, err := learnedEndpoint(r.URL, f.secure)
		if err != nil {
			f.c.Log.Debug("stout: the URL of a member is not used", "member", lockapi.Clip(r.ID), "error", err)
			continue
		}
		out = append(out, e)
	}
	return out
}

// learnedEndpoint parses a URL in the cell's list.
func learnedEndpoint(text string, secure bool) (*Endpoint, error) {
	if err := lockapi.ValidateMemberURL(text); err != nil {
		return nil, err
	}
	e, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	if secure && e.scheme != "https" {
		return nil, errors.New("stout: " + e.URL + " leads from https to http")
	}
	return e, nil
}

// met learns an endpoint that has answered, such as a master that a replica
// named. A client that may not list the members follows the cell by these.
func (f *finder) met(e *Endpoint) {
	if f == nil || !f.learns || strings.Trim(e.path, "/") != "" || f.secure && e.scheme != "https" {
		return
	}
	f.c.router.learn(e)
}

// close ends a look that is under way, and prevents further ones.
func (f *finder) close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
}
