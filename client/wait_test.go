package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Wait bounds the whole of Lock. A grant during a jeopardy that does not end is
// released, also by TryLock.
func TestWaitBoundsTheJeopardy(t *testing.T) {
	for name, wait := range map[string]time.Duration{"Lock": 3 * time.Second, "TryLock": 0} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			other := open(t, tc.client(t)) // its calls get through
			tc.lose(func(r *http.Request) bool {
				return isKeepaliveRequest(r) && r.URL.Path == "/v1/sessions/"+s.ID()+"/keepalive"
			})
			<-s.Changed()
			wantState(t, s, client.Jeopardy)
			tc.Elect("r1") // gives the session a whole ttl
			began := time.Now()
			_, err := s.Lock(t.Context(), "/a", client.Wait(wait))
			wantErr(t, err, client.ErrJeopardy)
			wantErr(t, err, client.ErrNoMaster)
			if got, most := time.Since(began), wait+client.WaitSlack+client.SettleTime; got < wait || got > most {
				t.Errorf("it took %s, want %s to %s", got, wait, most)
			}
			wantTokens(t, tc, "/a")
			wantState(t, s, client.Jeopardy)
			lock(t, other, "/a")
		})
	}
}

// Lock waits for the end of a jeopardy.
func TestWaitOutlastsAJeopardy(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.lose(isKeepaliveRequest)
		<-s.Changed()
		tc.Elect("r1")
		time.AfterFunc(3*time.Second, func() { tc.lose(func(*http.Request) bool { return false }) })
		h := lock(t, s, "/a", client.Wait(20*time.Second))
		wantState(t, s, client.Safe)
		wantTokens(t, tc, "/a", h.Token())
	})
}

// Mastership moves so often that no call gets an answer before the wait is
// over. The error is then ErrLockHeld only if the lock is held.
func TestWaitOverWhileMastershipMoves(t *testing.T) {
	isPut := func(r *http.Request) bool { return r.Method == http.MethodPut }
	for name, test := range map[string]struct {
		lost func(*http.Request) bool
		held bool
		want error
	}{
		"free":   {isPut, false, client.ErrNoMaster},
		"silent": {func(r *http.Request) bool { return isPut(r) || r.Method == http.MethodGet }, true, client.ErrNoMaster},
		"held":   {isPut, true, client.ErrLockHeld},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			a, b := open(t, c), open(t, c)
			if test.held {
				lock(t, a, "/a")
			}
			tc.lose(test.lost)
			stop := make(chan bool)
			go func() {
				for every := time.NewTicker(100 * time.Millisecond); ; {
					select {
					case <-every.C:
						b.AskAgain()
					case <-stop:
						return
					}
				}
			}()
			began := time.Now()
			_, err := b.Lock(t.Context(), "/a", client.Wait(3*time.Second))
			close(stop)
			wantErr(t, err, test.want)
			wantWithin(t, began, 3*time.Second+client.WaitSlack+2*client.SettleTime)
			if refused, ok := err.(*lockapi.Error); !ok || (len(refused.Holders) > 0) != (test.want == client.ErrLockHeld) {
				t.Errorf("the error is %#v", err)
			}
			tc.lose(func(*http.Request) bool { return false })
		})
	}
}

// idleProxy ends a call without an answer after a time, as a proxy does with an
// idle connection.
type idleProxy struct {
	http.RoundTripper
	after time.Duration
}

func (p idleProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), p.after)
	defer cancel()
	resp, err := p.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil && req.Context().Err() == nil {
		err = io.EOF
	}
	return resp, err
}

// A wait longer than a proxy's limit for a call ends like any other: in time
// with ErrLockHeld, or with the lock.
func TestWaitOutlastsAProxy(t *testing.T) {
	for _, idle := range []time.Duration{time.Second, 3 * time.Second, 7900 * time.Millisecond, 8 * time.Second} {
		for _, free := range []time.Duration{time.Hour, 6 * time.Second, 7950 * time.Millisecond} {
			bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
				const wait = 8 * time.Second
				h := lock(t, open(t, c), "/a")
				time.AfterFunc(free, func() { _ = h.Unlock(context.Background()) })
				proxied := tc.by(t, idleProxy{tc, idle}, "http://r1", "http://r2", "http://r3")
				defer proxied.Close()
				s := open(t, proxied)
				began := time.Now()
				held, err := s.Lock(t.Context(), "/a", client.Wait(wait))
				took := time.Since(began)
				if free < wait {
					if err != nil || took > free+300*time.Millisecond {
						t.Errorf("cut after %v, free after %v: %v after %v", idle, free, err, took)
					}
					return
				}
				if held != nil || !errors.Is(err, client.ErrLockHeld) || took < wait || took > wait+200*time.Millisecond || tc.waiting("/a") != 0 {
					t.Errorf("cut after %v: %v after %v, %d still wait", idle, err, took, tc.waiting("/a"))
				}
			})
		}
	}
}
