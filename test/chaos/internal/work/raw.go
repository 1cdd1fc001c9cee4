package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// answerTime is how long a plain client waits for an answer, in addition to the
// wait that the call asks for.
const answerTime = 3 * time.Second

// raw is a client of plain HTTP. It sends each call to a random replica, so a
// retry after a lost answer may go to another one.
type raw struct {
	title  string
	opts   *Options
	http   *http.Client
	serial int // of the last handle
}

func newRaw(title string, opts *Options) *raw {
	return &raw{title: title, opts: opts, http: &http.Client{Transport: opts.Recorder.Transport(title, nil)}}
}

func (w *raw) name() string { return w.title }

func (w *raw) close() { w.http.CloseIdleConnections() }

// call makes one call at a random replica. If the cell refuses it, the error is
// a *lockapi.Error.
func (w *raw) call(ctx context.Context, r *rand.Rand, method, target string, in, out any) error {
	_, err := cell.CallVia(ctx, w.http, method, w.opts.URLs[r.IntN(len(w.opts.URLs))], target, in, out)
	return err
}

// brief makes a call without a waiting time in the cell.
func (w *raw) brief(ctx context.Context, r *rand.Rand, method, target string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	return w.call(ctx, r, method, target, in, out)
}

// insist repeats a brief call until its answer is final or ctx ends.
func (w *raw) insist(ctx context.Context, r *rand.Rand, method, target string, in, out any) error {
	for {
		err := w.brief(ctx, r, method, target, in, out)
		if !lost(err) || ctx.Err() != nil {
			return err
		}
		cell.Pause(ctx, 20*time.Millisecond)
	}
}

// lost reports whether the call can and must be repeated to learn its outcome.
func lost(err error) bool {
	var refused *lockapi.Error
	return err != nil && (!errors.As(err, &refused) || refused.Code == lockapi.CodeOutcomeUnknown || refused.Code == lockapi.CodeNoMaster)
}

// rawSession is a session that a goroutine keeps alive.
type rawSession struct {
	id   string
	ttl  time.Duration
	stop context.CancelFunc
	kept sync.WaitGroup
}

// open opens a session and keeps it alive until it is abandoned or ctx ends.
func (w *raw) open(ctx context.Context, r *rand.Rand, ttl time.Duration) (*rawSession, error) {
	req := lockapi.NewSessionRequest()
	req.TTLMS, req.Name = ttl.Milliseconds(), w.title
	var opened lockapi.Session
	if err := w.brief(ctx, r, http.MethodPost, lockapi.RouteSessions, req, &opened); err != nil {
		return nil, err
	}
	s := &rawSession{id: opened.ID, ttl: ttl}
	ctx, s.stop = context.WithCancel(ctx)
	own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	s.kept.Go(func() { w.keepAlive(ctx, own, s.id, ttl) })
	return s, nil
}

// abandon stops the keepalives; the session expires.
func (s *rawSession) abandon() {
	s.stop()
	s.kept.Wait()
}

func (w *raw) keepAlive(ctx context.Context, r *rand.Rand, id string, ttl time.Duration) {
	ack := uint64(0)
	for ctx.Err() == nil {
		req := lockapi.KeepaliveRequest{WaitMS: r.Int64N(ttl.Milliseconds() / 2), Ack: ack}
		within, cancel := context.WithTimeout(ctx, time.Duration(req.WaitMS)*time.Millisecond+ttl/4)
		var kept lockapi.Keepalive
		err := w.call(within, r, http.MethodPost, sessionRoute(id)+"/keepalive", req, &kept)
		cancel()
		for _, e := range kept.Events {
			ack = max(ack, e.Seq)
		}
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			return
		}
		if err != nil {
			cell.Pause(ctx, 20*time.Millisecond)
		}
	}
}

func (w *raw) work(ctx context.Context, r *rand.Rand, epoch int) {
	s, err := w.open(ctx, r, between(r, 2*time.Second, 5*time.Second))
	if err != nil {
		cell.Pause(ctx, 50*time.Millisecond)
		return
	}
	defer s.abandon()
	for ctx.Err() == nil {
		if err := w.round(ctx, r, s, draw(r, epoch)); err != nil {
			return
		}
		cell.Pause(ctx, between(r, 5*time.Millisecond, 60*time.Millisecond))
	}
	if r.IntN(4) > 0 {
		_ = w.brief(ctx, r, http.MethodDelete, sessionRoute(s.id), nil, nil) // if this fails, the session expires
	}
}

func (w *raw) prove(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.opts.Seed, uint64(len(w.title))))
	var opened lockapi.Session
	if err := w.insist(ctx, r, http.MethodPost, lockapi.RouteSessions, lockapi.NewSessionRequest(), &opened); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	path, req := "/chaos/prove/"+w.title, lockapi.NewLockRequest(opened.ID)
	if err := w.insist(ctx, r, http.MethodPut, lockRoute(path), req, nil); err != nil {
		return fmt.Errorf("acquire a lock: %w", err)
	}
	if err := w.insist(ctx, r, http.MethodDelete, releaseRoute(path, opened.ID, "", 0), nil, nil); err != nil {
		return fmt.Errorf("release the lock: %w", err)
	}
	return w.insist(ctx, r, http.MethodDelete, sessionRoute(opened.ID), nil, nil)
}

// grants keeps the sequencers of the latest long grants that have ended. A
// master that was paused or cut off may still have them in its state.
type grants struct {
	mu   sync.Mutex
	last []string
}

// Bounds of grants.
const (
	longGrant  = 200 * time.Millisecond
	keptGrants = 16
)

// ended adds a grant that lasted for a time.
func (g *grants) ended(sequencer string, lasted time.Duration) {
	if lasted < longGrant {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = append(g.last[max(0, len(g.last)+1-keptGrants):], sequencer)
}

// route returns the route that checks one of the sequencers, or def before the
// first of them.
func (g *grants) route(r *rand.Rand, def string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.last) == 0 {
		return def
	}
	return sequencerRoute(g.last[r.IntN(len(g.last))])
}

func sequencerRoute(sequencer string) string {
	return lockapi.RouteSequencers + "?value=" + url.QueryEscape(sequencer)
}

func sessionRoute(id string) string { return lockapi.RouteSessions + "/" + id }

func lockRoute(path string) string { return lockapi.RouteLocks + lockapi.EscapePath(path) }

func releaseRoute(path, session, handle string, token uint64) string {
	q := url.Values{"session": {session}, "handle": {handle}}
	if token != 0 {
		q.Set("token", strconv.FormatUint(token, 10))
	}
	return lockRoute(path) + "?" + q.Encode()
}
