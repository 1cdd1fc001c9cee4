package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

const (
	// expiryBound is the contract's limit for the end of a session after its
	// ttl and the slack for clocks.
	expiryBound = time.Second
	// machineShare is the allowance for a busy machine: for the end of the
	// session, and until the test sees it.
	machineShare = 30 * time.Second
)

// latest returns the longest life of a session with that ttl after its last
// extension, under the default clock drift of 1 %.
func latest(ttl time.Duration) time.Duration { return ttl + ttl*2/100 + expiryBound + machineShare }

func waitUntil(t *testing.T, at time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(at)):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// TestSessionsExpire: a session ends never before its ttl, and not long after
// it.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	master := c.Ready(t)
	for i, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			s := open(t, c.Replicas()[i], ttl)
			opened := time.Now()
			alive, gone := lifeOf(t, c.Replicas()[i], s.ID)
			wantLife(t, ttl, before, opened, alive, gone)
		})
	}
	for name, test := range map[string]func(*testing.T, *cell.Cell, *cell.Replica){"kept alive": keptAlive, "past due": pastDue, "lock-delay": lockDelay} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c, master)
		})
	}
}

// lifeOf reads a session until it is gone. alive is when the last successful
// read was sent; gone is when the first failing read was answered.
func lifeOf(t *testing.T, r *cell.Replica, id string) (alive, gone time.Time) {
	err := cell.Wait(cell.Bounded(t), "session "+id+" is gone", func(ctx context.Context) error {
		sent := time.Now()
		_, err := r.Call(ctx, http.MethodGet, sessionRoute(id), nil, nil)
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			gone = time.Now()
			return nil
		}
		if err == nil {
			alive, err = sent, errors.New("it is alive")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return alive, gone
}

// wantLife checks the life of a session that was last extended between from and
// to.
func wantLife(t *testing.T, ttl time.Duration, from, to, alive, gone time.Time) {
	if lived := gone.Sub(from); lived < ttl {
		t.Errorf("a session of %v ended after %v at most", ttl, lived)
	}
	if lived := alive.Sub(to); lived > latest(ttl) {
		t.Errorf("a session of %v lived for %v at least", ttl, lived)
	}
	t.Logf("a session of %v was seen alive %v after its opening, and gone after %v", ttl, alive.Sub(to), gone.Sub(from))
}

// doubling repeats a test with a doubled ttl while it reports that the machine
// was too slow for the last one.
func doubling(t *testing.T, ttl time.Duration, test func(ttl time.Duration) (inTime bool)) {
	for ; !test(ttl); ttl *= 2 {
		if t.Logf("the machine was too slow for a ttl of %v", ttl); ttl > time.Minute {
			t.FailNow()
		}
	}
}

// keptAlive extends a session by waiting keepalives through each replica, and
// then stops them.
func keptAlive(t *testing.T, c *cell.Cell, _ *cell.Replica) {
	doubling(t, 4*time.Second, func(ttl time.Duration) bool { return keepsAlive(t, c, ttl) })
}

// keepsAlive is keptAlive with a ttl. A master holds a keepalive until a quarter
// of the ttl is left.
func keepsAlive(t *testing.T, c *cell.Cell, ttl time.Duration) (inTime bool) {
	from := time.Now()
	s := open(t, c.Replicas()[0], ttl)
	var to time.Time
	for i := range 4 {
		extended := from
		from = time.Now()
		var k lockapi.Keepalive
		_, err := cell.Insist(cell.Bounded(t), c.Replicas()[i%3:], http.MethodPost, sessionRoute(s.ID)+"/keepalive", lockapi.KeepaliveRequest{WaitMS: 60_000}, &k)
		to = time.Now()
		if took := to.Sub(extended); took >= ttl && errors.Is(err, lockapi.CodeSessionNotFound) || took >= ttl*3/4 && err == nil && k.HeldMS == 0 {
			return false
		}
		must(t, err)
		from = from.Add(time.Duration(k.HeldMS) * time.Millisecond) // the client counts from here
		if from.After(to) {
			t.Errorf("the call took less than the reported holding time of %d ms", k.HeldMS)
		}
		if k.TTLMS != ttl.Milliseconds() || k.HeldMS == 0 {
			t.Errorf("keepalive: %+v", k)
		}
	}
	alive, gone := lifeOf(t, c.Replicas()[0], s.ID)
	wantLife(t, ttl, from, to, alive, gone)
	return true
}

// pastDue: a keepalive after the ttl does not revive the session.
func pastDue(t *testing.T, _ *cell.Cell, master *cell.Replica) {
	const ttl = time.Second
	s := open(t, master, ttl)
	// From here on it is due, or already gone.
	waitUntil(t, time.Now().Add(ttl+ttl*3/100))
	_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{master}, http.MethodPost, sessionRoute(s.ID)+"/keepalive", nil, nil)
	wantCode(t, "a keepalive past due", err, lockapi.CodeSessionNotFound)
}

// lockDelay: the lock of an expired session has no holder during its delay; the
// lock of a closed session is free at once.
func lockDelay(t *testing.T, c *cell.Cell, master *cell.Replica) {
	doubling(t, 2*time.Second, func(ttl time.Duration) bool { return delaysTheLock(t, c, master, ttl) })

	const path = "/closed"
	closing := open(t, master, aWhile)
	req := ask(closing.ID, "", 0)
	req.LockDelayMS = lockapi.MaxLockDelayMS
	acquire(t, master, path, req)
	call[struct{}](t, master, http.MethodDelete, sessionRoute(closing.ID), nil)
	if l := read(t, master, path); l.State != lockapi.StateFree {
		t.Errorf("the lock of a session that was closed: %+v", l)
	}
}

// delaysTheLock is lockDelay for an expired session with a ttl.
func delaysTheLock(t *testing.T, c *cell.Cell, master *cell.Replica, ttl time.Duration) (inTime bool) {
	path, delay := "/delayed"+ttl.String(), 2*ttl
	waiter := open(t, master, aWhile)
	begun := time.Now()
	dying := open(t, c.Replicas()[0], ttl)
	req := ask(dying.ID, "", 0)
	req.LockDelayMS = delay.Milliseconds()
	var first lockapi.Grant
	_, err := cell.Insist(cell.Bounded(t), c.Replicas()[1:2], http.MethodPut, lockRoute(path), req, &first)
	if errors.Is(err, lockapi.CodeSessionNotFound) && time.Since(begun) >= ttl {
		return false
	}
	must(t, err)
	waiting := begin[lockapi.Grant](t, c.Replicas()[2], http.MethodPut, lockRoute(path), ask(waiter.ID, "", aWhile))
	lifeOf(t, master, dying.ID)
	_, err = cell.Insist(cell.Bounded(t), []*cell.Replica{master}, http.MethodPut, lockRoute(path), ask(waiter.ID, "another", 0), nil)
	if !errors.Is(err, lockapi.CodeLockDelayed) && time.Since(begun) >= ttl+delay {
		return false
	}
	refused := new(lockapi.Error)
	if !errors.As(err, &refused) || refused.Code != lockapi.CodeLockDelayed ||
		refused.DelayRemainingMS <= 0 || refused.DelayRemainingMS > delay.Milliseconds()*102/100 {
		t.Errorf("a try within the delay: %+v", err)
	}
	next := await(t, "the waiter", waiting)
	must(t, next.err)
	if after := time.Since(begun); after < ttl+delay {
		t.Errorf("the lock was granted %v after its holder's session began, which had a ttl of %v and a lock-delay of %v", after, ttl, delay)
	}
	if next.out.Token <= first.Token {
		t.Errorf("token %d after %d", next.out.Token, first.Token)
	}
	release(t, master, next.out)
	return true
}

// TestNewMasterGivesAWholeTTL: sessions and lock-delays restart when the master
// changes, by a kill or by a transfer.
func TestNewMasterGivesAWholeTTL(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	c := cell.New(t, cell.Options{})
	for _, change := range []string{"kill", "transfer"} {
		old := c.Ready(t)
		s := open(t, old, ttl)
		must(t, cell.Wait(cell.Bounded(t), "half of the ttl is over", func(ctx context.Context) error {
			var v lockapi.SessionState
			_, err := old.Call(ctx, http.MethodGet, sessionRoute(s.ID), nil, &v)
			if errors.Is(err, lockapi.CodeSessionNotFound) {
				t.Fatal(err)
			}
			if err == nil && (v.LeaseRemainingMS == nil || *v.LeaseRemainingMS > ttl.Milliseconds()/2) {
				err = errors.New("not yet")
			}
			return err
		}))
		changed := time.Now()
		if change == "kill" {
			must(t, old.Kill())
		} else {
			transferTo(t, c, old, c.Others(old)[0])
		}
		master := newMaster(t, c, old)
		v := call[lockapi.SessionState](t, master, http.MethodGet, sessionRoute(s.ID), nil)
		least := ttl - time.Since(changed)
		if v.LeaseRemainingMS == nil || *v.LeaseRemainingMS > ttl.Milliseconds() || *v.LeaseRemainingMS < least.Milliseconds() {
			t.Errorf("after the %s: %+v; want within %v and %v", change, v, least, ttl)
		}
		if change == "kill" {
			must(t, old.Start())
		} else {
			_, gone := lifeOf(t, master, s.ID)
			if lived := gone.Sub(changed); lived < ttl {
				t.Errorf("the session ended %v after the %s, before its whole ttl", lived, change)
			}
		}
	}
}
