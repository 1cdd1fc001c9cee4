package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// orphan is a grant or a position in a queue that nobody here knows of.
type orphan struct{ path, handle string }

// reconciler compares what is held here with what the cell says, when there is
// reason to: a new master is in office, or a request's fate is not known. Holds
// that the cell does not know of are lost; orphans are released; holds that the
// cell may take back, because it does not know that we were told of them, are
// asked for again. What fails is taken up at the next keepalive.
type reconciler struct {
	s         *Session
	newMaster bool // is in office, and not asked yet; only the keeper's goroutine looks

	mu      sync.Mutex    // guards the following
	once    bool          // look for orphans at the next keepalive
	lost    bool          // a request was lost, and may arrive late
	since   time.Duration // the last such one
	again   time.Duration // when to look for what it may have left
	overdue bool          // the last look failed
}

// lostTime is for how long the session is looked through at each keepalive
// after a request was lost: much longer than a replica is silent before it is
// taken for dead.
const lostTime = 10 * time.Second

// expectOrphans has the session looked through for what a lost request may yet
// leave in the cell: at each keepalive for lostTime, and then each time that
// twice as much time has passed. A request may arrive late by any time. A grant
// to one that is later than lostTime is released at the first keepalive after
// twice that time.
func (r *reconciler) expectOrphans() {
	now := r.s.c.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost, r.since, r.again = true, now, now
}

// expectOrphan has the session looked through at least once more.
func (r *reconciler) expectOrphan() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.once = true
}

// lookNow is expectOrphans, from now on.
func (r *reconciler) lookNow() {
	r.expectOrphans()
	r.mu.Lock()
	r.overdue = true
	r.mu.Unlock()
	r.s.keeper.poll.cutNow() // last: the next keepalive is to see that it is overdue
}

func (r *reconciler) isOverdue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overdue
}

// begin reports whether there is reason to ask the cell.
func (r *reconciler) begin() bool {
	now := r.s.c.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.newMaster && !r.once && (!r.lost || now < r.again) {
		return false
	}
	r.overdue = true
	return true
}

// end notes that the session was looked through.
func (r *reconciler) end() {
	now := r.s.c.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overdue, r.once = false, false
	if late := now - r.since; late >= lostTime {
		r.again = now + late
	}
}

// run compares, if there is reason to. It waits for a slot of the limiter,
// since all sessions of a client have a new master at once.
func (r *reconciler) run(ctx context.Context) {
	if !r.begin() {
		return
	}
	s := r.s
	// Read before the cell is asked: what is granted or released in between is
	// then not taken for lost.
	held := s.locks.heldTokens()
	if !r.waitForSlot(ctx) {
		return
	}
	defer s.c.limiter.give()
	// It has a slot meanwhile, which others need: a long ttl is no reason to
	// keep it.
	ctx, cancel := context.WithTimeout(ctx, min(max(s.ttl/6, 200*time.Millisecond), 2*time.Second))
	defer cancel()
	state, err := s.c.ReadSession(ctx, s.id)
	if errors.Is(err, lockapi.CodeSessionNotFound) {
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

// waitForSlot waits for a slot, but not for so long that the next keepalive
// would be late: after that the comparison is due still.
func (r *reconciler) waitForSlot(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.s.lease.remaining()-r.s.ttl/3)
	defer cancel()
	return r.s.c.limiter.take(ctx)
}

// settle takes in what the cell says, and does what follows. It reports whether
// all of that is done.
func (r *reconciler) settle(ctx context.Context, held map[string]uint64, state *lockapi.SessionState) bool {
	r.newMaster = false
	orphans, unclaimed := r.s.locks.compare(held, state)
	if len(orphans)+len(unclaimed) > 0 {
		r.expectOrphan() // until that has been seen through
	}
	for _, a := range unclaimed { // first: they wait for so long only
		if !r.reclaim(ctx, a) {
			return false
		}
	}
	for _, one := range orphans {
		q := releaseCall(one.path, r.s.id, one.handle, 0)
		if err := r.s.c.calls.do(ctx, &q); err != nil {
			return false
		}
	}
	return true
}

// reclaim asks again for what is held, which makes the grant our own. It
// reports whether there was an answer.
func (r *reconciler) reclaim(ctx context.Context, a *acquisition) bool {
	token, req := a.token, a.req // of a hold, neither changes
	req.WaitMS, req.Queue = 0, false
	var grant lockapi.Grant
	q := a.acquireCall(&req, &grant)
	err := r.s.c.calls.do(ctx, &q)
	answered := err == nil || leavesNothing(err)
	switch {
	case errors.Is(err, lockapi.CodeSessionNotFound):
		_ = r.s.expire()
	case answered && (err != nil || grant.Token != token):
		a.loseGrant(token) // it had been taken back before
	}
	if q.unsettled || !a.isHeld() {
		r.expectOrphans() // what was asked for may have been granted since
	}
	return answered
}
