package client_test

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// A waiting call and a watch leave a replica that has fallen silent within two
// intervals of the session's keepalives.
func TestKeepaliveNoticesASilentReplica(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 12 * time.Second, 45 * time.Second} {
		subBubble(t, ttl.String(), func(t *testing.T, tc *testCell, c *client.Client) {
			holder := open(t, tc.admin, client.TTL(time.Minute))
			held := lock(t, holder, "/a")
			s := open(t, c, client.TTL(ttl))
			granted, seen := make(chan time.Time, 1), make(chan time.Time, 1)
			go func() {
				if _, err := s.Lock(t.Context(), "/a"); err != nil {
					t.Error(err)
				}
				granted <- time.Now()
			}()
			from, err := c.Revision(t.Context())
			must(t, err)
			go func() {
				for e := range c.Watch(t.Context(), from, client.OfType(lockapi.EventLockReleased)) {
					if e.Path == "/a" {
						seen <- time.Now()
						return
					}
				}
			}()
			time.Sleep(ttl)
			tc.isolate(tc.Master(), true)
			time.Sleep(ttl / 100)
			must(t, held.Unlock(t.Context()))
			free, soon := time.Now(), 2*ttl*2/3
			if d := (<-granted).Sub(free); d > soon {
				t.Errorf("the waiter learned of its grant after %s", d)
			}
			if d := (<-seen).Sub(free); d > soon {
				t.Errorf("the watch went on after %s", d)
			}
		})
	}
}
