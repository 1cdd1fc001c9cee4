package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
)

// If the first attempt sent nothing, a call that is given up still reports the
// possible effect of the race's other attempts.
func TestRacersMayHaveTakenEffect(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		tc.Elect("r2")
		c := tc.by(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "r1" { // it never connects
				_, err := hang(r)
				return nil, &net.OpError{Op: "dial", Err: err}
			}
			_, _ = tc.RoundTrip(r)
			return hang(r) // the answer is lost
		}), "http://r1", "http://r2")
		ctx := timeout(t, time.Second)
		_, err := c.NewSession(ctx)
		wantErr(t, err, client.ErrOutcomeUnknown)
		wantErr(t, err, context.DeadlineExceeded)
	})
}

// slowTo delays each request to some replicas by a random time, whether or not
// the caller still waits.
type slowTo struct {
	*testCell
	rand  *rand.Rand
	most  time.Duration
	hosts []string
}

func (s *slowTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if !slices.Contains(s.hosts, r.URL.Host) || isKeepaliveRequest(r) {
		return s.testCell.RoundTrip(r)
	}
	s.testCell.mu.Lock()
	d := time.Duration(s.rand.Int64N(int64(s.most)))
	s.testCell.mu.Unlock()
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		time.Sleep(d / 2)
		resp, err := s.testCell.RoundTrip(r.WithContext(context.WithoutCancel(r.Context()))) // it is on its way, and will arrive
		time.Sleep(d / 2)
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// Answers of losing attempts and abandoned requests may arrive at any time.
// Each lock is granted once, to one holder at a time, and nothing is left of
// it.
func TestRaces(t *testing.T) {
	for _, seed := range testrun.Sample(t, 8, 60) {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			way := &slowTo{testCell: tc, rand: r, most: time.Duration(1+r.IntN(1500)) * time.Millisecond, hosts: []string{"r1", "r2", "r3"}[:1+r.IntN(3)]}
			c = tc.by(t, way, "http://r1", "http://r2", "http://r3")
			t.Cleanup(func() { time.Sleep(time.Minute) }) // for requests on their way
			t.Cleanup(func() { _ = c.Close() })
			w := &watcher{}
			sessions := []*client.Session{open(t, c), open(t, c)}
			done := make(chan bool, len(sessions))
			for _, s := range sessions {
				go func() {
					for range 15 {
						h, err := s.Lock(t.Context(), "/a")
						if err != nil {
							t.Errorf("seed %d: lock: %v", seed, err)
							break
						}
						w.enter(t, h)
						time.Sleep(time.Duration(seed%7) * 50 * time.Millisecond)
						if err := h.Unlock(t.Context()); err != nil {
							t.Errorf("seed %d: unlock: %v", seed, err)
						}
					}
					done <- true
				}()
			}
			if seed%2 == 0 {
				time.AfterFunc(2*time.Second, func() { tc.Elect("r2") })
			}
			for range sessions {
				<-done
			}
			time.Sleep(30 * time.Second)
			wantTokens(t, tc, "/a")
			if tc.waiting("/a") > 0 {
				t.Errorf("seed %d: a waiter is left", seed)
			}
		})
	}
}

// The end of the caller's context ends a race and all its attempts.
func TestRaceEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.all(true)
		for _, d := range []time.Duration{100 * time.Millisecond, client.HedgeAfter, time.Second, 4 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			began := time.Now()
			wantErr(t, second(c.ReadLock(ctx, "/a")), context.DeadlineExceeded)
			wantEqual(t, "it took", time.Since(began), d)
			cancel()
		}
		began := time.Now()
		wantErr(t, second(s.Lock(t.Context(), "/a", client.Wait(2*time.Second))), client.ErrOutcomeUnknown)
		wantWithin(t, began, 2*time.Second+client.WaitSlack+client.SettleTime+time.Second)
		tc.all(false)
		time.Sleep(20 * time.Second)
		wantTokens(t, tc, "/a")
	})
}

// A race pauses between the masters that replicas name. The first replica
// hangs, and each other replica names a new master.
func TestRacePace(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		var calls atomic.Int64
		c := tc.by(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			n := calls.Add(1)
			if r.URL.Host == "r1" {
				return hang(r)
			}
			client.Sleep(r.Context(), time.Millisecond)
			return response(421, fmt.Sprintf(`{"code":"not_master","master":"http://m%d"}`, n)), nil
		}), "http://r1", "http://r2")
		ctx := timeout(t, time.Minute)
		if _, err := c.ReadLock(ctx, "/a"); err == nil {
			t.Error("it was answered")
		}
		wantAtMost(t, calls.Load(), 60*10, "calls in a minute")
	})
}

// A replica accepts connections and answers no call, over the SDK's own
// connections.
func TestHungConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close() // only the operating system accepts connections
	well := serve(t)
	c, err := client.New(l.Addr().String(), well)
	must(t, err)
	defer c.Close()
	began := time.Now()
	s, err := c.NewSession(t.Context())
	must(t, err)
	if got := time.Since(began); got < client.HedgeAfter {
		t.Errorf("it took %s", got)
	}
	must(t, s.Close(t.Context()))
}
