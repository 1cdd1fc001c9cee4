package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
)

func isShared(r sentRequest) bool { return r.path == lockapi.RouteKeepalives }

// openShared opens sessions one after another, and waits until they share their
// keepalives.
func openShared(t *testing.T, c *client.Client, n int, opts ...client.SessionOption) []*client.Session {
	t.Helper()
	all := make([]*client.Session, n)
	for i := range all {
		all[i] = open(t, c, opts...)
		time.Sleep(170 * time.Millisecond)
	}
	time.Sleep(2 * all[0].TTL())
	return all
}

func wantSafe(t *testing.T, all []*client.Session) {
	t.Helper()
	for i, s := range all {
		if s.State() != client.Safe {
			t.Errorf("session %d is %s", i, s.State())
		}
	}
}

// Sessions of one client share one keepalive call, also those that are opened
// while it is under way.
func TestSessionsShareAKeepalive(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		began := tc.count(func(r sentRequest) bool { return isShared(r) || isKeepalive(r) })
		all := openShared(t, c, 50)
		wantAtMost(t, tc.count(func(r sentRequest) bool { return isShared(r) || isKeepalive(r) })-began, 40, "keepalives while 50 sessions were opened in 8 s")
		shared, single := tc.count(isShared), tc.count(isKeepalive)
		time.Sleep(5 * time.Minute)
		shared, single = tc.count(isShared)-shared, tc.count(isKeepalive)-single
		if shared < 35 || shared > 40 || single > 0 {
			t.Errorf("%d shared calls and %d others in 5 minutes, want one in 8 s", shared, single)
		}
		wantSafe(t, all)
	})
}

// Every session's lease counts from the sending of the shared call.
func TestSharedKeepaliveCountsFromSending(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 3)
		tc.set(func() { tc.latency = 300 * time.Millisecond })
		time.Sleep(2 * all[0].TTL())
		for range 100 {
			time.Sleep(777 * time.Millisecond)
			for i, s := range all {
				// The answer was under way for as long.
				if left, least := s.Remaining(), tc.leaseInCell(s)-300*time.Millisecond; left <= 0 || left > least {
					t.Fatalf("session %d: %s remain here, want at most %s", i, left, least)
				}
			}
		}
	})
}

// A session with a short ttl does not set the pace of those with a long one.
func TestSharedKeepalivesOfDifferentTTLs(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		short := []*client.Session{open(t, c, client.TTL(time.Second)), open(t, c, client.TTL(1023*time.Millisecond))}
		long := openShared(t, c, 3, client.TTL(time.Minute))
		at := len(tc.sent())
		time.Sleep(5 * time.Minute)
		with := 0
		for _, r := range tc.sent()[at:] {
			if strings.Contains(r.body, long[0].ID()) || strings.Contains(r.path, long[0].ID()) {
				with++
			}
		}
		if with > 15 {
			t.Errorf("%d keepalives of a session with a ttl of a minute in 5 minutes", with)
		}
		wantSafe(t, append(short, long...))
	})
}

// The end of one session, and its events, arrive at once and delay no other
// session.
func TestSharedKeepaliveTellsOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 10)
		h, other := lock(t, all[3], "/a"), lock(t, all[4], "/b")
		time.Sleep(10 * time.Second)
		began := time.Now()
		tc.ReleaseByForce("/a")
		<-h.Done()
		wantErr(t, h.Err(), client.ErrLockLost)
		wantWithin(t, began, 2*time.Second)
		time.Sleep(10 * time.Second)
		began = time.Now()
		must(t, admin.New(tc.admin).KillSession(t.Context(), all[3].ID()))
		<-all[3].Done()
		wantErr(t, all[3].Err(), client.ErrSessionExpired)
		wantWithin(t, began, 2*time.Second)
		time.Sleep(time.Minute)
		wantSafe(t, append(all[:3:3], all[4:]...))
		must(t, other.Err())
	})
}

