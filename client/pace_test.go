package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// instead answers some requests at once, in the cell's place.
type instead struct {
	*fakeCell
	answer atomic.Pointer[func(*http.Request) (int, any)]
}

func (i *instead) RoundTrip(r *http.Request) (*http.Response, error) {
	if f := i.answer.Load(); f != nil {
		if status, body := (*f)(r); status != 0 {
			sleep(r.Context(), 300*time.Microsecond) // a local server's time
			i.set(func() {
				i.requests = append(i.requests, fakeRequest{host: r.URL.Host, method: r.Method, path: r.URL.Path})
			})
			b, err := json.Marshal(body)
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b))}, err
		}
	}
	return i.fakeCell.RoundTrip(r)
}

func (i *instead) say(f func(*http.Request) (int, any)) { i.answer.Store(&f) }

// Whatever is answered, and however fast, calls keep a pace: of some tens a
// second at most.
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
	for name, answer := range map[string]func(*http.Request) (int, any){
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
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				i := &instead{fakeCell: f}
				c, err := Config{URLs: []string{"http://r1", "http://r2"}, Transport: i, Clock: c.clock.now}.New()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				s := open(t, c)
				i.say(answer)
				i.elect("r1") // a reason to read the session
				ctx := t.Context()
				every := func(fakeRequest) bool { return true }
				before := i.count(every)
				go func() {
					for s.Err() == nil && ctx.Err() == nil {
						if h, err := s.Lock(ctx, "/a", Wait(10*time.Second)); err == nil {
							_ = h.Unlock(ctx)
						}
						sleep(ctx, time.Second) // that the caller does not ask in a loop is up to the caller
					}
				}()
				time.Sleep(time.Minute)
				if n := i.count(every) - before; n > 60*60 {
					t.Errorf("%d calls in a minute", n)
				}
				i.answer.Store(nil)
				_ = s.Close(ctx)
			})
		})
	}
}

// A server that is no replica, and answers everything with what means nothing,
// is passed over.
func TestNonsenseIsPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		i := &instead{fakeCell: f}
		i.say(func(r *http.Request) (int, any) {
			if r.URL.Host == "r1" {
				return 200, struct{}{}
			}
			return 0, nil
		})
		c, err := Config{URLs: []string{"http://r2", "http://r1", "http://r3"}, Transport: i, Clock: c.clock.now}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		f.elect("r2")
		s := open(t, c)
		h := lock(t, s, "/a")
		f.kill("r2")
		f.elect("r3")
		time.Sleep(s.TTL())
		if h.Err() != nil || s.Epoch() != 3 {
			t.Errorf("the hold: %v, epoch %d", h.Err(), s.Epoch())
		}
	})
}

// downgrade is a gateway behind which the master is named by an http URL.
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

// Nobody leads a client from https to http, unless the caller gave that very
// URL.
func TestNoDowngrade(t *testing.T) {
	for _, also := range [][]string{nil, {"http://evil:7101"}} {
		d := &downgrade{}
		c, err := Config{URLs: slices.Concat([]string{"https://r1"}, also), Transport: d}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
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

// Masters that there are not fill no memory.
func TestPenaltiesAreBounded(t *testing.T) {
	now := time.Duration(0)
	endpoints := []*endpoint{{base: "http://r1"}, {base: "http://r2"}}
	targets := newTargets(endpoints, func() time.Duration { return now })
	for i := range 10_000 {
		now += time.Millisecond
		targets.failed(&route{to: &endpoint{base: fmt.Sprintf("http://m%d", i)}})
	}
	if n := len(targets.penalties); n > mostPenalties {
		t.Errorf("%d penalties are kept", n)
	}
	targets.failed(&route{to: endpoints[1]})
	if targets.resolve(&route{to: endpoints[0]}, "http://r2") != nil {
		t.Error("the last penalty is forgotten")
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for given, want := range map[string]int{"7": 7, "-1": 0, "9223372036854775807": mostRetryAfter, "99999999999999999999": 0, "soon": 0} {
		c, err := Config{URLs: []string{"http://r1"}, Transport: &answerOf{status: 429, body: `{"code":"too_many","delay_remaining_ms":-5}`, retryFor: given}}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		var e *lockapi.Error
		if _, err := c.ReadLock(t.Context(), "/a"); !errors.As(err, &e) || e.RetryAfter != want || e.DelayRemainingMS != 0 {
			t.Errorf("Retry-After %s: %+v", given, e)
		}
	}
}
