package master

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// answer is the result of a keepalive, and its number.
type answer struct {
	i     int
	alive lockapi.Keepalive
	err   error
	took  time.Duration
}

// crowd sends n keepalives of a session, one after the other. Each waits for a
// minute.
func crowd(m *Master, id string, n int) <-chan answer {
	answers := make(chan answer, n)
	for i := range n {
		began := time.Now()
		go func() {
			k, err := keepalive1(m, id, time.Minute, 0)
			answers <- answer{i, k, err, time.Since(began)}
		}()
		synctest.Wait()
		pass(time.Millisecond)
	}
	return answers
}

// TestOneKeepaliveTooManyEndsTheOldest, as if its wait had run out. A keepalive
// that does not wait, or of another session, does not end it.
func TestOneKeepaliveTooManyEndsTheOldest(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		id, other := newSession(t, m, time.Hour), newSession(t, m, time.Hour)
		answers := crowd(m, id, mostWaiting)
		others := crowd(m, other, mostWaiting)
		if _, err := keepalive1(m, id, 0, 0); err != nil {
			t.Error(err)
		}
		if len(answers)+len(others) > 0 {
			t.Fatalf("%d and %d are answered, with no more than %d waiting", len(answers), len(others), mostWaiting)
		}
		pass(10 * time.Second)
		newer := crowd(m, id, 3)
		for i := range 3 {
			a := <-answers
			if a.i != i || a.err != nil || a.alive.Events == nil || a.alive.TTLMS != time.Hour.Milliseconds() {
				t.Errorf("%+v; want the oldest to be answered first", a)
			}
			if held := time.Duration(a.alive.HeldMS) * time.Millisecond; held > a.took || held < a.took*97/100 || a.took < 10*time.Second || a.took > 11*time.Second {
				t.Errorf("held_ms %v after %v", held, a.took)
			}
		}
		if len(answers)+len(newer)+len(others) > 0 {
			t.Error("more were answered than had to make room")
		}
		o := openOffice(t, n)
		o.mu.Lock()
		defer o.mu.Unlock()
		s := o.sessions.byID[id]
		if base := n.clock() - s.base; base > 3*time.Millisecond || len(s.keepalives) != mostWaiting {
			t.Errorf("extended %v ago, %d waiting; the answers extend the session", base, len(s.keepalives))
		}
	})
}

// TestKeepalivesDoNotHeapUpWithoutALease: keepalives that must make room can't
// be answered then, and are refused.
func TestKeepalivesDoNotHeapUpWithoutALease(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, time.Hour)
		c.cutOff("r1", true)
		pass(3 * time.Second)
		answers := crowd(n.master, id, mostWaiting+100)
		pass(2 * lapseRecheck)
		if len(answers) != 100 {
			t.Fatalf("%d of %d are answered, want all but %d", len(answers), mostWaiting+100, mostWaiting)
		}
		for range 100 {
			if e := code(t, (<-answers).err, lockapi.CodeTooMany); e.RetryAfter == 0 {
				t.Error("no advice when to try again")
			}
		}
		c.cutOff("r1", false)
		pass(time.Second)
		if _, err := keepalive1(n.master, id, 0, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestEndOfASessionAnswersTheCrowd: all of its keepalives return.
func TestEndOfASessionAnswersTheCrowd(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		id := newSession(t, m, time.Hour)
		answers := crowd(m, id, mostWaiting)
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}))
		for range mostWaiting {
			code(t, (<-answers).err, lockapi.CodeSessionNotFound)
		}
	})
}