// noticesALoss returns how long a session takes to notice a forced release, a
// while after it got the lock.
func noticesALoss(t *testing.T, tc *testCell, s *client.Session, after time.Duration) time.Duration {
	t.Helper()
	h := lock(t, s, "/a")
	time.Sleep(after)
	began := time.Now()
	tc.ReleaseByForce("/a")
	<-h.Done()
	return time.Since(began)
}

// A loss is noticed within a tenth of the ttl, also between two shared calls.
func TestSharedKeepaliveNoticesALossInTime(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 10)
		for wait := 24 * time.Second; wait < 33*time.Second; wait += 70 * time.Millisecond {
			if took := noticesALoss(t, tc, all[3], wait); took > all[3].TTL()/10 {
				t.Errorf("after %s a loss was noticed after %s", wait, took)
			}
		}
	})
}

// TestLossWithALongTTL: a long ttl does not delay the news of a loss, alone or
// with a shared keepalive.
func TestLossWithALongTTL(t *testing.T) {
	for _, n := range []int{1, 10} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			all := openShared(t, c, n, client.TTL(2*time.Hour))
			for wait := 20 * time.Second; wait < 5*time.Minute; wait += 37 * time.Second {
				if took := noticesALoss(t, tc, all[0], wait); took > 2*client.MostPause+2*tc.latency {
					t.Errorf("%d sessions: after %s a loss was noticed after %s", n, wait, took)
				}
			}
		})
	}
}

// Many events of a few sessions do not repeat the call for all others.
func TestManyEventsLeaveTheSharedKeepalive(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 20)
		before := tc.count(isShared)
		for range 60 {
			h := lock(t, all[7], "/a")
			tc.ReleaseByForce("/a")
			<-h.Done()
			time.Sleep(time.Second)
		}
		wantAtMost(t, tc.count(isShared)-before, 12, "shared calls in a minute, want one in 8 s")
		time.Sleep(24 * time.Second)
		single := tc.count(isKeepalive)
		time.Sleep(time.Minute)
		if n := tc.count(isKeepalive) - single; n > 0 {
			t.Errorf("a session that has become quiet made %d keepalives of its own", n)
		}
		wantSafe(t, all)
	})
}

// After a change of master one call brings all sessions back.
func TestSharedKeepaliveSurvivesAFailOver(t *testing.T) {
	for wait := time.Second; wait < 9*time.Second; wait += 1700 * time.Millisecond {
		subBubble(t, wait.String(), func(t *testing.T, tc *testCell, c *client.Client) {
			all := openShared(t, c, 100)
			holds := make([]*client.Held, len(all))
			for i, s := range all {
				holds[i] = lock(t, s, fmt.Sprint("/", i))
			}
			time.Sleep(wait)
			keepalives := func() int {
				return tc.count(func(r sentRequest) bool { return isShared(r) || isKeepalive(r) })
			}
			before := keepalives()
			tc.kill("r1")
			time.Sleep(time.Second)
			tc.Elect("r2")
			time.Sleep(all[0].TTL())
			for i, s := range all {
				if s.State() != client.Safe || s.Epoch() != 2 || holds[i].Err() != nil {
					t.Errorf("session %d is %s in epoch %d, its hold: %v", i, s.State(), s.Epoch(), holds[i].Err())
				}
			}
			wantAtMost(t, keepalives()-before, 40, "keepalives for the return")
		})
	}
}

// If the shared call alone gets no answer, or is refused, each session keeps
// itself alive in time.
func TestSharedKeepaliveThatFails(t *testing.T) {
	for name, network := range map[string]func(tc *testCell){
		"lost": func(tc *testCell) {
			tc.lose(func(r *http.Request) bool { return r.URL.Path == lockapi.RouteKeepalives })
		},
		"answer lost": func(tc *testCell) {
			tc.dropIf(func(r *http.Request) bool { return r.URL.Path == lockapi.RouteKeepalives })
		},
		"refused": func(tc *testCell) { tc.insteadBy(refuseShared(lockapi.CodePermissionDenied)) },
		"unknown": func(tc *testCell) { tc.insteadBy(refuseShared(lockapi.CodeNotFound)) },
		"by a proxy": func(tc *testCell) {
			tc.insteadBy(func(r *http.Request) *http.Response {
				if r.URL.Path == lockapi.RouteKeepalives {
					return reply(http.StatusServiceUnavailable, "too much")
				}
				return nil
			})
		},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			all := openShared(t, c, 40)
			h := lock(t, all[7], "/a")
			network(tc)
			before := tc.count(func(sentRequest) bool { return true })
			time.Sleep(2 * time.Minute)
			wantSafe(t, all)
			must(t, h.Err())
			wantAtMost(t, tc.count(func(sentRequest) bool { return true })-before, 4*40*15, "calls in two minutes")
		})
	}
}

