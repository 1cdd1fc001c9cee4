package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// everything returns a call of each kind, on a session that may be nil.
func everything(t *testing.T, s *client.Session) map[string]func(context.Context, *client.Client) error {
	t.Helper()
	return map[string]func(context.Context, *client.Client) error{
		"ReadLock": func(ctx context.Context, c *client.Client) error { return second(c.ReadLock(ctx, "/a")) },
		"stale": func(ctx context.Context, c *client.Client) error {
			return second(c.ReadLock(ctx, "/a", client.Stale()))
		},
		"Cell":  func(ctx context.Context, c *client.Client) error { return second(admin.New(c).Cell(ctx)) },
		"check": func(ctx context.Context, c *client.Client) error { return second(c.CheckSequencer(ctx, "shared:1:/a")) },
		"list":  func(ctx context.Context, c *client.Client) error { return last(c.ListLocks(ctx, "")) },
		"read": func(ctx context.Context, c *client.Client) error {
			return second(admin.New(c).ReadSession(ctx, s.ID()))
		},
		"release": func(ctx context.Context, c *client.Client) error {
			return second(admin.New(c).Release(ctx, "/a", s.ID(), "h", 0))
		},
		"kill":     func(ctx context.Context, c *client.Client) error { return admin.New(c).KillSession(ctx, "s99") },
		"Transfer": func(ctx context.Context, c *client.Client) error { return second(admin.New(c).Transfer(ctx, "r2")) },
		"session": func(ctx context.Context, c *client.Client) error {
			s, err := c.NewSession(ctx)
			if err == nil {
				err = s.Close(ctx)
			}
			return err
		},
		"lock": func(ctx context.Context, c *client.Client) error {
			s, err := c.NewSession(ctx)
			if err != nil {
				return err
			}
			return errors.Join(s.Do(ctx, "/b", func(context.Context, *client.Held) error { return nil }), s.Close(ctx))
		},
	}
}

// A hung replica that is named first costs hedgeAfter, not its whole time-out.
// It accepts connections and answers no call.
func TestHungReplicaNamedFirst(t *testing.T) {
	for _, hung := range [][]string{{"r1"}, {"r1", "r3"}} {
		names := everything(t, nil)
		for name := range names {
			subBubble(t, fmt.Sprint(name, len(hung)), func(t *testing.T, tc *testCell, c *client.Client) {
				tc.Elect("r2")
				s := open(t, c)
				fresh := tc.client(t)
				for _, id := range hung {
					tc.isolate(id, true)
				}
				ctx := timeout(t, 5*time.Second)
				began := time.Now()
				must(t, everything(t, s)[name](ctx, fresh))
				if got, most := time.Since(began), time.Duration(len(hung))*client.HedgeAfter+150*time.Millisecond; got > most {
					t.Errorf("it took %s, want %s at most", got, most)
				}
				began = time.Now() // now the client knows that it hangs
				if err := everything(t, s)["ReadLock"](ctx, fresh); err != nil || time.Since(began) > 50*time.Millisecond {
					t.Errorf("the next call: %v after %s", err, time.Since(began))
				}
			})
		}
	}
}

// The client avoids a silent replica for a while when it looks for the next
// master.
func TestSilentReplicaIsPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.Elect("r3")
		tc.isolate("r1", true)
		must(t, second(c.ReadLock(t.Context(), "/a")))
		tc.failOver("r2")
		began := time.Now()
		must(t, second(c.ReadLock(t.Context(), "/a")))
		wantWithin(t, began, 100*time.Millisecond)
		wantEqual(t, "calls of the silent replica", tc.count(func(r sentRequest) bool { return r.host == "r1" && r.path != lockapi.RouteReady }), 1)
	})
}

// If the master itself hangs, calls of all kinds end soon after the next
// election.
func TestHungMaster(t *testing.T) {
	for name := range everything(t, nil) {
		if name == "Transfer" { // is sent once, possibly to the old master
			continue
		}
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			tc.isolate("r1", true)
			time.AfterFunc(3*time.Second, func() { tc.Elect("r3") })
			began := time.Now()
			must(t, everything(t, s)[name](t.Context(), c))
			wantWithin(t, began, 3*time.Second+client.MostPause+500*time.Millisecond)
		})
	}
}

// An answer counts even if the context ended before it was read.
func TestAnswerAtTheEndOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.by(t, answer(func(*http.Request) (int, string) {
			time.Sleep(time.Second) // even if the caller has given up
			return 200, `{"path":"/a","state":"free"}`
		}), "http://r1", "http://r2")
		ctx := timeout(t, 900*time.Millisecond)
		if l, err := c.ReadLock(ctx, "/a"); err != nil || l.Path != "/a" {
			t.Errorf("%+v, %v", l, err)
		}
		time.Sleep(time.Second)
	})
}

// overtaken delays the first release until another attempt of it was answered.
type overtaken struct {
	*testCell
	releases atomic.Int32
	answered chan struct{} // closed once another attempt was
	settled  sync.Once
}

