package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/internal/testrun"
)

// The sessions of a client lose their master at once. The new master serves a
// bounded number of calls per second, including calls that were given up. It
// has time for the calls of all sessions, but not for calls that are given up
// and repeated.
func TestHerdSurvivesAChangeOfMaster(t *testing.T) {
	n := testrun.Times(120, 120)
	every := func(sentRequest) bool { return true }
	bubbleOf(t, stouttest.Options{LeaseTerm: 500 * time.Millisecond}, func(t *testing.T, tc *testCell, c *client.Client) {
		sessions := make([]*client.Session, n)
		holds := make([]*client.Held, n)
		for i := range sessions {
			sessions[i] = open(t, c)
			holds[i] = lock(t, sessions[i], "/herd/"+sessions[i].ID())
			time.Sleep(50 * time.Millisecond)
		}
		tc.set(func() { tc.cost = 25 * time.Millisecond })
		time.Sleep(12 * time.Second) // the keepalives are spread over the lease
		tc.kill("r1")
		before := tc.count(every)
		time.Sleep(500 * time.Millisecond)
		tc.Elect("r2")
		time.Sleep(12 * time.Second)
		var behind, unsafe, disturbed int
		for i, s := range sessions {
			if s.Epoch() != 2 {
				behind++
			}
			if s.State() != client.Safe {
				unsafe++
			}
			if holds[i].Err() != nil {
				disturbed++
			}
		}
		if behind+unsafe+disturbed > 0 {
			t.Errorf("12 s after the election %d of %d sessions do not know the new master, %d are not safe, and %d locks have ended", behind, n, unsafe, disturbed)
		}
		// Each session needs a keepalive to return, one read, and the
		// keepalives since then.
		if made := tc.count(every) - before; made > 5*n {
			t.Errorf("%d calls were made for %d sessions to come back", made, n)
		}
		tc.set(func() { tc.cost = 0 }) // for the cleanup
	})
}

// One late answer does not divert all calls from a master that answers the
// others.
func TestLateAnswerOfALiveMaster(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		late := 0
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.URL.Path == "/v1/sessions/"+s.ID()+"/keepalive" && late == 0 {
				late++
				return time.Hour
			}
			return 0
		})
		for range 100 {
			time.Sleep(200 * time.Millisecond)
			must(t, second(c.ReadLock(t.Context(), "/a")))
		}
		wantState(t, s, client.Safe)
		if n := tc.count(func(r sentRequest) bool { return r.host != "r1" }); late != 1 || n > 0 {
			t.Errorf("%d answers were late, %d calls went to replicas that are not the master", late, n)
		}
	})
}

// A replica without a master makes calls wait. Answers that any replica can
// give are no reason to stay with it.
func TestStaleAnswersKeepNobody(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		open(t, c)
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.URL.Host == "r2" && r.Method == http.MethodPost {
				return time.Hour
			}
			return 0
		})
		tc.kill("r1")
		at := func(host string) int {
			return tc.count(func(r sentRequest) bool { return r.host == host && isKeepalive(r) })
		}
		// Keepalives share the choice of replica with other calls, so chance
		// decides where each one goes.
		for looks := 0; at("r2") == 0 || at("r3") == 0; looks++ {
			if looks == 200 {
				t.Fatalf("%d keepalives waited at r2, and %d went to r3; want some of both", at("r2"), at("r3"))
			}
			time.Sleep(200 * time.Millisecond)
			must(t, second(c.ReadLock(t.Context(), "/a", client.Stale())))
			must(t, second(admin.New(c).Cell(t.Context())))
		}
		tc.Elect("r3") // for the cleanup
	})
}

func TestTurnsFollowTheSessions(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		if c.Sessions() != 1 {
			t.Errorf("%d sessions count, want 1", c.Sessions())
		}
		must(t, s.Close(t.Context()))
		if c.Sessions() != 0 {
			t.Errorf("%d sessions count after the only one was closed", c.Sessions())
		}
	})
}
