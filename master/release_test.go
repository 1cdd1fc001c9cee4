package master

import (
	"errors"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestReleaseBehindAnAcquireThatIsOnItsWay: the release is not answered from
// memory; the log has both, in their order.
func TestReleaseBehindAnAcquireThatIsOnItsWay(t *testing.T) {
	for _, queued := range []bool{false, true} { // a grant or a queue position is on its way
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			a, b := two(t, m)
			if queued {
				mustHold(t, m, "/a", want(b))
			}
			c.setDelay(100 * time.Millisecond)
			got := make(chan lockapi.Grant, 1)
			go func() {
				g, _ := acquireLock(t, m, "/a", want(a, queueing))
				got <- g
			}()
			pass(50 * time.Millisecond)
			r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a})
			if err != nil || !r.Released {
				t.Errorf("queued %v: %+v, %v; want it to release what the acquire before it got", queued, r, err)
			}
			<-got
			if h, w := n.State().Claim(a, "/a", ""); h != nil || w != nil {
				t.Errorf("queued %v: the session has %+v, %+v behind its release", queued, h, w)
			}
		})
	}
}

// TestSessionThatCannotBe: a malformed session id counts as unknown, and the
// answer makes no log entry.
func TestSessionThatCannotBe(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		const id = "a\x00b"
		before := n.State().Index
		if _, err := acquireLock(t, m, "/a", want(id)); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Errorf("acquire: %v; want %v", err, lockapi.CodeSessionNotFound)
		}
		if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: id}); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Errorf("release: %v; want %v", err, lockapi.CodeSessionNotFound)
		}
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); err != nil {
			t.Errorf("close: %v; it is closed already", err)
		}
		if after := n.State().Index; after != before {
			t.Errorf("this took %d log entries", after-before)
		}
	})
}
