package client

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// SessionOption adjusts a session that is being opened.
type SessionOption func(*lockapi.SessionRequest)

// TTL sets how long the session lives without a keepalive; the default is
// 12 s. A shorter ttl frees the locks of a dead client sooner and costs more
// keepalives. It should be well above the duration of a change of master.
func TTL(d time.Duration) SessionOption {
	return func(r *lockapi.SessionRequest) { r.TTLMS = d.Milliseconds() }
}

// Name sets the name under which operators see the session.
func Name(name string) SessionOption {
	return func(r *lockapi.SessionRequest) { r.Name = name }
}

// Meta sets up to 16 key-value pairs that operators see with the session.
func Meta(meta map[string]string) SessionOption {
	return func(r *lockapi.SessionRequest) { r.Meta = meta }
}

// ReadOption adjusts a read.
type ReadOption func(*bridge.ReadOptions)

// Waiters makes ReadLock return the first n positions of the lock's queue, at
// most lockapi.MaxWaiters. Other reads ignore it.
func Waiters(n int) ReadOption { return func(o *bridge.ReadOptions) { o.Waiters = n } }

// Stale lets any replica answer from its own state, at once and perhaps out of
// date. Without it, reads are linearizable.
func Stale() ReadOption { return func(o *bridge.ReadOptions) { o.Stale = true } }

// LockOption adjusts a request for a lock.
type LockOption func(*lockOptions)

type lockOptions struct {
	mode    lockapi.Mode
	limit   int
	delay   time.Duration
	wait    time.Duration
	hasWait bool

	priority int
	with     []string
}

// Shared asks for the lock together with any number of other shared holders.
func Shared() LockOption { return func(o *lockOptions) { o.mode = lockapi.Shared } }

// Limit asks for a semaphore: shared, with at most n holders at once. All
// holders of a lock must name the same limit; otherwise the call returns
// ErrConflict. Limit(0) is Shared.
func Limit(n int) LockOption {
	return func(o *lockOptions) { o.mode, o.limit = lockapi.Shared, n }
}

// Priority makes Lock wait before the waiters of lower priority, in 0 to
// lockapi.MaxPriority. The default is 0.
func Priority(n int) LockOption { return func(o *lockOptions) { o.priority = n } }

// With makes Lock acquire further locks with the first, at most lockapi.MaxSet
// in all. It gets all of them at once or none, in the same mode, and waits for
// all in one queue position. So callers that name the same locks in different
// orders never wait for each other. The Held is one for all locks: it ends with
// the first loss, and Unlock releases all.
func With(paths ...string) LockOption {
	return func(o *lockOptions) { o.with = append(slices.Clip(o.with), paths...) }
}

// LockDelay delays the next grant of the lock by d if this hold ends because
// its session expired. Requests under way that no fencing token protects can
// finish in that time.
func LockDelay(d time.Duration) LockOption { return func(o *lockOptions) { o.delay = d } }

// Wait makes Lock give up after d, with ErrLockHeld if the lock is held; if the
// cell does not answer, up to a few seconds later. Without it Lock waits until
// its context ends. TryLock ignores it.
func Wait(d time.Duration) LockOption {
	return func(o *lockOptions) { o.wait, o.hasWait = min(d, longestWait), true }
}

func makeLockOptions(opts []LockOption) lockOptions {
	o := lockOptions{mode: lockapi.Exclusive}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func (o *lockOptions) request(session, handle string) lockapi.LockRequest {
	req := lockapi.NewLockRequest(session)
	req.Handle = handle
	req.Mode = o.mode
	req.Limit = int64(o.limit)
	req.LockDelayMS = o.delay.Milliseconds()
	req.Priority = int64(o.priority)
	req.With = o.with
	return req
}
