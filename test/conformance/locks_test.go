package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// lostGrant: the answer to an acquire is lost. The client asks again for the
// same grant, and gets it once.
func lostGrant(w *world) {
	w.begin()
	session := w.open(time.Minute)
	acquires := is(http.MethodPut, lockapi.RouteLocks+w.prefix)
	w.gates.on(once(acquires, &fault{lose: true}))
	token := w.lock(w.prefix)
	w.wantHolder(w.prefix, session, token)
	handles := map[any]bool{}
	sent := w.gates.find(acquires)
	for _, q := range sent {
		handles[field(q.body, "handle")] = true
	}
	if len(sent) < 2 || len(handles) != 1 {
		w.Errorf("the acquire was sent %d times, with the handles %v; it must be repeated with one handle", len(sent), handles)
	}
	w.d.do("unlock", fields{"hold": "h"})
	w.awaitFree(w.prefix)
	w.lockAs("again", w.prefix)
	for _, q := range w.gates.find(acquires)[len(sent):] {
		if handles[field(q.body, "handle")] {
			w.Error("a new hold has the handle of the former one")
		}
	}
}

// lostRelease: the answer to a release is lost. The client repeats it, for that
// grant only.
func lostRelease(w *world) {
	w.begin()
	w.open(time.Minute)
	token := w.lock(w.prefix)
	releases := is(http.MethodDelete, lockapi.RouteLocks+w.prefix)
	w.gates.on(once(releases, &fault{lose: true}))
	w.d.do("unlock", fields{"hold": "h"})
	sent := w.gates.find(releases)
	if len(sent) < 2 {
		w.Errorf("the release was sent %d times; it must be repeated", len(sent))
	}
	for _, q := range sent {
		if q.query["token"] == nil || q.query["token"][0] != decimal(token) || q.query["handle"] == nil {
			w.Errorf("the release has the query %v; it must name the handle and the token %d", q.query, token)
		}
	}
	w.awaitFree(w.prefix)
}

// waitEnds: a wait that is over leaves the queue.
func waitEnds(w *world) {
	w.begin()
	w.open(time.Minute)
	w.wantGranted(w.rivalLocks(w.prefix, w.rival()))
	w.isHeld("try_lock", fields{"session": "s", "as": "h1", "path": w.prefix})
	w.isHeld("lock", fields{"session": "s", "as": "h2", "path": w.prefix, "wait_ms": 500})
	w.wantWaiters(w.prefix, 0)
	w.forceRelease(w.prefix)
	w.awaitFree(w.prefix)
}

// isHeld requires that a command fails with lock_held. It repeats the command
// while the machine is too slow for an answer.
func (w *world) isHeld(op string, args fields) {
	w.Helper()
	w.eventually(op+" is answered", func() error {
		p := w.d.begin(op, args)
		if _, err := p.result(); err != nil && (err.Code == "no_master" || err.Code == "outcome_unknown") {
			return errors.New(err.Message)
		}
		p.fails("lock_held")
		return nil
	})
}

// lateGrant: a request for a lock arrives after the client has given up. The
// client finds the grant and releases it.
func lateGrant(w *world) {
	w.begin()
	w.open(5 * time.Second)
	acquires := is(http.MethodPut, lockapi.RouteLocks+w.prefix)
	late := make(chan struct{})
	arrive := sync.OnceFunc(func() { close(late) })
	defer arrive()
	heal := w.gates.on(always(acquires, &fault{until: late}))
	w.d.begin("lock", fields{"session": "s", "as": "h", "path": w.prefix, "wait_ms": 500}).fails("lock_held", "no_master", "outcome_unknown")
	heal()
	arrive()
	w.eventually("the late request is granted", func() error {
		for _, q := range w.gates.find(acquires) {
			if q.status == http.StatusOK {
				return nil
			}
		}
		return errors.New("it is not")
	})
	w.awaitFree(w.prefix)
}

// lateRepeat: the first request for a lock arrives when the client has got the
// lock by a second one, and has released it. The client releases it again.
func lateRepeat(w *world) {
	w.lateRepeat(func() { w.d.do("unlock", fields{"hold": "h"}) })
}

// lateRepeatOfALoss: the first request arrives when an operator has released
// the lock.
func lateRepeatOfALoss(w *world) {
	w.lateRepeat(func() {
		w.forceRelease(w.prefix)
		w.d.await("lost", "h")
		w.d.begin("unlock", fields{"hold": "h"}).fails("lock_lost")
	})
}