func (o *overtaken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, lockapi.RouteLocks) {
		return o.testCell.RoundTrip(r)
	}
	if o.releases.Add(1) == 1 {
		<-o.answered
		return o.testCell.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	}
	resp, err := o.testCell.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK {
		o.settled.Do(func() { close(o.answered) })
	}
	return resp, err
}

// TestReleaseOvertakenByItsHedge: two attempts of one release are answered at
// the same moment. The later one finds no hold, because the earlier one has
// released it.
func TestReleaseOvertakenByItsHedge(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.by(t, &overtaken{testCell: tc, answered: make(chan struct{})}, "http://r1", "http://r2")
		h := lock(t, open(t, c), "/a")
		must(t, h.Unlock(t.Context()))
		wantEqual(t, "holders", len(tc.held("/a")), 0)
	})
}

// In a healthy cell only the master gets calls once it is known. Long polls,
// waiting calls, a slow network or one slow call among others change nothing.
func TestNoHedgesInACellThatIsWell(t *testing.T) {
	elsewhere := func(r sentRequest) bool { return r.host != "r1" }
	for name, test := range testrun.Table(t, 2, map[string]struct {
		latency time.Duration
		most    int // calls to others, until the latency is known
	}{
		"near": {5 * time.Millisecond, 0}, "slow": {140 * time.Millisecond, 0}, "far": {200 * time.Millisecond, 2}, "very far": {600 * time.Millisecond, 2},
	}) {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			tc.set(func() { tc.latency = test.latency })
			a, b := open(t, c), open(t, c, client.TTL(time.Minute))
			h := lock(t, a, "/a")
			go func() {
				time.Sleep(3 * client.LongPoll)
				_ = h.Unlock(t.Context())
			}()
			lock(t, b, "/a") // waits in the queue
			for range 100 {
				must(t, second(c.ReadLock(t.Context(), "/a")))
			}
			wantAtMost(t, tc.count(elsewhere), test.most, "calls went to replicas other than the master")
		})
	}
	subBubble(t, "busy", func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		slow := tc.by(t, slowPuts{tc, 1500 * time.Millisecond}, "http://r1", "http://r2", "http://r3")
		mine := open(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				_, _ = admin.New(slow).ReadSession(ctx, s.ID())
				client.Sleep(ctx, 100*time.Millisecond)
			}
		}()
		lock(t, mine, "/a") // takes 1.5 s on its way
		must(t, second(mine.TryLock(t.Context(), "/b")))
		cancel()
		wantAtMost(t, tc.count(elsewhere), 0, "calls went to replicas other than the master")
	})
}

// After a change of master, calls that wait in a queue try the other replicas a
// few times only, however long they wait.
func TestFewHedgesAfterAFailOver(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		h := lock(t, open(t, c), "/a")
		const n = 20
		done := make(chan *client.Held, n)
		for range n {
			s := open(t, c)
			go func() { got, _ := s.Lock(t.Context(), "/a"); done <- got }()
		}
		time.Sleep(time.Second)
		tc.kill("r1")
		time.AfterFunc(2*time.Second, func() { tc.Elect("r2") })
		time.Sleep(10 * time.Second)
		before := tc.count(func(r sentRequest) bool { return r.host != "r2" })
		time.Sleep(3 * client.LongPoll)
		if got := tc.count(func(r sentRequest) bool { return r.host != "r2" }) - before; got > n {
			t.Errorf("%d calls of %d waiters went to replicas other than the master", got, n)
		}
		for next := h; ; next = <-done {
			must(t, next.Unlock(t.Context()))
			if len(tc.held("/a")) == 0 {
				break
			}
		}
	})
}

// The error of an abandoned call distinguishes a cell without any answer from
// one without a master.
func TestNoAnswerIsNotNoMaster(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		call := func() error {
			ctx := timeout(t, 3*time.Second)
			_, err := c.ReadLock(ctx, "/a")
			return err
		}
		tc.all(true)
		err := call()
		wantErr(t, err, client.ErrNoAnswer)
		wantErr(t, err, client.ErrNoMaster)
		wantErr(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "no replica answered") {
			t.Errorf("it says %v", err)
		}
		tc.isolate("r3", false) // one answers that there is no master
		tc.Depose()
		err = call()
		wantErr(t, err, client.ErrNoMaster)
		if errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("one answers: %v", err)
		}
	})
}

// lonely returns the answers of a replica that is cut off from the others.
func lonely(id string) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		switch {
		case r.URL.Host != id:
			return nil
		case r.URL.Path == lockapi.RouteCell:
			return reply(http.StatusOK, lockapi.Cell{Cell: "test", Epoch: 1})
		case r.URL.Path == lockapi.RouteReady:
			return refusal(lockapi.Errorf(lockapi.CodeNoMaster, "no master is known"))
		}
		return nil
	}
}
