package server_test

import (
	"strings"
	"testing"
)

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