// If large calls are lost, smaller ones keep the sessions alive, and not one for
// each session.
func TestSharedKeepaliveThatIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 100)
		tc.lose(func(r *http.Request) bool { return r.URL.Path == lockapi.RouteKeepalives && r.ContentLength > 1000 })
		single := tc.count(isKeepalive)
		time.Sleep(2 * time.Minute)
		wantSafe(t, all)
		wantAtMost(t, tc.count(isKeepalive)-single, 0, "keepalives of single sessions")
	})
}

// A session that its client closes does not end the calls of the others.
// Sessions that somebody else closes do, but not one by one.
func TestSharedKeepaliveWhileSessionsAreClosed(t *testing.T) {
	for by, most := range map[string]int{"client": 2, "others": 20} {
		subBubble(t, by, func(t *testing.T, tc *testCell, c *client.Client) {
			all := openShared(t, c, 200)
			before := tc.count(isShared)
			for _, s := range all[:150] {
				if by == "client" {
					must(t, s.Close(t.Context()))
				} else {
					tc.call(http.MethodDelete, lockapi.RouteSessions+"/"+s.ID(), nil, nil)
				}
				time.Sleep(50 * time.Millisecond)
			}
			wantAtMost(t, tc.count(isShared)-before, most, "shared calls in 7.5 s")
			wantSafe(t, all[150:])
		})
	}
}

// Clients that opened sessions at the same time, or came to a new master at the
// same time, renew them at different times.
func TestSharedKeepalivesSpread(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		var all []*client.Session
		for range 20 {
			c := tc.client(t)
			all = append(all, open(t, c), open(t, c))
		}
		spread := func(why string) {
			t.Helper()
			before := len(tc.sent())
			time.Sleep(all[0].TTL())
			in := map[time.Duration]int{}
			for _, r := range tc.sent()[before:] {
				if isShared(r) {
					in[r.at/(100*time.Millisecond)]++
				}
			}
			for at, n := range in {
				if n > 12 {
					t.Errorf("%s: 20 clients made %d calls in the tenth of a second %d", why, n, at)
				}
			}
			if len(in) < 5 {
				t.Errorf("%s: all calls were made in %d tenths of a second", why, len(in))
			}
		}
		time.Sleep(5 * time.Second)
		spread("new sessions")
		tc.failOver("r2")
		time.Sleep(5 * time.Second)
		spread("a new master")
		wantSafe(t, all)
	})
}

// A session that is opened while the first call of the client's only other
// session is under way shares the next call with it, though the first wait is
// shorter by chance.
func TestSharedKeepaliveAfterTheFirstWait(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		var clients []*client.Client
		for range 20 {
			c := tc.client(t)
			open(t, c)
			clients = append(clients, c)
		}
		time.Sleep(2 * time.Second)
		for _, c := range clients {
			open(t, c)
		}
		before := tc.count(isKeepalive)
		time.Sleep(8 * time.Second)
		wantAtMost(t, tc.count(isKeepalive)-before, 30, "keepalives of single sessions, want one of each session opened last")
	})
}

// After an outage that was longer than the leases, shared calls have enough time
// for their answers. There is no lease left to save by smaller calls.
func TestSharedKeepaliveAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 300)
		tc.killAll()
		time.Sleep(20 * time.Second)
		tc.set(func() { tc.latency = 300 * time.Millisecond })
		tc.Elect("r2")
		tc.revive("r2")
		single := tc.count(isKeepalive)
		time.Sleep(6 * time.Second)
		wantSafe(t, all)
		wantAtMost(t, tc.count(isKeepalive)-single, 20, "keepalives of single sessions")
	})
}

