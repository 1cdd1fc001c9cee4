package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestWaiters: a waiter that leaves is removed from the queue, and never
// becomes an unknown holder.
func TestWaiters(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: slowToStop})
	master := c.Ready(t)
	followers := c.Others(master)
	for _, r := range []*cell.Replica{master, followers[0]} {
		t.Run("whose connection breaks at "+r.ID, func(t *testing.T) {
			leaves(t, master, r, nil, func(_ string, hangUp context.CancelFunc) { hangUp() })
		})
		t.Run("whose session is closed at "+r.ID, func(t *testing.T) {
			leaves(t, master, r, []lockapi.Code{lockapi.CodeSessionNotFound}, func(session string, _ context.CancelFunc) {
				call[struct{}](t, r, http.MethodDelete, sessionRoute(session), nil)
			})
		})
		t.Run("who is released at "+r.ID, func(t *testing.T) {
			leaves(t, master, r, []lockapi.Code{lockapi.CodeLockHeld}, func(session string, _ context.CancelFunc) {
				release(t, r, lockapi.Grant{Path: "/waiter", Session: session, Handle: "w"})
			})
		})
		t.Run("whose session expires at "+r.ID, func(t *testing.T) { expires(t, master, r) })
		t.Run("whose time is over at "+r.ID, func(t *testing.T) { timesOut(t, master, r) })
	}
	t.Run("whose replica stops", func(t *testing.T) {
		stopping := followers[0]
		began := time.Now()
		leaves(t, master, stopping, []lockapi.Code{lockapi.CodeOutcomeUnknown}, func(string, context.CancelFunc) {
			must(t, stopping.Terminate(cell.Bounded(t)))
		})
		if took := time.Since(began); took > patience {
			t.Errorf("it took %v; calls that wait ought to be released at once", took)
		}
		must(t, stopping.Start())
		c.Ready(t)
	})
	t.Run("whose replica is killed", func(t *testing.T) {
		leaves(t, master, followers[1], nil, func(string, context.CancelFunc) { must(t, followers[1].Kill()) })
	})
}

// leaves makes a waiter at r leave in some way. Its call must end with one of
// the codes, if codes are given.
func leaves(t *testing.T, master, r *cell.Replica, codes []lockapi.Code, leave func(session string, hangUp context.CancelFunc)) {
	const path = "/waiter"
	holder, waiter, third := open(t, master, aWhile), open(t, master, aWhile), open(t, master, aWhile)
	held := acquire(t, master, path, ask(holder.ID, "", 0))
	ctx, hangUp := context.WithCancel(cell.Bounded(t))
	defer hangUp()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Call(ctx, http.MethodPut, lockRoute(path), ask(waiter.ID, "w", aWhile), nil)
		ended <- err
	}()
	wantWaiters(t, master, path, 1)
	behind := begin[lockapi.Grant](t, master, http.MethodPut, lockRoute(path), ask(third.ID, "", aWhile))
	wantWaiters(t, master, path, 2)
	leave(waiter.ID, hangUp)
	wantWaiters(t, master, path, 1)
	if err := <-ended; codes != nil {
		wantCode(t, "the waiter that went", err, codes...)
	} else if err == nil {
		t.Error("the waiter that went got an answer")
	}
	release(t, master, held)
	next := await(t, "the next waiter", behind)
	must(t, next.err)
	wantHolder(t, read(t, master, path), next.out)
	release(t, master, next.out)
	if l := read(t, master, path); l.State != lockapi.StateFree {
		t.Errorf("in the end: %+v", l)
	}
}

// expires: the session of a waiter without keepalives ends. Its waiting call
// extends no session, and gets the error.
func expires(t *testing.T, master, r *cell.Replica) {
	const path = "/waiter/expires"
	held := acquire(t, master, path, ask(open(t, master, aWhile).ID, "", 0))
	begun := time.Now()
	waiter := open(t, r, time.Second)
	got := await(t, "the waiter", begin[lockapi.Grant](t, r, http.MethodPut, lockRoute(path), ask(waiter.ID, "", aWhile)))
	wantCode(t, "the waiter", got.err, lockapi.CodeSessionNotFound)
	if lived := time.Since(begun); lived < time.Second {
		t.Errorf("the session ended after %v, before its ttl", lived)
	}
	wantWaiters(t, master, path, 0)
	release(t, master, held)
}

// timesOut: a call waits as long as requested, and leaves no queue position.
func timesOut(t *testing.T, master, r *cell.Replica) {
	const path, wait = "/waiter/times-out", 300 * time.Millisecond
	held := acquire(t, master, path, ask(open(t, master, aWhile).ID, "", 0))
	got := await(t, "the waiter", begin[lockapi.Grant](t, r, http.MethodPut, lockRoute(path), ask(open(t, r, aWhile).ID, "", wait)))
	wantCode(t, "the waiter", got.err, lockapi.CodeLockHeld)
	if got.took < wait {
		t.Errorf("it was answered after %v, before its wait was over", got.took)
	}
	if l := read(t, master, path); l.Waiters != 0 {
		t.Errorf("it waits still: %+v", l)
	}
	release(t, master, held)
}

// TestWaitersKeepTheirPlace: waiting calls that a change of master interrupts
// are repeated at once, and the queue is unchanged. They do not go to the
// stopping replica, which would cut them off and so remove their positions.
func TestWaitersKeepTheirPlace(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	old := c.Ready(t)
	const path = "/place"
	held := acquire(t, old, path, ask(open(t, old, aWhile).ID, "", 0))
	var order []string
	grants := make(chan answer[lockapi.Grant], 6)
	for i := range cap(grants) {
		id := open(t, old, aWhile).ID
		order = append(order, id)
		first := beginOnce[lockapi.Grant](t, c.Replicas()[i%3], http.MethodPut, lockRoute(path), ask(id, "", aWhile))
		go func() {
			a := <-first
			wantCode(t, "a waiting call", a.err, lockapi.CodeOutcomeUnknown, lockapi.CodeNoMaster)
			_, a.err = cell.Insist(cell.Bounded(t), c.Others(old), http.MethodPut, lockRoute(path), ask(id, "", aWhile), &a.out)
			grants <- a
		}()
		wantWaiters(t, old, path, i+1)
	}
	must(t, old.Terminate(cell.Bounded(t)))
	master := newMaster(t, c, old)
	if got := queueOf(t, master, path, order); !slices.Equal(got, order) {
		t.Errorf("the queue is %v, was %v", got, order)
	}
	for _, id := range order {
		release(t, master, held)
		next := await(t, "the next", grants)
		must(t, next.err)
		if next.out.Session != id || next.out.Token <= held.Token {
			t.Errorf("after %+v came %+v, want session %s", held, next.out, id)
		}
		held = next.out
	}
}
