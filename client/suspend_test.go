package client

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
)

// laptop is a machine that sleeps: its clock goes on meanwhile, timers stand
// still.
type laptop struct {
	f      *fakeCell
	asleep atomic.Int64
}

func (l *laptop) now() time.Duration { return time.Since(l.f.start) + time.Duration(l.asleep.Load()) }

func (l *laptop) sleep(d time.Duration) { l.asleep.Add(int64(d)) }

// onLaptop is a bubble with a hold, whose client runs on a machine that sleeps.
func onLaptop(t *testing.T, test func(*testing.T, *laptop, *Held)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		l := &laptop{f: f}
		c, err := Config{URLs: []string{"http://r1"}, Transport: f, Clock: l.now}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		h := lock(t, open(t, c), "/a")
		time.Sleep(100 * time.Millisecond)
		test(t, l, h)
	})
}

// Work that only looks at Held.Context, as the package comment tells it to,
// does nothing more after a sleep that outlasted the lease, however it looks.
func TestContextAfterASleep(t *testing.T) {
	for name, ended := range map[string]func(*Held) bool{
		"Context.Err":  func(h *Held) bool { return h.Context().Err() != nil },
		"Context.Done": func(h *Held) bool { return closed(h.Context().Done()) },
		"Cause":        func(h *Held) bool { return context.Cause(h.Context()) == ErrJeopardy },
		"Done":         func(h *Held) bool { return closed(h.Done()) },
		"Err":          func(h *Held) bool { return h.Err() == ErrJeopardy },
		"Remaining":    func(h *Held) bool { return h.Remaining() == 0 },
		"a child that is new": func(h *Held) bool {
			ctx, cancel := context.WithTimeout(h.Context(), time.Hour)
			defer cancel()
			return ctx.Err() != nil
		},
	} {
		for _, slept := range []time.Duration{13 * time.Second, time.Hour} {
			t.Run(name, func(t *testing.T) {
				onLaptop(t, func(t *testing.T, l *laptop, h *Held) {
					if ended(h) {
						t.Fatal("the hold has ended before the sleep")
					}
					l.sleep(slept)
					if !ended(h) {
						t.Errorf("the hold is good after a sleep of %s", slept)
					}
					wantErr(t, context.Cause(h.Context()), ErrJeopardy)
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

// Contexts that were derived before the sleep end as soon as anybody looks at
// the hold, and with the timer where nobody does.
func TestChildrenAfterASleep(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *Held) {
		child, cancel := context.WithTimeout(h.Context(), 24*time.Hour)
		defer cancel()
		l.sleep(time.Minute)
		_ = h.Context().Err()
		wantErr(t, child.Err(), context.Canceled)
		wantErr(t, context.Cause(child), ErrJeopardy)
	})
	onLaptop(t, func(t *testing.T, l *laptop, h *Held) {
		child, cancel := context.WithTimeout(h.Context(), 24*time.Hour)
		defer cancel()
		l.sleep(time.Minute)
		woke := time.Now()
		<-child.Done()
		if got := time.Since(woke); got > wakeEvery {
			t.Errorf("ended %s after the machine woke", got)
		}
	})
}

// The values of Lock's context are there.
func TestContextHasValues(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		h, err := open(t, c).Lock(context.WithValue(t.Context(), key{}, "trace"), "/a")
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Context().Value(key{}); got != "trace" {
			t.Errorf("the value is %v", got)
		}
	})
}

// A context is asked under locks that the caller's logger takes too, and the
// session logs under its mutexes: neither may wait for the other.
func TestContextTakesNoLock(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *Held) {
		l.sleep(time.Minute)
		s := h.a.s
		for _, mu := range []*sync.Mutex{&s.lease.mu, &s.locks.mu, &s.keeper.poll.mu, &s.reconciler.mu} {
			mu.Lock()
			defer mu.Unlock()
		}
		var asked sync.WaitGroup
		asked.Go(func() { _, _, _ = h.Context().Err(), h.Context().Done(), context.Cause(h.Context()) })
		asked.Wait() // else the bubble is deadlocked
	})
}

// A session that wakes in jeopardy does not wait for the answer to what it
// asked before the sleep: the connection may be long dead.
func TestPollAfterASleep(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *Held) {
		l.f.set(func() { // the cell slept too, for what the session cares
			l.f.sessions[h.a.s.ID()].deadline = time.Now().Add(time.Hour)
		})
		l.f.silence("r1", true) // what is on its way is lost
		time.Sleep(time.Second)
		l.sleep(20 * time.Second)
		l.f.silence("r1", false)
		woke := time.Now()
		_ = h.a.s.State()
		synctest.Wait()
		for h.a.s.State() != Safe {
			time.Sleep(10 * time.Millisecond)
		}
		if got := time.Since(woke); got > 100*time.Millisecond {
			t.Errorf("safe again %s after the machine woke", got)
		}
	})
}

// By default the timers go by the clock that leases are counted on, and are set
// to the instants that matter, not to look now and then.
func TestTimersOfTheDefaultClock(t *testing.T) {
	c, err := New("http://r1")
	if err != nil {
		t.Fatal(err)
	}
	timer := c.clock.afterFunc(time.Hour, func() {})
	defer timer.Stop()
	if _, ok := timer.(*boottime.Timer); !ok {
		t.Errorf("a timer of the default clock is a %T", timer)
	}
	s := benchSession(c)
	if got := s.lease.wakeIn(c.clock.now()); got < 59*time.Minute {
		t.Errorf("wakes in %s for a lease of an hour", got)
	}
}
