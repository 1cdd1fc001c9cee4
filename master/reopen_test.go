package master

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// openKeyed opens a session under a key.
func openKeyed(t *testing.T, m *Master, key string, ttl time.Duration) (lockapi.Session, error) {
	t.Helper()
	return m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl.Milliseconds()}, Key: key})
}

// TestOpeningAgainExtends: the caller may have retried for longer than the ttl.
// It counts on a whole ttl from when it sent the call that was answered.
func TestOpeningAgainExtends(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		first, err := openKeyed(t, m, "k", ttl)
		must(t, err)
		for range 4 {
			pass(ttl * 9 / 10)
			before := n.commands()
			if again, err := openKeyed(t, m, "k", ttl); err != nil || again.ID != first.ID || n.commands() != before {
				t.Fatalf("%+v, %v, with %d commands; want session %s", again, err, n.commands()-before, first.ID)
			}
		}
		if lived := alive(n, first.ID, time.Minute); lived < ttl || lived > ttl+time.Second {
			t.Errorf("expired %v after the last answer, want %v", lived, ttl)
		}
	})
}

// TestOpeningTwiceAtOnceExtends: the second call finds the session of the first
// one in the log, before it.
func TestOpeningTwiceAtOnceExtends(t *testing.T) {
	const ttl = time.Second
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		c.setDelay(400 * time.Millisecond)
		type opened struct {
			s   lockapi.Session
			err error
		}
		answers := make(chan opened, 2)
		open := func() { s, err := openKeyed(t, m, "k", ttl); answers <- opened{s, err} }
		go open()
		pass(300 * time.Millisecond) // in the log, but not applied
		go open()
		first, second := <-answers, <-answers
		if first.err != nil || second.err != nil || first.s.ID != second.s.ID {
			t.Fatalf("%+v %+v", first, second)
		}
		if lived := alive(n, second.s.ID, time.Minute); lived < ttl {
			t.Errorf("expired %v after the second answer", lived)
		}
	})
}

// TestOpeningAgainDoesNotRevive: past due, it waits for the end of the existing
// session, and opens another.
func TestOpeningAgainDoesNotRevive(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		first, err := openKeyed(t, m, "k", time.Second)
		must(t, err)
		c.setDelay(300 * time.Millisecond)
		pass(1100 * time.Millisecond) // the expiry is under way
		if _, ok := n.State().Session(first.ID); !ok {
			t.Fatal("expired already: the test shows nothing")
		}
		second, err := openKeyed(t, m, "k", time.Second)
		if err != nil || second.ID == first.ID {
			t.Fatalf("%+v, %v; want another session than %s", second, err, first.ID)
		}
		if _, ok := n.State().Session(first.ID); ok {
			t.Error("another session was returned while the first lived")
		}
	})
}

// TestOpeningAgainTakesNoEvents: its answer has no events, so no event counts
// as shown, and a later acknowledgement does not drop one.
func TestOpeningAgainTakesNoEvents(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		b, err := openKeyed(t, m, "k", time.Minute)
		must(t, err)
		granted202(t, m, "/a", a, b.ID)
		must(t, second(openKeyed(t, m, "k", time.Minute)))
		wantEvents(t, m, b.ID, 1<<40, 1)
	})
}
