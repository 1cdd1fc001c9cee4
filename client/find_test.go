package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// isLook reports whether a request lists the replicas' URLs.
func isLook(r sentRequest) bool { return r.path == lockapi.RouteURLs }

// wantKnown checks the replica URLs that a client knows, in any order.
func wantKnown(t *testing.T, c *client.Client, want ...string) {
	t.Helper()
	got, err := admin.New(c).URLs(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("it knows %q, want %q (%v)", got, want, err)
	}
}

func wantRead(t *testing.T, c *client.Client, within time.Duration) {
	t.Helper()
	ctx := timeout(t, within)
	must(t, second(c.ReadLock(ctx, "/a")))
}

// A client learns the other URLs from one, and survives the loss of that one.
func TestLearnsTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.knowing(t, client.Config{}, "http://r2")
		wantRead(t, c, time.Second)
		wantKnown(t, c, "http://r1", "http://r2") // the master, too
		time.Sleep(2 * client.FirstLook)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3")
		tc.kill("r2")
		tc.kill("r1")
		tc.Elect("r3")
		wantRead(t, c, 2*time.Second)
	})
}

// A client learns the other URLs even from a replica that is cut off from the
// others.
func TestLearnsFromOneThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		tc.Elect("r2")
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "r1" && r.URL.Query().Get("consistency") == "" {
				return answer(func(*http.Request) (int, string) { return 503, `{"code":"no_master"}` }).RoundTrip(r)
			}
			return tc.RoundTrip(r)
		})
		wantRead(t, tc.knowing(t, client.Config{Transport: way}, "http://r1"), 10*time.Second)
		c := tc.knowing(t, client.Config{Transport: way, OnlyURLs: true}, "http://r1")
		ctx := timeout(t, time.Minute)
		wantErr(t, second(c.ReadLock(ctx, "/a")), client.ErrNoMaster)
	})
}

// A client without the right to list URLs follows the masters that replicas
// name.
func TestFollowsNamedMasters(t *testing.T) {
	for _, code := range []lockapi.Code{lockapi.CodeUnauthenticated, lockapi.CodePermissionDenied, lockapi.CodeNotFound} {
		bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
			tc.instead = func(r *http.Request) *http.Response {
				if r.URL.Path == lockapi.RouteURLs {
					return refusal(lockapi.Errorf(code, "no"))
				}
				return nil
			}
			c := tc.knowing(t, client.Config{}, "http://r1")
			for _, id := range []string{"r1", "r2", "r3"} {
				tc.Elect(id)
				wantRead(t, c, time.Second)
				time.Sleep(time.Minute)
			}
			tc.kill("r1")
			tc.failOver("r2")
			wantRead(t, c, 2*time.Second)
			wantKnown(t, c, "http://r1", "http://r2", "http://r3")
		})
	}
}

// The client does not call a reported URL that its own rules forbid.
func TestLearnedURLs(t *testing.T) {
	evil := []string{"http://evil:7101", "https://me:secret@evil", "https://evil/path", "https://0.0.0.0:1", "//evil", ""}
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		tc.tell("c1", append(evil, "https://r2")...)
		c := tc.knowing(t, client.Config{}, "https://r1")
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "https://r1", "https://r2")
		mixed := tc.knowing(t, client.Config{}, "https://r1", "http://r2")
		wantRead(t, mixed, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, mixed, "http://r2", "https://r1")
		only := tc.knowing(t, client.Config{OnlyURLs: true}, "http://r1")
		wantRead(t, only, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, only, "http://r1")
	})
}

// The client ignores the members of another cell.
func TestMembersOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		tc.tell("c1", "http://r1", "http://r2", "http://r3", "http://r4")
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3") // the body names another cell than the header
		tc.tell("old", "http://r1", "http://r2", "http://r3", "http://r4")
		wantRead(t, c, time.Second)
		time.Sleep(2 * time.Minute)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3", "http://r4")
	})
}

// blackHoles is a network in which the reported URLs lead nowhere, as behind a
// NAT. The client reaches the replicas at r1, r2 and r3, and they report in1,
// in2 and in3.
type blackHoles struct {
	*testCell
	lost int
}

func (b *blackHoles) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Host, "in") {
		b.set(func() { b.lost++ })
		return hang(r)
	}
	return b.testCell.RoundTrip(r)
}

