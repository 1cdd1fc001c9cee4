package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// heldAt names a grant or queue position of this session.
type heldAt struct{ path, handle string }

// reconciler compares the local holds with the cell's, when there is reason to:
// a new master is in office, or a request's outcome is unknown. Holds that the
// cell does not know are lost; orphans are released. The cell may revoke a
// grant if it does not know that the client received it; such a grant is
// requested again. The next keepalive repeats a comparison that fails.
type reconciler struct {
	s         *Session
	newMaster bool // a new master has not been asked yet; of the keeper's goroutine only

	mu      sync.Mutex    // guards the following
	once    bool          // look for orphans at the next keepalive
	lost    bool          // a request was lost, and may arrive late
	since   time.Duration // when the last one was lost
	again   time.Duration // when to look for its remains
	overdue bool          // look now: the last look failed, or lookNow was called
	asked   uint64        // how many looks were requested
	seen    uint64        // of those, before the present look began
}

// lostTime is how long each keepalive looks for orphans after a request was
// lost: much longer than a replica may be silent before it counts as dead.
const lostTime = 10 * time.Second

// expectOrphans looks for orphans that a lost request may still cause in the
// cell. It looks at each keepalive for lostTime, and then each time that twice
// as much time has passed. A request may arrive arbitrarily late. A grant to a
// request that is later than lostTime is released at the first keepalive after
// twice that time.
func (r *reconciler) expectOrphans() {
	now := r.s.c.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost, r.since, r.again = true, now, now
}

// expectOrphan makes the reconciler look at least once more.
func (r *reconciler) expectOrphan() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.once = true
	r.asked++
}

// lookNow is expectOrphans, starting at once.
func (r *reconciler) lookNow() {
	r.expectOrphans()
	r.mu.Lock()
	r.overdue = true
	r.asked++
	r.mu.Unlock()
	r.s.keeper.poll.end(false) // last: the next keepalive must see that it is overdue
}

func (r *reconciler) isOverdue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overdue
}

// begin reports whether there is reason to ask the cell. A session that never
// requested a lock has nothing to compare with a new master.
func (r *reconciler) begin() bool {
	now := r.s.c.clock.now()
	r.newMaster = r.newMaster && r.s.locks.isUsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.newMaster && !r.once && (!r.lost || now < r.again) {
		return false
	}
	r.overdue, r.once, r.seen = true, true, r.asked // until the look is complete
	return true
}

// end records that the comparison is complete. A look that was requested during
// it stays due.
func (r *reconciler) end() {
	now := r.s.c.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == r.seen {
		r.overdue, r.once = false, false
	}
	if late := now - r.since; late >= lostTime {
		r.again = now + late
	}
}

// run compares, if there is reason to. It waits for a slot of the limiter,
// since all sessions of a client see a new master at once.
func (r *reconciler) run(ctx context.Context) {
	if !r.begin() {
		return
	}
	s := r.s
	// Read before asking the cell, so that a grant or release in between does
	// not count as lost.
	held := s.locks.heldTokens()
	if !r.waitForSlot(ctx) {
		return
	}
	defer s.c.limiter.give()
	// Other sessions need the slot, so even a long ttl does not allow keeping it
	// long.
	ctx, cancel := context.WithTimeout(ctx, min(max(s.ttl/6, 200*time.Millisecond), 2*time.Second))
	defer cancel()
	state, err := s.read(ctx)
	if isNoSession(err) {
		_ = s.expire()
		return
	}
	if err != nil {
		s.c.log.Debug("stout: reconciling failed", "session_name", s.name, "error", err)
		return
	}
	if r.settle(ctx, held, &state) {
		r.end()
	}
}

// waitForSlot waits for a slot, but no longer than the next keepalive permits;
// the comparison then stays due.
func (r *reconciler) waitForSlot(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.s.lease.remaining()-r.s.ttl/3)
	defer cancel()
	return r.s.c.limiter.acquire(ctx)
}

// settle processes the session's state in the cell. It reports whether all
// resulting calls are done.
func (r *reconciler) settle(ctx context.Context, held map[heldAt]uint64, state *lockapi.SessionState) bool {
	r.newMaster = false
	orphans, unclaimed := r.s.locks.compare(held, state)
	for _, a := range unclaimed { // first: the cell revokes them after a short time
		if !r.claim(ctx, a) {
			return false
		}
	}
	for _, one := range orphans {
		q := releaseCall(one.path, r.s.id, one.handle, 0)
		if err := r.s.c.calls.Do(ctx, &q); err != nil {
			return false
		}
	}
	return true
}

// claim requests a held lock again, which confirms to the cell that the
// client has the grant. It reports whether there was an answer.
func (r *reconciler) claim(ctx context.Context, a *acquisition) bool {
	token, req := a.token, a.req // of a hold, neither changes
	req.WaitMS, req.Queue = 0, false
	var grant lockapi.Grant
	q := a.acquireCall(&req, &grant)
	err := r.s.c.calls.Do(ctx, &q)
	answered := err == nil || leavesNothing(err) || len(a.with) > 0 && errors.Is(err, lockapi.CodeConflict) // one of several is lost
	switch {
	case isNoSession(err):
		_ = r.s.expire()
	case answered && (err != nil || grant.Token != token):
		a.s.locks.lost(a.path, a.handle, token) // it had been revoked before
	}
	if q.Unanswered || !a.isHeld() {
		r.expectOrphans() // the request may have been granted since
	}
	return answered
}
