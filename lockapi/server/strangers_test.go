package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// openToAll lists the calls that a caller without a credential may make under
// any rules.
var openToAll = []string{"/livez", "/readyz", "/v1/openapi.yaml", "/v1/access/whoami", "/v1/join?cell=test", "/ui/"}

// TestStrangersLearnNothing: while no rule names anonymous, a caller without a
// credential gets 401 for every other call, even a malformed one or one that
// forbids forwarding. The answer shows neither the cell nor its master.
func TestStrangersLearnNothing(t *testing.T) {
	s := startSecured(t)
	replica := startReplica(t, s.url, func(o *server.Options) { o.AttemptEvery = time.Nanosecond })
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
				continue // the replica, a stand-in without access control, answers these itself
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

// malformed reports whether a call of the table above is malformed.
func malformed(call string) bool {
	return strings.Contains(call, "none") || strings.Contains(call, "nonsense") || strings.Contains(call, "//")
}

// TestRulesThatNameAnonymous: such rules open exactly the calls at their paths.
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

// TestAnonymousWatchersAreBounded: the bound applies per address, and to no
// other callers.
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
	got := s.call(t, "anonymous", "GET", path, "").wantStatus(t, http.StatusTooManyRequests)
	if !strings.Contains(got.body, `"quota":"max-anonymous-watchers","limit":`) {
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

// TestRefusalsOfStrangersNameNothing: refusals do not name the cell or its
// master, even for an unknown route, an invalid request, or /v1/join with
// another cell's name. Without access control they name the cell like every
// answer.
func TestRefusalsOfStrangersNameNothing(t *testing.T) {
	s := startSecured(t)
	open, _ := startReal(t)
	names := func(h http.Header) int {
		return len(h.Values(lockapi.HeaderMaster)) + len(h.Values(lockapi.HeaderCell))
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/nothing", 404}, {"GET", "/nothing", 404}, {"PATCH", "/v1/locks/p/l", 405}, {"OPTIONS", "/v1/cell", 405},
		{"GET", "/v1/join?cell=another", 404}, {"GET", "/v1/join", 400},
	} {
		got := s.call(t, "anonymous", c.method, c.path, "")
		if got.status != c.status || names(got.header) != 0 {
			t.Errorf("%s %s: %d %v", c.method, c.path, got.status, got.header)
		}
		if got := call(t, c.method, open+c.path, ""); got.status != c.status || names(got.header) != 2 {
			t.Errorf("%s %s without access: %d %v", c.method, c.path, got.status, got.header)
		}
	}
	for url, want := range map[string]int{s.url: 0, open: 2} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		must(t, err)
		defer c.Close()
		fmt.Fprint(c, "GET /v1/locks/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		got, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		if got.StatusCode != 400 || names(got.Header) != want || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Vary") != "Authorization, Origin" {
			t.Errorf("what is no request: %d %v", got.StatusCode, got.Header)
		}
	}
}

// TestStrangersAtAnotherReplica: a replica that is not the master refuses a
// malformed call like the master, and forwards a valid one.
func TestStrangersAtAnotherReplica(t *testing.T) {
	s := startSecured(t)
	replica := startReplica(t, s.url, func(o *server.Options) { o.Master = lagging{o.Master.(*standIn)} })
	for path, want := range map[string]int{"/v1/locks/p//l": 401, "/v1/locks?limit=none": 401, "/v1/files/p/f?nonsense=1": 401, "/v1/locks/p/l": 401} {
		got := call(t, "GET", replica.url+path, "")
		if got.status != want || got.header.Get(lockapi.HeaderMaster)+got.header.Get(lockapi.HeaderCell) != "" {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
	}
	// A client that follows the master gets the refusal, not a 421 that names no
	// master.
	got := call(t, "GET", replica.url+"/v1/locks/p/l", "", lockapi.HeaderForward, lockapi.ForwardNever)
	if e := got.wantCode(t, lockapi.CodeUnauthenticated); e.Master != "" || got.header.Get(lockapi.HeaderMaster) != "" {
		t.Errorf("%+v %v", e, got.header)
	}
}

// TestStrangersWithoutAMaster: the answer to a stranger does not name a master that
// cannot be reached; the answer to a caller with a credential does.
func TestStrangersWithoutAMaster(t *testing.T) {
	const master = "http://127.0.0.1:9"
	replica := startReplica(t, master, func(o *server.Options) {
		o.Master, o.ForwardTimeout = lagging{o.Master.(*standIn)}, time.Nanosecond
	})
	for _, path := range []string{"/v1/locks/p/l", "/v1/access/whoami", "/v1/backup"} {
		got := call(t, "GET", replica.url+path, "")
		got.wantCode(t, lockapi.CodeNoMaster)
		if strings.Contains(got.body, "r1") || strings.Contains(got.body, "127.0.0.1") || got.header.Get(lockapi.HeaderMaster)+got.header.Get(lockapi.HeaderCell) != "" {
			t.Errorf("%s: %s %v", path, got.body, got.header)
		}
		got = call(t, "GET", replica.url+path, "", "Authorization", "Bearer stout_"+strings.Repeat("x", 64))
		if !strings.Contains(got.body, master) {
			t.Errorf("%s with a token: %s", path, got.body)
		}
	}
}

// TestGuessesOfTheCellsName: wrong names are slow and appear in the audit log,
// like bad credentials. The right name has a line, too, and is not slow.
func TestGuessesOfTheCellsName(t *testing.T) {
	w := new(tape)
	s := startSecured(t, taped(t, w, false, false), func(o *server.Options) { o.AttemptEvery = time.Hour })
	for range 10 {
		s.call(t, "anonymous", "GET", "/v1/join?cell=another", "").wantStatus(t, http.StatusNotFound)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/join?cell=another", nil)
	must(t, err)
	if _, err := http.DefaultTransport.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("guess 11: %v", err)
	}
	s.call(t, "anonymous", "GET", "/v1/join?cell=test", "").wantStatus(t, http.StatusOK)
	eventually(t, "the lines", func() bool {
		text := w.String()
		return strings.Contains(text, `"route":"/v1/join","status":404,"code":"not_found"`) && strings.Contains(text, `"route":"/v1/join","status":200`)
	})
}

// TestCallsOfJoinAreBoundedInTheAudit: callers without a credential do not fill the
// audit log.
func TestCallsOfJoinAreBoundedInTheAudit(t *testing.T) {
	const calls = 300
	w := new(tape)
	s := startSecured(t, taped(t, w, false, false))
	for range calls {
		s.call(t, "anonymous", "GET", "/v1/join?cell=test", "").wantStatus(t, http.StatusOK)
	}
	eventually(t, "the number of the others", func() bool { return strings.Contains(w.String(), `"event":"denials_suppressed"`) })
	if lines := strings.Count(w.String(), `"route":"/v1/join","status":200`); lines == 0 || lines == calls {
		t.Errorf("%d calls have %d lines", calls, lines)
	}
}

// TestPrincipalsAreShown: the owner of a session, a hold or a queue position,
// the writer of a file and the author of a rule are shown only to callers that
// may read these. Without a principal the field is absent.
func TestPrincipalsAreShown(t *testing.T) {
	s := startSecured(t)
	nobodys := func(what, as, method, path, body string) {
		t.Helper()
		if r := s.call(t, as, method, path, body); strings.Contains(r.body, `:"user:locker"`) || strings.Contains(r.body, `:"user:writer"`) {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	shows := func(what, as, method, path, body, want string) {
		t.Helper()
		if r := s.call(t, as, method, path, body); r.status > 299 && r.status != 423 && r.status != 412 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s, want %s", what, r.status, r.body, want)
		}
	}
	const locker, writer = `"principal":"user:locker"`, `"principal":"user:writer"`
	holds, waits := s.session(t, "locker"), s.session(t, "locker")
	s.call(t, "locker", "PUT", "/v1/locks/p/l", `{"session":"`+holds+`"}`).wantStatus(t, 200)
	s.call(t, "locker", "PUT", "/v1/locks/p/l", `{"session":"`+waits+`","queue":true}`).wantStatus(t, 202)
	shows("a file that is made", "writer", "PUT", "/v1/files/p/f", "x", writer)

	shows("an opened session", "locker", "POST", "/v1/sessions", "", locker)
	shows("one's own session", "locker", "GET", "/v1/sessions/"+holds, "", locker)
	shows("another's session", "observer", "GET", "/v1/sessions/"+holds, "", locker)
	shows("all sessions", "observer", "GET", "/v1/sessions", "", locker)
	nobodys("another's session", "reader", "GET", "/v1/sessions/"+holds, "")
	nobodys("all sessions", "reader", "GET", "/v1/sessions", "")

	shows("a lock", "reader", "GET", "/v1/locks/p/l", "", `"holders":[{"session":"`+holds+`"`)
	shows("a lock's holder", "reader", "GET", "/v1/locks/p/l", "", locker)
	shows("a lock's queue", "reader", "GET", "/v1/locks/p/l?waiters=9", "", `"queue":[{"session":"`+waits+`"`)
	if r := s.call(t, "reader", "GET", "/v1/locks/p/l?waiters=9", ""); strings.Count(r.body, locker) != 2 {
		t.Errorf("the queue: %s", r.body)
	}
	shows("all locks", "reader", "GET", "/v1/locks", "", locker)
	for _, as := range []string{"admin", "nobody", "anonymous", "observer"} { // may not read there
		nobodys("a lock as "+as, as, "GET", "/v1/locks/p/l?waiters=9", "")
		nobodys("all locks as "+as, as, "GET", "/v1/locks", "")
		nobodys("a file as "+as, as, "GET", "/v1/files/p/f?as=json", "")
		nobodys("all files as "+as, as, "GET", "/v1/files?prefix=/p/", "")
		nobodys("events as "+as, as, "GET", "/v1/events?after=0", "")
	}
	other := s.session(t, "locker")
	nobodys("a refusal", "locker", "PUT", "/v1/locks/p/l", `{"session":"`+other+`"}`)
	mine := s.session(t, "operator")
	shows("an operator's refusal", "operator", "PUT", "/v1/locks/p/l", `{"session":"`+mine+`"}`, locker)

	shows("a file", "reader", "GET", "/v1/files/p/f?as=json", "", writer)
	shows("all files", "reader", "GET", "/v1/files?prefix=/p/", "", writer)
	shows("events", "reader", "GET", "/v1/events?after=0", "", writer)
	shows("a rewritten file", "operator", "PUT", "/v1/files/p/f", "y", `"principal":"user:operator"`)

	s.call(t, "admin", "PUT", "/v1/access/rules/p/q", `{"read":[]}`).wantStatus(t, 200)
	shows("rules", "admin", "GET", "/v1/access/rules?prefix=/p/", "", `{"path":"/p/q","read":[],"principal":"user:admin"}`)
	if r := s.call(t, "admin", "GET", "/v1/access/rules/p/q", ""); strings.TrimSpace(r.body) != `{"path":"/p/q","read":[]}` {
		t.Errorf("a rule: %s", r.body)
	}
	if r := s.call(t, "writer", "GET", "/v1/access/rules", ""); strings.Contains(r.body, "principal") {
		t.Errorf("rules to who has none: %s", r.body)
	}
	url, _ := startReal(t)
	open := &secured{through: url}
	open.call(t, "anonymous", "PUT", "/v1/access/rules/p", `{"read":[]}`).wantStatus(t, 200)
	for _, c := range [][3]string{{"POST", "/v1/sessions", ""}, {"GET", "/v1/sessions", ""}, {"PUT", "/v1/files/a", "x"}, {"GET", "/v1/access/rules", ""}} {
		if r := open.call(t, "anonymous", c[0], c[1], c[2]); r.status > 299 || strings.Contains(r.body, "principal") {
			t.Errorf("nobody known, %s: %d %s", c[1], r.status, r.body)
		}
	}
}
