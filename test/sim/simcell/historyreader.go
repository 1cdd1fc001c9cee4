package simcell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// In some runs a program keeps reading histories, from any replica, with the
// credential of a user. The oracle checks the answers against the log. The
// program also takes locks of its own and ends them in every possible way.

// historyReader is that program.
type historyReader struct {
	*user
}

// newHistoryReader draws whether there is one. It has a random stream of its
// own, so that other runs stay the same.
func newHistoryReader(w *world) *historyReader {
	rng := rand.New(rand.NewPCG(w.opts.Seed, 6))
	if rng.IntN(4) > 0 {
		return nil
	}
	w.oracle.causes = &causes{}
	return &historyReader{user: &user{
		w: w, name: "u1", rng: rng, clock: &clock{w: w, rate: 1}, ctx: context.Background(),
		promised: map[string]time.Duration{}, epochs: map[string]uint64{}, releasing: map[uint64]bool{},
	}}
}

// start starts the reader.
func (h *historyReader) start() {
	if h == nil {
		return
	}
	go func() {
		for !h.w.isOver() {
			h.wait(h.ctx, time.Second)
			h.reads(h.ctx)
		}
	}()
	go func() {
		for !h.w.faultsOver && !h.w.isOver() {
			h.wait(h.ctx, time.Second)
			h.makes(h.ctx)
		}
	}()
}

// pastPaths are the paths with histories to read.
var pastPaths = []string{"/one", "/two", "/few", "/mix", "/past/a", "/past/a", "/past/b", "/f/a", aclDir + "a"}

// reads asks one replica for a history.
func (h *historyReader) reads(ctx context.Context) {
	at := h.w.machine(h.anyone())
	asks, limit := pick(h.rng, pastPaths...), pick(h.rng, 1, 2, 5, 20, 1000)
	p := at.process
	var got lockapi.History
	m := h.message(http.MethodGet, lockapi.RouteHistory+"?"+url.Values{"path": {asks}, "limit": {fmt.Sprint(limit)}}.Encode(), nil, &got)
	if h.send(ctx, 10*time.Second, at.id, m) != nil || at.process != p {
		return
	}
	h.w.oracle.recounted(at.id, asks, limit, &got)
	h.w.oracle.keepsEvents(p, got.Oldest)
	if got.Revision < p.recounted {
		h.w.fail("%s returns the history of %s up to revision %d; earlier it returned one up to %d", at.id, asks, got.Revision, p.recounted)
	}
	p.recounted = got.Revision
}

// makes lets one session take a lock while another waits for it, and ends the
// hold in some way.
func (h *historyReader) makes(ctx context.Context) {
	path := pick(h.rng, "/past/a", "/past/b")
	first, second := h.lives(ctx), h.lives(ctx)
	if first == "" || second == "" {
		return
	}
	holds, waits := h.newPair(first, path), h.newPair(second, path)
	token := h.acquires(ctx, holds, 0, false)
	if h.rng.IntN(2) == 0 {
		go h.acquires(ctx, waits, 2*time.Second, false)
		h.wait(ctx, time.Second)
	}
	h.acquires(ctx, waits, 0, true) // and keeps its place, if it has one
	h.wait(ctx, time.Second)
	switch h.rng.IntN(5) {
	case 0:
		h.forces(ctx, holds)
	case 1:
		h.freed(ctx, holds, token)
	case 2:
		h.bareClose(ctx, h.anyone(), first)
	case 3:
		h.bareKeepalive(ctx, h.anyone(), first, time.Second)
	}
	if h.rng.IntN(2) == 0 {
		h.wait(ctx, 3*time.Second)
		h.bareClose(ctx, h.anyone(), second)
	}
}

// lives opens a session, which is left until its end.
func (h *historyReader) lives(ctx context.Context) string {
	h.handles++
	return h.open(ctx, h.anyone(), fmt.Sprintf("past-%d", h.handles), between(h.rng, time.Second, 5*time.Second))
}

// acquires requests a lock once. It returns the token if the lock was granted.
func (h *historyReader) acquires(ctx context.Context, p pair, wait time.Duration, queue bool) uint64 {
	q := lockapi.LockRequest{Mode: lockapi.Exclusive, WaitMS: wait.Milliseconds(), Queue: queue}
	g, _, err := h.request(ctx, 4*time.Second, h.anyone(), p, q)
	if err != nil || g.State != lockapi.StateHeld {
		return 0
	}
	return g.Token
}

// forces releases a pair's hold or wait by force.
func (h *historyReader) forces(ctx context.Context, p pair) {
	route := lockapi.RouteLocks + p.path + "?" + url.Values{"session": {p.session}, "handle": {p.handle}, "by_force": {"true"}}.Encode()
	_ = h.send(ctx, 5*time.Second, h.anyone(), h.message(http.MethodDelete, route, nil, &lockapi.Released{}))
}
