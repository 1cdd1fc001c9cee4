package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// errFroze ends a client's session without a call to the cell.
var errFroze = errors.New("the client froze with its lock")

// round acquires a lock, works under it and releases it, or reads it. The error
// explains why the session is over.
func (w *raw) round(ctx context.Context, r *rand.Rand, s *rawSession, t target) error {
	if r.IntN(5) == 0 {
		_ = w.brief(ctx, r, http.MethodGet, lockRoute(t.path), nil, nil) // the answer is recorded
		return nil
	}
	req := w.request(r, s.id, t)
	grant, err := w.acquire(ctx, r, t.path, req)
	began := w.opts.Recorder.Now()
	switch {
	case errors.Is(err, lockapi.CodeSessionNotFound):
		return err
	case err != nil && !lost(err):
		return nil // refused: there is no hold or queue position to release
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
	if grant.Sequencer != "" {
		w.opts.grants.ended(grant.Sequencer, w.opts.Recorder.Now()-began)
	}
	if r.IntN(3) == 0 {
		_ = w.brief(ctx, r, http.MethodGet, w.opts.grants.route(r, lockRoute(t.path)), nil, nil) // the answer is recorded
	}
	return nil
}

// freeze is a client that stops with its lock for so long that its session
// expires, and then writes as if nothing had happened: the worked example of
// docs/guarantees.md. The resource refuses that write if another client has
// written since. At last it asks whether its sequencer is valid.
func (w *raw) freeze(ctx context.Context, r *rand.Rand, s *rawSession, g *lockapi.Grant, t target) {
	s.abandon()
	cell.Pause(ctx, s.ttl+between(r, 0, 2*time.Second))
	w.write(g, t)
	w.opts.grants.ended(g.Sequencer, s.ttl)
	_ = w.brief(ctx, r, http.MethodGet, sequencerRoute(g.Sequencer), nil, nil) // the answer is recorded
}

// write writes to the resource that the lock guards. Only an exclusive hold
// excludes others.
func (w *raw) write(g *lockapi.Grant, t target) {
	if t.mode == lockapi.Exclusive {
		w.opts.Resource.Write(t.path, g.Session+"/"+g.Handle, g.Token, nil)
	}
}

// request returns a request for the lock, of a random kind, with a new handle.
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

// acquire sends a request, and repeats it for a while if its outcome is unknown
// or it has a queue position. The error of a final refusal is a *lockapi.Error
// for which lost is false.
func (w *raw) acquire(ctx context.Context, r *rand.Rand, path string, req lockapi.LockRequest) (grant lockapi.Grant, err error) {
	for range 1 + r.IntN(5) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(req.WaitMS)*time.Millisecond+answerTime)
		grant = lockapi.Grant{}
		err = w.call(within, r, http.MethodPut, lockRoute(path), req, &grant)
		cancel()
		if err == nil && grant.State == lockapi.StateHeld || err != nil && !lost(err) || ctx.Err() != nil {
			return grant, err
		}
		cell.Pause(ctx, between(r, 0, 50*time.Millisecond))
	}
	return grant, err
}

// hold works under a grant. A plain client does not watch its lease: the
// resource must refuse writes after its end.
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
		cell.Pause(ctx, between(r, time.Millisecond, 20*time.Millisecond))
		if r.IntN(8) == 0 {
			_ = w.brief(ctx, r, http.MethodGet, sequencerRoute(g.Sequencer), nil, nil) // recorded
		}
	}
}

// release releases a grant, or a queue position, until the answer is known or
// patience ends. It usually releases a grant by its token, as the contract
// advises.
func (w *raw) release(ctx context.Context, r *rand.Rand, path string, req lockapi.LockRequest, token uint64) (err error) {
	if r.IntN(5) == 0 {
		token = 0
	}
	for range 4 {
		err = w.brief(ctx, r, http.MethodDelete, releaseRoute(path, req.Session, req.Handle, token), nil, nil)
		if !lost(err) {
			break
		}
		cell.Pause(ctx, 20*time.Millisecond)
	}
	return err
}
