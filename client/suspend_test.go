package client_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
)

// laptop is a machine that sleeps: its clock continues, its timers stop.
type laptop struct {
	tc     *testCell
	asleep atomic.Int64
}

func (l *laptop) now() time.Duration { return time.Since(l.tc.start) + time.Duration(l.asleep.Load()) }

func (l *laptop) sleep(d time.Duration) { l.asleep.Add(int64(d)) }

// onLaptop is a bubble with a hold of a client on a machine that sleeps.
func onLaptop(t *testing.T, test func(*testing.T, *laptop, *client.Held)) {
	t.Helper()
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		l := &laptop{tc: tc}
		c := newClient(t, client.Config{URLs: []string{"http://r1"}, Transport: tc, Clock: l.now, OnlyURLs: true})
		h := lock(t, open(t, c), "/a")
		time.Sleep(100 * time.Millisecond)
		test(t, l, h)
	})
}

// The package comment asks work to check Held.Context only. After a sleep that
// outlasted the lease such work stops, however it checks.
func TestContextAfterASleep(t *testing.T) {
	for name, ended := range map[string]func(*client.Held) bool{
		"Context.Err":  func(h *client.Held) bool { return h.Context().Err() != nil },
		"Context.Done": func(h *client.Held) bool { return closed(h.Context().Done()) },
		"Cause":        func(h *client.Held) bool { return context.Cause(h.Context()) == client.ErrJeopardy },
		"Done":         func(h *client.Held) bool { return closed(h.Done()) },
		"Err":          func(h *client.Held) bool { return h.Err() == client.ErrJeopardy },
		"Remaining":    func(h *client.Held) bool { return h.Remaining() == 0 },
		"a child that is new": func(h *client.Held) bool {
			ctx, cancel := context.WithTimeout(h.Context(), time.Hour)
			defer cancel()
			return ctx.Err() != nil
		},
	} {
		for _, slept := range []time.Duration{13 * time.Second, time.Hour} {
			t.Run(name, func(t *testing.T) {
				onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
					if ended(h) {
						t.Fatal("the hold has ended before the sleep")
					}
					l.sleep(slept)
					if !ended(h) {
						t.Errorf("the hold is valid after a sleep of %s", slept)
					}
					wantErr(t, context.Cause(h.Context()), client.ErrJeopardy)
					wantErr(t, h.Context().Err(), context.Canceled)
				})
			})
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Contexts derived before the sleep end with the next look at the hold, or else
// with the timer.
func TestChildrenAfterASleep(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		child, cancel := context.WithTimeout(h.Context(), 24*time.Hour)
		defer cancel()
		l.sleep(time.Minute)
		_ = h.Context().Err()
		wantErr(t, child.Err(), context.Canceled)
		wantErr(t, context.Cause(child), client.ErrJeopardy)
	})
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		child, cancel := context.WithTimeout(h.Context(), 24*time.Hour)
		defer cancel()
		l.sleep(time.Minute)
		woke := time.Now()
		<-child.Done()
		if got := time.Since(woke); got > client.WakeEvery {
			t.Errorf("ended %s after the machine woke", got)
		}
	})
}

// A hold's context has the values of Lock's context.
func TestContextHasValues(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		h, err := open(t, c).Lock(context.WithValue(t.Context(), key{}, "trace"), "/a")
		must(t, err)
		wantEqual(t, "the value", h.Context().Value(key{}), "trace")
	})
}

// The caller may use a hold's context under a lock that its Metrics take, and
// the session calls those under its mutexes. The context's methods so must not
// wait for these mutexes.
func TestContextTakesNoLock(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		l.sleep(time.Minute)
		for _, mu := range h.Mutexes() {
			mu.Lock()
			defer mu.Unlock()
		}
		var asked sync.WaitGroup
		asked.Go(func() { _, _, _ = h.Context().Err(), h.Context().Done(), context.Cause(h.Context()) })
		asked.Wait() // otherwise the bubble deadlocks
	})
}

// A session that wakes in jeopardy does not wait for an answer to a request
// from before the sleep: the connection may be long dead.
func TestPollAfterASleep(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		l.tc.isolate("r1", true) // requests on their way get lost
		time.Sleep(time.Second)
		l.sleep(20 * time.Second)
		l.tc.isolate("r1", false)
		woke := time.Now()
		_ = h.Session().State()
		synctest.Wait()
		for h.Session().State() != client.Safe {
			time.Sleep(10 * time.Millisecond)
		}
		if got := time.Since(woke); got > 100*time.Millisecond {
			t.Errorf("safe again %s after the machine woke", got)
		}
	})
}
