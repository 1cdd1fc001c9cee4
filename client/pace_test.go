package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// Calls keep a pace of some tens a second at most, for any answers, however
// fast they come.
func TestPaceAmongLies(t *testing.T) {
	var turn atomic.Uint64
	event := func() []lockapi.Event {
		return []lockapi.Event{{Seq: turn.Add(1), Type: lockapi.EventLockGranted, Path: "/a", Handle: "h"}}
	}
	keepalive := func(change func(*lockapi.Keepalive)) func(*http.Request) (int, any) {
		return func(r *http.Request) (int, any) {
			if !isKeepaliveRequest(r) {
				return 0, nil
			}
			k := &lockapi.Keepalive{TTLMS: 12_000, Epoch: 9}
			change(k)
			return 200, k
		}
	}
	for name, answer := range testrun.Table(t, 3, map[string]func(*http.Request) (int, any){
		"nothing":             func(*http.Request) (int, any) { return 200, nil },
		"empty objects":       func(*http.Request) (int, any) { return 200, struct{}{} },
		"always the same":     keepalive(func(k *lockapi.Keepalive) { k.Events = []lockapi.Event{{Seq: 3}} }),
		"always news":         keepalive(func(k *lockapi.Keepalive) { k.Events = event() }),
		"always a new master": keepalive(func(k *lockapi.Keepalive) { k.Events = event(); k.Epoch = 9 + turn.Load() }),
		"queued at once": func(r *http.Request) (int, any) {
			var q lockapi.LockRequest
			if r.Method != http.MethodPut || json.NewDecoder(r.Body).Decode(&q) != nil {
				return 0, nil
			}
			return 202, lockapi.Grant{Path: "/a", State: lockapi.StateQueued, Session: q.Session, Handle: q.Handle, Mode: q.Mode, Position: 1}
		},
		"another session": func(r *http.Request) (int, any) {
			if r.Method == http.MethodGet {
				return 200, lockapi.SessionState{}
			}
			return 0, nil
		},
		"not the master": func(r *http.Request) (int, any) {
			e := lockapi.Errorf(lockapi.CodeNotMaster, "no")
			e.Master = fmt.Sprintf("http://m%d", turn.Add(1))
			return 421, e
		},
	}) {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			c := tc.by(t, tc, "http://r1", "http://r2")
			s := open(t, c)
			tc.Elect("r1") // makes the client read the session
			tc.insteadBy(func(r *http.Request) *http.Response {
				if status, body := answer(r); status != 0 {
					return reply(status, body)
				}
				return nil
			})
			ctx := t.Context()
			every := func(sentRequest) bool { return true }
			before := tc.count(every)
			go func() {
				for s.Err() == nil && ctx.Err() == nil {
					if h, err := s.Lock(ctx, "/a", client.Wait(10*time.Second)); err == nil {
						_ = h.Unlock(ctx)
					}
					client.Sleep(ctx, time.Second) // pacing its own calls is up to the caller
				}
			}()
			time.Sleep(time.Minute)
			wantAtMost(t, tc.count(every)-before, 60*60, "calls in a minute")
			tc.set(func() { tc.instead = nil })
			_ = s.Close(ctx)
		})
	}
}

// The client avoids a server that is not a replica and answers every request
// with nonsense.
func TestNonsenseIsPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		tc.insteadBy(func(r *http.Request) *http.Response {
			if r.URL.Host == "r1" {
				return reply(200, struct{}{})
			}
			return nil
		})
		c := tc.by(t, tc, "http://r2", "http://r1", "http://r3")
		tc.Elect("r2")
		s := open(t, c)
		h := lock(t, s, "/a")
		epoch := s.Epoch()
		tc.failOver("r3")
		time.Sleep(s.TTL())
		if h.Err() != nil || s.Epoch() != epoch+1 {
			t.Errorf("the hold: %v, epoch %d", h.Err(), s.Epoch())
		}
	})
}

// downgrade is a gateway that names an http URL for the master.
type downgrade struct {
	seen []url.URL
}

func (d *downgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	d.seen = append(d.seen, *r.URL)
	if r.Header.Get(lockapi.HeaderForward) == lockapi.ForwardNever {
		return answer(func(*http.Request) (int, string) {
			return 421, `{"code":"not_master","master":"http://evil:7101"}`
		}).RoundTrip(r)
	}
	resp, err := answer(func(*http.Request) (int, string) { return 200, `{"path":"/a","state":"free"}` }).RoundTrip(r)
	resp.Header.Set(lockapi.HeaderMaster, "http://evil:7101")
	return resp, err
}

// No answer leads a client from https to http, unless the caller gave that very
// URL.
func TestNoDowngrade(t *testing.T) {
	for _, also := range [][]string{nil, {"http://evil:7101"}} {
		d := &downgrade{}
		c := newClient(t, client.Config{URLs: slices.Concat([]string{"https://r1"}, also), Transport: d})
		var err error
		for range 3 {
			_, err = c.ReadLock(t.Context(), "/a")
		}
		led := slices.ContainsFunc(d.seen, func(u url.URL) bool { return u.Scheme == "http" })
		if led != (also != nil) {
			t.Errorf("with %v configured too: called %v", also, d.seen)
		}
		if also == nil && err != nil {
			t.Errorf("it was not forwarded: %v", err)
		}
	}
}
