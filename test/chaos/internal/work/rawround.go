package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// errFroze ends a client's session without a word to the cell.
var errFroze = errors.New("the client froze with its lock")

// round takes a lock, works under it and gives it back, or looks at it. The
// error says why the session is over.
func (w *raw) round(ctx context.Context, r *rand.Rand, s *rawSession, t target) error {
	if r.IntN(5) == 0 {
		_ = w.brief(ctx, r, http.MethodGet, lockRoute(t.path), nil, nil) // what it shows is recorded
		return nil
	}
	req := w.request(r, s.id, t)
	grant, err := w.acquire(ctx, r, t.path, req)
	switch {
	case errors.Is(err, lockapi.CodeSessionNotFound):
		return err
	case err != nil && !lost(err):
		return nil // refused: nothing is left
	case err == nil && grant.State == lockapi.StateHeld:
		w.hold(ctx, r, &grant, t)
		if r.IntN(20) == 0 {
			w.freeze(ctx, r, s, &grant, t)
			return errFroze
		}
	}
	if err := w.release(ctx, r, t.path, req, grant.Token); errors.Is(err, lockapi.CodeSessionNotFound) {
		return err
	}
	return nil
}

// freeze is a client that stands still with its lock, for so long that its
// session expires, and then writes as if nothing had been: the worked example
// of docs/guarantees.md. What it writes the resource refuses if somebody else
// has written meanwhile.
func (w *raw) freeze(ctx context.Context, r *rand.Rand, s *rawSession, g *lockapi.Grant, t target) {
	s.abandon()
	pause(ctx, s.ttl+between(r, 0, 2*time.Second))
	w.write(g, t)
}

// write writes to what the lock guards. Only an exclusive hold keeps others
// out.
func (w *raw) write(g *lockapi.Grant, t target) {
	if t.mode == lockapi.Exclusive {
		w.opts.Resource.Write(t.path, g.Session+"/"+g.Handle, g.Token, nil)
	}
}

// request asks for the lock in one of the ways that there are, with a handle
// that was never used.
func (w *raw) request(r *rand.Rand, session string, t target) lockapi.LockRequest {
	w.serial++
	req := lockapi.NewLockRequest(session)
	req.Handle, req.Mode, req.Limit = fmt.Sprintf("%s-%d", w.title, w.serial), t.mode, t.limit
	switch r.IntN(3) {
	case 1:
		req.WaitMS = between(r, 50*time.Millisecond, time.Second).Milliseconds()
	case 2:
		req.WaitMS, req.Queue = between(r, 0, 300*time.Millisecond).Milliseconds(), true
	}
	if r.IntN(5) == 0 {
		req.LockDelayMS = between(r, 100*time.Millisecond, 2*time.Second).Milliseconds()
	}
	return req
}

// acquire sends a request, again for a while where its outcome is not known or
// it has a queue position. The error of a request that was refused for good is
// a *lockapi.Error for which lost is false.
func (w *raw) acquire(ctx context.Context, r *rand.Rand, path string, req lockapi.LockRequest) (grant lockapi.Grant, err error) {
	for range 1 + r.IntN(5) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(req.WaitMS)*time.Millisecond+answerTime)
		grant = lockapi.Grant{}
		err = w.call(within, r, http.MethodPut, lockRoute(path), req, &grant)
		cancel()
		if err == nil && grant.State == lockapi.StateHeld || err != nil && !lost(err) || ctx.Err() != nil {
			return grant, err
		}
		pause(ctx, between(r, 0, 50*time.Millisecond))
	}
	return grant, err
}

// hold works under a grant. A plain client does not watch its lease: what it
// writes once that is over the resource has to refuse.
func (w *raw) hold(ctx context.Context, r *rand.Rand, g *lockapi.Grant, t target) {
	length := between(r, 0, 60*time.Millisecond)
	if r.IntN(20) == 0 {
		length = between(r, 500*time.Millisecond, 3*time.Second)
	}
	for end := w.opts.Recorder.Now() + length; ; {
		w.write(g, t)
		if w.opts.Recorder.Now() >= end || ctx.Err() != nil {
			return
		}
		pause(ctx, between(r, time.Millisecond, 20*time.Millisecond))
		if r.IntN(8) == 0 {
			_ = w.brief(ctx, r, http.MethodGet, lockapi.RouteSequencers+"?value="+url.QueryEscape(g.Sequencer), nil, nil) // recorded
		}
	}
}

// release gives back a grant, or a place, until the answer is known or the
// patience is over. A grant is released by its token, as the contract advises,
// but not always.
func (w *raw) release(ctx context.Context, r *rand.Rand, path string, req lockapi.LockRequest, token uint64) (err error) {
	if r.IntN(5) == 0 {
		token = 0
	}
	for range 4 {
		err = w.brief(ctx, r, http.MethodDelete, releaseRoute(path, req.Session, req.Handle, token), nil, nil)
		if !lost(err) {
			break
		}
		pause(ctx, 20*time.Millisecond)
	}
	return err
}
