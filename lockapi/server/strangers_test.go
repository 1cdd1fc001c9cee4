package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// openToAll are the calls that a caller without a credential may make whatever rules
// there are.
var openToAll = []string{"/livez", "/readyz", "/v1/openapi.yaml", "/v1/access/whoami", "/v1/join?cell=test", "/ui/"}

// TestStrangersLearnNothing: while no rule names anonymous, a caller without a
// credential gets 401 for every other call, also for one that is malformed, and for
// one that asks not to be forwarded. The answer names neither the cell nor its master.
func TestStrangersLearnNothing(t *testing.T) {
	s := startSecured(t)
	replica := startNode(t, "r2", func(o *server.Options) { o.AttemptEvery = time.Nanosecond })
	replica.setMaster(3, "r1", s.url)
	for _, path := range openToAll {
		s.call(t, "anonymous", "GET", path, "").wantStatus(t, http.StatusOK)
	}
	for _, through := range []string{s.url, replica.url} {
		s.through = through
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/locks", ""},
			{"HEAD", "/v1/locks", ""},
			{"GET", "/v1/locks?prefix=/p/&consistency=stale", ""},
			{"GET", "/v1/locks?limit=none", ""},
			{"GET", "/v1/files?nonsense=1", ""},
			{"PUT", "/v1/locks/p/l", `{"nonsense":`},
			{"PUT", "/v1/locks/p//l", ""},
			{"POST", "/v1/transactions", `{}`},
			{"POST", "/v1/transactions", `{"then":[{"get":{"path":"/p/f"}}]}`},
			{"POST", "/v1/sessions/none/keepalive", `{"wait_ms":60000}`},
			{"GET", "/v1/events?after=0&wait_ms=60000", ""},
			{"GET", "/v1/events?path=/p/f&after=0", ""},
			{"GET", "/v1/access/check?path=/p", ""},
			{"GET", "/v1/deadlocks", ""},
			{"GET", "/v1/history?path=/p/l", ""},
		} {
			if through != s.url && (malformed(c.path+c.body) || strings.Contains(c.path, "stale") || slices.Contains(local, "GET "+strings.Split(c.path, "?")[0])) {
				continue // which the replica, a fake that judges nobody, answers by itself
			}
			got := s.call(t, "anonymous", c.method, c.path, c.body)
			if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
			}
			for _, name := range []string{lockapi.HeaderMaster, lockapi.HeaderCell} {
				if got.header.Get(name) != "" {
					t.Errorf("%s %s tells %s", c.method, c.path, name)
				}
			}
		}
	}
	s.through = s.url
	for _, bad := range []string{"stout_" + strings.Repeat("x", 64), "nonsense", ""} {
		s.tokens["bad"] = bad
		s.call(t, "bad", "GET", "/v1/locks", "").wantStatus(t, http.StatusUnauthorized)
		s.call(t, "bad", "GET", "/livez", "").wantStatus(t, http.StatusOK)
	}
}

// malformed reports whether a call of the table above is.
func malformed(call string) bool {
	return strings.Contains(call, "none") || strings.Contains(call, "nonsense") || strings.Contains(call, "//")
}

// TestRulesThatNameAnonymous open the calls at their paths, and no others.
func TestRulesThatNameAnonymous(t *testing.T) {
	s := startSecured(t)
	s.call(t, "root", "PUT", "/v1/access/rules/open", `{"read":["anonymous"],"write":["anonymous"]}`).wantStatus(t, 200)
	s.call(t, "root", "PUT", "/v1/files/open/f", "x").wantStatus(t, 201)
	for _, c := range []struct {
		method, path, body string
		open               bool
	}{
		{"GET", "/v1/files/open/f", "", true},
		{"PUT", "/v1/files/open/f", "y", true},
		{"POST", "/v1/files/open/", "y", true},
		{"GET", "/v1/files?prefix=/open/", "", true},
		{"GET", "/v1/files?prefix=/open", "", true},
		{"GET", "/v1/locks?prefix=/open/", "", true},
		{"GET", "/v1/events?prefix=/open/&after=0", "", true},
		{"GET", "/v1/events?path=/open/f&after=0", "", true},
		{"GET", "/v1/history?path=/open/f", "", true},
		{"GET", "/v1/access/check?path=/open/f", "", true},
		{"POST", "/v1/transactions", `{"then":[{"get":{"path":"/open/f"}}]}`, true},
		{"GET", "/v1/files", "", false},
		{"GET", "/v1/files?prefix=/op", "", false},
		{"GET", "/v1/locks?prefix=/", "", false},
		{"GET", "/v1/events?after=0", "", false},
		{"GET", "/v1/events?prefix=/open/&prefix=/p/&after=0", "", false},
		{"GET", "/v1/events?path=/p/f&after=0", "", false},
		{"GET", "/v1/deadlocks", "", false},
		{"GET", "/v1/access/rules", "", false},
		{"GET", "/v1/access/check?path=/p", "", false},
		{"POST", "/v1/transactions", `{}`, false},
		{"POST", "/v1/transactions", `{"then":[{"get":{"path":"/p/f"}}]}`, false},
		{"POST", "/v1/sessions", "", false},
		{"GET", "/v1/cell", "", false},
		{"GET", "/metrics", "", false},
	} {
		got := s.call(t, "anonymous", c.method, c.path, c.body)
		if refused := got.status == http.StatusUnauthorized; refused == c.open || c.open && got.status >= http.StatusBadRequest {
			t.Errorf("%s %s %s: %d %s; open: %v", c.method, c.path, c.body, got.status, got.body, c.open)
		}
	}
}

// TestAnonymousWatchersAreBounded: those of one address, and no others.
func TestAnonymousWatchersAreBounded(t *testing.T) {
	s := startSecured(t, func(o *server.Options) { o.MaxAnonymousWatchers = 2 })
	s.call(t, "root", "PUT", "/v1/access/rules/open", `{"read":["anonymous"]}`).wantStatus(t, 200)
	const wait = "/v1/events?prefix=/open/&after=%d&wait_ms=600000"
	now := s.call(t, "root", "GET", "/v1/files?prefix=/open/", "").header.Get(lockapi.HeaderRevision)
	path := strings.Replace(wait, "%d", now, 1)
	answers := make(chan reply, 3)
	ask := func(as string) { go func() { answers <- s.call(t, as, "GET", path, "") }() }
	ask("anonymous")
	ask("anonymous")
	ask("nobody")
	eventually(t, "all wait", func() bool {
		return strings.Contains(s.call(t, "root", "GET", "/metrics", "").body, "stout_watchers 3")
	})
	got := s.call(t, "anonymous", "GET", path, "")
	got.wantStatus(t, http.StatusTooManyRequests)
	if !strings.Contains(got.body, "max-anonymous-watchers") {
		t.Error(got.body)
	}
	s.call(t, "root", "PUT", "/v1/files/open/f", "x").wantStatus(t, 201)
	s.call(t, "root", "PUT", "/v1/access/rules/open", `{"read":["*","anonymous"]}`).wantStatus(t, 200)
	for range 2 {
		(<-answers).wantStatus(t, http.StatusOK)
	}
	s.call(t, "root", "PUT", "/v1/files/open/g", "x").wantStatus(t, 201)
	(<-answers).wantStatus(t, http.StatusOK)
	s.call(t, "anonymous", "GET", fmt.Sprintf("/v1/events?prefix=/open/&after=%s&wait_ms=1", now), "").wantStatus(t, http.StatusOK)
}