func (w *world) lateRepeat(end func()) {
	w.begin()
	w.open(5 * time.Second)
	acquires := is(http.MethodPut, lockapi.RouteLocks+w.prefix)
	late := make(chan struct{})
	arrive := sync.OnceFunc(func() { close(late) })
	defer arrive()
	w.gates.on(once(acquires, &fault{until: late}))
	w.d.do("try_lock", fields{"session": "s", "as": "h", "path": w.prefix})
	end()
	arrive()
	w.eventually("the late request is granted", func() error {
		if sent := w.gates.find(acquires); sent[0].status != http.StatusOK {
			return errors.New("it is not")
		}
		return nil
	})
	w.awaitFree(w.prefix)
}

// queue: waiters get the lock in turn, each with a higher token, also after a
// waiter's connection broke. A semaphore has as many holders as its limit.
func queue(w *world) {
	w.begin()
	w.open(time.Minute)
	w.d.do("open", fields{"cell": "c", "as": "s2"})
	first := w.lock(w.prefix)
	second := w.d.begin("lock", fields{"session": "s2", "as": "h2", "path": w.prefix})
	w.wantWaiters(w.prefix, 1)
	if second.isDone() {
		w.Error("both sessions have the lock")
	}
	behind := lockapi.NewLockRequest(w.rival())
	behind.Queue = true
	call[lockapi.Grant](w, http.MethodPut, lockRoute(w.prefix), behind)
	acquires := is(http.MethodPut, lockapi.RouteLocks+w.prefix)
	asked := len(w.gates.find(acquires))
	w.gates.breakConnections()
	w.eventually("the waiter asks again", func() error {
		if len(w.gates.find(acquires)) == asked {
			return errors.New("it has not")
		}
		return nil
	})
	w.wantWaiters(w.prefix, 2)
	w.d.do("unlock", fields{"hold": "h"})
	got := second.ok()
	token := uint64(got.number("token"))
	if token <= first {
		w.Errorf("the second token is %d, after %d", token, first)
	}
	if want := "exclusive:" + decimal(token) + ":" + w.prefix; got.text("sequencer") != want {
		w.Errorf("the sequencer is %q; it must be %q", got.text("sequencer"), want)
	}
	shared := w.prefix + "/shared"
	for i, session := range []string{"s", "s2"} {
		w.d.do("lock", fields{"session": session, "as": "shared" + decimal(uint64(i)), "path": shared, "mode": "shared", "limit": 2})
	}
	w.d.begin("try_lock", fields{"session": "s", "as": "h3", "path": shared, "mode": "shared", "limit": 2}).fails("lock_held")
}

// priority: waiters get the lock by priority, also after their connections
// broke. A holder learns of a wait of a higher priority than its own, and not
// of a lower one.
func priority(w *world) {
	w.begin()
	w.open(time.Minute)
	path := w.prefix + "/a"
	after := w.revision()
	w.watchFrom(after)
	w.d.do("lock", fields{"session": "s", "as": "h", "path": path, "priority": 5})
	better := w.d.begin("await_priority", fields{"session": "s", "hold": "h", "priority": 5, "timeout_ms": patience.Milliseconds()})
	wait := func(session string, priority int) *pending {
		w.d.do("open", fields{"cell": "c", "as": session})
		n := w.read(path).Waiters
		p := w.d.begin("lock", fields{"session": session, "as": "of-" + session, "path": path, "priority": priority})
		w.wantWaiters(path, n+1)
		return p
	}
	low, none, equal := wait("low", 3), wait("none", 0), wait("equal", 3)
	acquires := is(http.MethodPut, lockapi.RouteLocks+path)
	asked := len(w.gates.find(acquires))
	w.gates.breakConnections()
	w.eventually("the waiters ask again", func() error {
		if n := len(w.gates.find(acquires)); n < asked+3 {
			return fmt.Errorf("%d of 3 have", n-asked)
		}
		return nil
	})
	if better.isDone() {
		w.Error("the holder was called for a wait of a lower priority")
	}
	high := wait("high", 7)
	better.ok()
	want := []int64{7, 3, 3, 0}
	queue := call[lockapi.Lock](w, http.MethodGet, lockRoute(path)+"?waiters=9", nil).Queue
	for i, q := range queue {
		if i >= len(want) || q.Priority != want[i] {
			w.Errorf("position %d has priority %d; the priorities must be %v", q.Position, q.Priority, want)
		}
	}
	w.d.do("unlock", fields{"hold": "h"})
	for _, next := range []struct {
		session string
		granted *pending
	}{{"high", high}, {"low", low}, {"equal", equal}, {"none", none}} {
		next.granted.ok()
		w.d.do("unlock", fields{"hold": "of-" + next.session})
	}
	w.wantEvents(after)
}