// Unreachable learned URLs do no harm. Over failovers and deaths of replicas a
// client that learns URLs is no slower than one that does not. At most a tenth
// of its requests go to these URLs.
func TestLearnedInVain(t *testing.T) {
	slowest := map[bool]time.Duration{}
	for _, only := range []bool{true, false} {
		bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
			tc.tell("c1", "http://in1", "http://in2", "http://in3")
			b := &blackHoles{testCell: tc}
			c := tc.knowing(t, client.Config{Transport: b, OnlyURLs: only}, "http://r1", "http://r2", "http://r3")
			wantRead(t, c, time.Second)
			time.Sleep(time.Minute)
			random := rand.New(rand.NewPCG(1, 2))
			for range 40 {
				master := fmt.Sprint("r", 1+random.IntN(3))
				tc.Depose()
				go func() {
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					tc.Elect(master)
				}()
				began := time.Now()
				wantRead(t, c, 10*time.Second)
				slowest[only] = max(slowest[only], time.Since(began))
				time.Sleep(time.Second)
			}
			if all := tc.count(func(sentRequest) bool { return true }); b.lost > all/10 {
				t.Errorf("%d requests went nowhere, and %d elsewhere", b.lost, all)
			}
		})
	}
	if slowest[false] > slowest[true]+client.MostPause+client.HedgeAfter {
		t.Errorf("the slowest call took %v, and %v without learned URLs", slowest[false], slowest[true])
	}
}

// An unused client sends no requests, nor does a closed one.
func TestLooksOnlyWhereUsed(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.knowing(t, client.Config{}, "http://r1")
		time.Sleep(10 * time.Minute)
		wantRead(t, c, time.Second)
		time.Sleep(10 * time.Minute)
		if n := tc.count(isLook); n < 1 || n > 2 {
			t.Errorf("members were listed %d times for one call", n)
		}
		n := tc.count(isLook)
		wantRead(t, c, time.Second)
		_ = c.Close()
		wantRead(t, c, time.Second)
		time.Sleep(10 * time.Minute)
		if tc.count(isLook) != n {
			t.Error("it lists members after Close")
		}
		left := tc.knowing(t, client.Config{}, "http://r1")
		wantRead(t, left, time.Second)
		tc.kill("r1")
		time.Sleep(10 * time.Minute)
		if n := tc.count(func(r sentRequest) bool { return r.at > time.Since(tc.start)-5*time.Minute }); n != 0 {
			t.Errorf("%d requests of an unused client to a dead cell", n)
		}
	})
}

// Clients list the members at the start, after a change of master, and when a
// keepalive names a new revision. Without a revision they list them once a
// minute. The requests are spread over time.
func TestLooksAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		clients := testrun.Times(20, 60)
		for range clients {
			s := open(t, tc.knowing(t, client.Config{}, "http://r1", "http://r2"))
			t.Cleanup(func() { _ = s.Close(context.Background()) })
		}
		wantSpread := func(what string, from time.Duration, over, least, most time.Duration) {
			t.Helper()
			perSecond, n := map[time.Duration]int{}, 0
			for _, r := range tc.sent() {
				if isLook(r) && r.at >= from && r.host == "r2" {
					perSecond[(r.at-from)/time.Second]++
					n++
				}
			}
			for s, n := range perSecond {
				if n > clients*3/4 {
					t.Errorf("%s: %d looks in second %d", what, n, s)
				}
			}
			if n < int(least)*clients || n > int(most)*clients {
				t.Errorf("%s: %d looks in %s", what, n, over)
			}
		}
		time.Sleep(70 * time.Second)
		from := time.Since(tc.start)
		tc.Elect("r2")
		time.Sleep(20 * time.Second)
		wantSpread("a change of master", from, 20*time.Second, 1, 2)
		from = time.Since(tc.start)
		time.Sleep(10 * time.Minute)
		wantSpread("keepalives with the same revision of members", from, 10*time.Minute, 0, 0)
		from = time.Since(tc.start)
		tc.set(func() { tc.members = 7 })
		time.Sleep(5 * time.Minute)
		wantSpread("keepalives with a new revision of members", from, 5*time.Minute, 1, 1)
		from = time.Since(tc.start)
		tc.set(func() { tc.withoutRevision = true })
		time.Sleep(5 * time.Minute)
		wantSpread("keepalives without a revision of members", from, 5*time.Minute, 3, 11)
	})
}

// If all given URLs now belong to another cell, the client tries the learned
// ones before it gives up.
func TestGivenAreAnotherCells(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		tc.tell("old", "http://r4")
		tc.set(func() { cells["r4"] = "old" })
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		tc.set(func() { cells["r1"], cells["r2"], cells["r3"] = "new", "new", "new" })
		wantRead(t, c, 5*time.Second)
		tc.set(func() { delete(cells, "r4") })
		ctx := timeout(t, time.Minute)
		if _, err := c.ReadLock(ctx, "/a"); !errors.Is(err, client.ErrOtherCell) {
			t.Error(err)
		}
	})
}
