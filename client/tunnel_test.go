package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Learned replicas that refuse connections do not prolong a watch that gets only
// nonsense. They also do not delay the report of missed events.
func TestWatchEndsBehindATunnel(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		tc.tell("c1", "http://in1", "http://in2", "http://in3")
		tc.insteadBy(func(r *http.Request) *http.Response {
			if r.URL.Path == lockapi.RouteEvents {
				return reply(http.StatusBadRequest, "nonsense")
			}
			return nil
		})
		c := tc.knowing(t, client.Config{}, "http://r1")
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "http://in1", "http://in2", "http://in3", "http://r1")
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		if _, err := w.over(); err == nil {
			t.Error("the watch continues")
		}
		tc.set(func() { tc.instead = nil })
		for range 10 {
			tc.put("/a", "x")
		}
		tc.forget("r1", "r2", "r3")
		w = watchFor(t, c, 3)
		time.Sleep(10 * time.Second)
		wantCompacted(t, w, 1)
	})
}