func refuseShared(code lockapi.Code) func(r *http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Path == lockapi.RouteKeepalives {
			return refusal(lockapi.Errorf(code, "no"))
		}
		return nil
	}
}

// Without an answer the lease of each session ends in time, and all sessions
// come back together.
func TestJeopardyOfManySessions(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 40)
		for name, cut := range map[string]func(bool){
			"silent": tc.all,
			"dead": func(on bool) {
				for _, id := range []string{"r1", "r2", "r3"} {
					tc.set(func() { tc.dead[id] = on })
				}
				tc.breakConnections()
			},
		} {
			cut(true)
			time.Sleep(all[0].Remaining() - time.Second)
			for _, s := range all {
				tc.keepAlive(s) // it lives on in the cell
			}
			time.Sleep(10 * time.Second)
			for _, s := range all {
				wantState(t, s, client.Jeopardy)
			}
			before := tc.count(isShared) + tc.count(isKeepalive)
			cut(false)
			time.Sleep(2 * time.Second)
			wantSafe(t, all)
			if n := tc.count(isShared) + tc.count(isKeepalive) - before; n > 3*len(all) || name == "dead" && n > 10 {
				t.Errorf("%s: %d keepalives for the return", name, n)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// An answer about other sessions, of a former master, or with entries missing is
// refused.
func TestLiesAboutManySessions(t *testing.T) {
	for name, lie := range map[string]func(all []any) []any{
		"fewer":   func(all []any) []any { return all[1:] },
		"swapped": func(all []any) []any { all[0], all[1] = all[1], all[0]; return all },
		"neither": func(all []any) []any {
			delete(all[0].(map[string]any), "ttl_ms")
			delete(all[0].(map[string]any), "held_ms")
			delete(all[0].(map[string]any), "epoch")
			delete(all[0].(map[string]any), "events")
			return all
		},
		"no lease":  func(all []any) []any { all[0].(map[string]any)["ttl_ms"] = 0; return all },
		"old epoch": func(all []any) []any { all[0].(map[string]any)["epoch"] = 1; return all },
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			tc.Elect("r2")
			all := openShared(t, c, 5)
			var lies atomic.Int32
			tc.lieBy(func(r *http.Request, resp *http.Response, answer map[string]any) {
				if list, ok := answer["sessions"].([]any); ok && r.URL.Path == lockapi.RouteKeepalives {
					answer["sessions"] = lie(list)
					lies.Add(1)
				}
			})
			ends := make([]time.Duration, len(all))
			for i, s := range all {
				ends[i] = s.Remaining() + tc.now()
			}
			for range 200 {
				time.Sleep(50 * time.Millisecond)
				if lies.Load() > 0 {
					break
				}
			}
			time.Sleep(5 * time.Millisecond)
			for i, s := range all {
				if s.Epoch() != 2 || s.Remaining()+tc.now() > ends[i] && tc.count(isKeepalive) == 0 {
					t.Errorf("session %d believes a lie: epoch %d", i, s.Epoch())
				}
			}
			time.Sleep(time.Minute)
			wantSafe(t, all)
		})
	}
}

// A session that has never requested a lock is not read from a new master.
func TestIdleSessionsAreNotRead(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := openShared(t, c, 20)
		lock(t, all[7], "/a")
		before := len(tc.sent())
		tc.failOver("r2")
		time.Sleep(all[0].TTL())
		reads := 0
		for _, r := range tc.sent()[before:] {
			if r.method == http.MethodGet && strings.HasPrefix(r.path, lockapi.RouteSessions+"/") {
				reads++
			}
		}
		if reads != 1 || all[7].Epoch() != 2 || all[0].Epoch() != 2 {
			t.Errorf("%d sessions were read, want that with a lock; epochs %d and %d", reads, all[7].Epoch(), all[0].Epoch())
		}
	})
}
