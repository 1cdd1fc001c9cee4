package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// TestToken: each request carries the current token, on the client's own
// connections, through a transport and on a stream. Without a token the client
// sends no request.
func TestToken(t *testing.T) {
	var heard atomic.Value
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		heard.Store(r.URL.Path + " " + r.Header.Get("Authorization"))
		p := lockapi.Errorf(lockapi.CodePermissionDenied, "no").Problem()
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_, _ = w.Write([]byte(`{"type":"` + p.Type + `","title":"x","status":403,"code":"permission_denied","detail":"no"}`))
	}))
	defer server.Close()
	for name, transport := range map[string]http.RoundTripper{"own connections": nil, "transport": new(http.Transport)} {
		t.Run(name, func(t *testing.T) {
			token, failed, enough := "stout_one", error(nil), func() {}
			c, err := client.Config{URLs: []string{server.URL}, Transport: transport, OnlyURLs: true,
				Token: func(context.Context) (string, error) { enough(); return token, failed }}.New()
			must(t, err)
			defer c.Close()
			read := func() error {
				_, err := c.Get(t.Context(), "/a")
				return err
			}
			// readTwice gives up at the second attempt, when the first has
			// failed. It returns the number of attempts.
			readTwice := func() (asked int, _ error) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				enough = func() {
					if asked++; asked == 2 {
						cancel()
					}
				}
				_, err := c.Get(ctx, "/a")
				return asked, err
			}
			for _, token = range []string{"stout_one", "stout_two"} {
				if err := read(); !errors.Is(err, lockapi.CodePermissionDenied) || heard.Load() != "/v1/files/a Bearer "+token {
					t.Errorf("%v; received %q", err, heard.Load())
				}
			}
			for _, err := range c.Watch(t.Context(), 1) {
				if !errors.Is(err, lockapi.CodePermissionDenied) || heard.Load() != "/v1/events Bearer stout_two" {
					t.Errorf("%v; received %q", err, heard.Load())
				}
				break
			}
			before := calls.Load()
			for _, bad := range []struct {
				token string
				err   error
				want  string
				asked int
			}{
				{"", nil, "Config.Token returned an empty token", 1},
				{"a\r\nX: y", nil, "a control character", 1},
				{"", errors.New("the vault is closed"), "the vault is closed", 2},
			} {
				token, failed = bad.token, bad.err
				if asked, err := readTwice(); err == nil || asked != bad.asked || !strings.Contains(err.Error(), bad.want) || errors.Is(err, client.ErrOutcomeUnknown) {
					t.Errorf("asked %d times: %v, want %q", asked, err, bad.want)
				}
				if bad.err != nil {
					continue
				}
				for _, err := range c.Watch(t.Context(), 1) {
					if err == nil || !strings.Contains(err.Error(), bad.want) {
						t.Errorf("a watch: %v, want %q", err, bad.want)
					}
					break
				}
			}
			wantAtMost(t, calls.Load()-before, 0, "calls were sent without a token")
		})
	}
}

// TestTokenThatEnded: a call with a refused token is repeated once, if the
// token has changed by then.
func TestTokenThatEnded(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Stout-Revision", "7")
		if r.Header.Get("Authorization") == "Bearer good" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"path":"/a","revision":7,"instance":7,"generation":1,"size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","created_at":"2026-01-01T00:00:00Z","modified_at":"2026-01-01T00:00:00Z"}`))
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"type":"about:blank","title":"x","status":401,"code":"unauthenticated","detail":"no"}`))
	}))
	defer server.Close()
	for name, transport := range map[string]http.RoundTripper{"own connections": nil, "transport": new(http.Transport)} {
		for _, test := range []struct {
			tokens []string // in order; the last one stays
			calls  int64
			fine   bool
		}{
			{[]string{"ended", "good"}, 2, true},
			{[]string{"ended"}, 1, false},
			{[]string{"ended", "ended-too", "good"}, 2, false},
			{[]string{"good"}, 1, true},
			{[]string{"ended", ""}, 1, false}, // no token is not another token
		} {
			var asked atomic.Int64
			c, err := client.Config{URLs: []string{server.URL}, Transport: transport, Token: func(context.Context) (string, error) {
				return test.tokens[min(int(asked.Add(1)), len(test.tokens))-1], nil
			}}.New()
			must(t, err)
			before := calls.Load()
			_, err = c.Put(t.Context(), "/a", []byte("x"))
			if (err == nil) != test.fine || !test.fine && !errors.Is(err, client.ErrUnauthenticated) || calls.Load()-before != test.calls {
				t.Errorf("%s, %q: %v after %d calls", name, test.tokens, err, calls.Load()-before)
			}
		}
	}
}

// TestTokenFailsWithAnAnswer: the function that supplies tokens may itself use
// a cell, and return its refusal. That is no answer to the call.
func TestTokenFailsWithAnAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		fails lockapi.Code
		use   func(context.Context, *client.Client, *client.Session) error
	}{
		"read": {lockapi.CodeNotFound, func(ctx context.Context, c *client.Client, _ *client.Session) error {
			return second(c.Get(ctx, "/a"))
		}},
		"keepalive": {lockapi.CodeSessionNotFound, func(_ context.Context, _ *client.Client, s *client.Session) error {
			time.Sleep(time.Minute)
			return s.Err()
		}},
		"watch": {lockapi.CodeInvalidArgument, func(ctx context.Context, c *client.Client, _ *client.Session) error {
			for _, err := range c.Watch(ctx, 1) {
				return err
			}
			return nil
		}},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			var failed atomic.Bool
			failed.Store(true)
			without := roundTrip(func(r *http.Request) (*http.Response, error) { // the cell has no tokens
				r = r.Clone(r.Context())
				r.Header.Del("Authorization")
				return tc.RoundTrip(r)
			})
			c := tc.knowing(t, client.Config{Transport: without, OnlyURLs: true, Token: func(context.Context) (string, error) {
				if failed.Swap(true) {
					return "t", nil
				}
				return "", lockapi.Errorf(row.fails, "x")
			}}, tc.URLs()...)
			tc.put("/a", "x")
			s := open(t, c)
			failed.Store(false)
			must(t, row.use(t.Context(), c, s))
		})
	}
}
