package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// TestBadQuotas: invalid input is refused with the name of the field.
func TestBadQuotas(t *testing.T) {
	long := strings.Repeat("x", lockapi.MaxPrincipalName+1)
	refuse(t, []refusals{
		{"Files", `PUT /v1/access/quotas/user:a {"Files":1}`, nil},
		{"principal", `PUT /v1/access/quotas/user:a {"principal":"user:a"}`, nil},
		{"used", `PUT /v1/access/quotas/user:a {"used":{}}`, nil},
		{"files", "PUT /v1/access/quotas/user:a ", []string{
			`{"files":-1}`, `{"files":1.5}`, `{"files":"1"}`, `{"files":1,"files":1}`,
		}},
		{"bytes", `PUT /v1/access/quotas/user:a {"bytes":9007199254740992}`, nil},
		{"burst", `PUT /v1/access/quotas/user:a {"burst":1}`, nil},
		{"body", "PUT /v1/access/quotas/user:a {} {}", nil},
		{"x", "PUT /v1/access/quotas/user:a?x=1 {}", nil},
		{"principal", "PUT /v1/access/quotas/", []string{
			" {}", "a {}", "user: {}", "group:a/b {}", "group:.. {}", "** {}", "anonymous/ {}", "user:a%00 {}",
			"user:" + long + " {}",
		}},
		{"limit", "GET /v1/access/quotas?limit=0", nil},
	}, startMaster(t, nil))
}

// TestQuotas sets, reads, lists and deletes quotas of principals with any name.
func TestQuotas(t *testing.T) {
	s := startSecured(t)
	quota := func(method, of, body string) reply {
		return s.call(t, "root", method, "/v1/access/quotas/"+of, body)
	}
	for _, c := range []struct{ path, principal string }{
		{"user:spiffe://a/b", "user:spiffe://a/b"}, {"user%3aspiffe%3A%2f%2Fa/c", "user:spiffe://a/c"}, {"user:a%25b%20", "user:a%b "},
		{"group:ops", "group:ops"}, {"*", "*"}, {"%2A", "*"}, {"anonymous", "anonymous"},
	} {
		got := quota("PUT", c.path, `{"files":0,"calls_per_second":7}`)
		got.wantStatus(t, http.StatusOK)
		if want := `{"principal":"` + c.principal + `","files":0,"calls_per_second":7}`; strings.TrimSpace(got.body) != want {
			t.Errorf("%s: %s, want %s", c.path, got.body, want)
		}
		var read lockapi.Quota
		if err := json.Unmarshal([]byte(quota("GET", c.path, "").body), &read); err != nil || read.Principal != c.principal || *read.Files != 0 || read.Sessions != nil {
			t.Errorf("%s: %+v, %v", c.path, read, err)
		}
		if _, one := strings.CutPrefix(c.principal, "user:"); (read.Used != nil) != (one || c.principal == "anonymous") {
			t.Errorf("%s: used is %+v", c.path, read.Used)
		}
	}
	var names []string
	for after := ""; ; {
		var page lockapi.QuotaList
		got := s.call(t, "root", "GET", "/v1/access/quotas?limit=2&after="+after, "")
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatal(err, got.body)
		}
		for _, q := range page.Quotas {
			names = append(names, q.Principal)
		}
		if after = strings.ReplaceAll(strings.ReplaceAll(page.Next, "%", "%25"), " ", "%20"); after == "" {
			break
		}
	}
	if got := fmt.Sprintf("%q", names); got != `["*" "anonymous" "group:ops" "user:a%b " "user:spiffe://a/b" "user:spiffe://a/c"]` {
		t.Errorf("the quotas are %s", got)
	}
	quota("DELETE", "user:spiffe%3A//a/b", "").wantStatus(t, http.StatusNoContent)
	quota("DELETE", "user:spiffe%3A//a/b", "").wantStatus(t, http.StatusNoContent)
	quota("GET", "user:spiffe://a/b", "").wantCode(t, lockapi.CodeNotFound)
}

// TestQuotaOfSessions: the refusal names the quota and the principal, and GET
// reports the use.
func TestQuotaOfSessions(t *testing.T) {
	s := startSecured(t)
	put := func(of, body string) {
		t.Helper()
		s.call(t, "root", "PUT", "/v1/access/quotas/"+of, body).wantStatus(t, http.StatusOK)
	}
	first := s.session(t, "writer")
	put("*", `{"sessions":1,"files":1}`)
	got := s.call(t, "writer", "POST", "/v1/sessions", "")
	if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "sessions" || e.Principal != "user:writer" || e.Limit != 1 || e.Used != 1 ||
		!strings.Contains(got.body, `"quota":"sessions","limit":1,"used":1`) || got.header.Get("Retry-After") == "" {
		t.Errorf("%s", got.body)
	}
	s.session(t, "reader")
	s.session(t, "operator")
	s.session(t, "operator")
	s.call(t, "writer", "PUT", "/v1/files/p/1", "x").wantStatus(t, http.StatusCreated)
	if e := s.call(t, "writer", "PUT", "/v1/files/p/2", "x").wantCode(t, lockapi.CodeTooMany); e.Quota != "files" || e.Used != 1 {
		t.Errorf("%+v", e)
	}
	put("user:writer", `{"files":2}`)
	s.call(t, "writer", "PUT", "/v1/files/p/2", "x").wantStatus(t, http.StatusCreated)
	var read lockapi.Quota
	if body := s.call(t, "root", "GET", "/v1/access/quotas/user:writer", "").body; json.Unmarshal([]byte(body), &read) != nil || read.Used == nil ||
		read.Used.Sessions != 1 || read.Used.Files != 2 || read.Used.Bytes < 1000 {
		t.Errorf("the use is %s", body)
	}
	s.call(t, "writer", "DELETE", "/v1/sessions/"+first, "").wantStatus(t, http.StatusNoContent)
	s.session(t, "writer")
	put("user:writer", `{"sessions":0}`)
	s.call(t, "writer", "POST", "/v1/sessions", "").wantCode(t, lockapi.CodeTooMany)
	s.call(t, "root", "POST", "/v1/access/disable", "").wantStatus(t, http.StatusNoContent)
	s.call(t, "writer", "POST", "/v1/sessions", "").wantStatus(t, http.StatusCreated)
}

type quotaCall struct{ as, method, path, body string }

// TestQuotaOfCalls: a principal over its calls per second is refused whatever it
// calls, at the master and through another replica, and can still keep and free
// what it has.
func TestQuotaOfCalls(t *testing.T) {
	s := startSecured(t)
	replica := startReplica(t, s.url, func(o *server.Options) { o.AttemptEvery = time.Nanosecond })
	session := s.session(t, "locker")
	s.call(t, "locker", "PUT", "/v1/locks/p/l", `{"session":"`+session+`"}`).wantStatus(t, http.StatusOK)
	s.call(t, "root", "PUT", "/v1/access/quotas/*", `{"calls_per_second":0}`).wantStatus(t, http.StatusOK)
	for _, through := range []string{s.url, replica.url} {
		s.through = through
		refused := []quotaCall{
			{"locker", "GET", "/v1/locks/p/l", ""}, // it has no right to that, either
			{"locker", "POST", "/v1/sessions", ""},
			{"locker", "PUT", "/v1/access/quotas/*", `{}`},
			{"locker", "GET", "/v1/backup", ""},
			{"reader", "GET", "/v1/locks", ""},
		}
		if through == s.url {
			for _, path := range []string{"/v1/events?after=0", "/v1/cell", "/v1/locks?limit=0", "/v1/locks/p/l?consistency=stale", "/metrics"} {
				refused = append(refused, quotaCall{"locker", "GET", path, ""})
			}
		}
		t.Run(through, func(t *testing.T) {
			for _, c := range refused {
				t.Run(c.method+c.path, func(t *testing.T) {
					t.Parallel() // a refusal is held for a second
					got := s.call(t, c.as, c.method, c.path, c.body)
					if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "calls_per_second" || e.Principal != "user:"+c.as || got.header.Get("Retry-After") != "1" || got.header.Get("Stout-Hold") != "" {
						t.Errorf("%s, %v", got.body, got.header)
					}
				})
			}
		})
		s.call(t, "locker", "POST", "/v1/sessions/"+session+"/keepalive", "").wantStatus(t, http.StatusOK)
		s.call(t, "locker", "DELETE", "/v1/locks/p/l?session="+session, "").wantStatus(t, http.StatusOK)
		s.call(t, "operator", "GET", "/v1/locks/p/l", "").wantStatus(t, http.StatusOK)
		s.call(t, "anonymous", "GET", "/v1/locks/p/l", "").wantStatus(t, http.StatusUnauthorized)
		s.call(t, "anonymous", "GET", "/livez", "").wantStatus(t, http.StatusOK)
	}
	s.through = strings.TrimSuffix(startDoor(t, s.server), "/v1/")
	s.call(t, "locker", "GET", "/v1/agent/self", "").wantStatus(t, http.StatusTooManyRequests) // the door answers it itself
	s.through = s.url
	s.call(t, "locker", "DELETE", "/v1/sessions/"+session, "").wantStatus(t, http.StatusNoContent)
}

// TestFloodIsClosed: of the refusals to one principal a bounded number wait, and
// the further connections are closed.
func TestFloodIsClosed(t *testing.T) {
	s := startSecured(t)
	s.call(t, "root", "PUT", "/v1/access/quotas/user:reader", `{"calls_per_second":0}`).wantStatus(t, http.StatusOK)
	const calls = 250
	ended := make(chan bool, calls)
	for range calls {
		go func() {
			req, err := http.NewRequest("GET", s.url+"/v1/locks", nil)
			if err != nil {
				t.Error(err)
				ended <- false
				return
			}
			req.Header.Set("Authorization", "Bearer "+s.tokens["reader"])
			own := &http.Transport{}
			defer own.CloseIdleConnections()
			resp, err := own.RoundTrip(req)
			if err != nil {
				t.Error(err)
				ended <- false
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("status %d", resp.StatusCode)
			}
			ended <- resp.Close
		}()
	}
	held := 0
	for range calls {
		if !<-ended {
			held++
		}
	}
	if held == 0 {
		t.Error("no answer was held back")
	}
}

// TestQuotaOfWatches: each replica counts the calls of a principal that wait for
// events.
func TestQuotaOfWatches(t *testing.T) {
	s := startSecured(t)
	s.call(t, "root", "PUT", "/v1/access/quotas/*", `{"watches":1}`).wantStatus(t, http.StatusOK)
	s.call(t, "root", "PUT", "/v1/access/rules/p", `{"read":["user:reader","user:operator"]}`).wantStatus(t, http.StatusOK)
	stream := func(as string) (int, func()) {
		t.Helper()
		req, err := http.NewRequest("GET", s.url+"/v1/events?prefix=/p/", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+s.tokens[as])
		req.Header.Set("Accept", lockapi.TypeEventStream)
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		return resp.StatusCode, func() { _ = resp.Body.Close() }
	}
	status, end := stream("reader")
	if status != http.StatusOK {
		t.Fatalf("the first stream gets %d", status)
	}
	got := s.call(t, "reader", "GET", "/v1/events?prefix=/p/&wait_ms=1", "")
	if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "watches" || e.Principal != "user:reader" || e.Limit != 1 || e.Used != 1 {
		t.Errorf("%s", got.body)
	}
	s.call(t, "reader", "GET", "/v1/events?prefix=/p/", "").wantStatus(t, http.StatusOK) // it does not wait
	for range 2 {
		status, endOther := stream("operator")
		if status != http.StatusOK {
			t.Errorf("an operator gets %d", status)
		}
		defer endOther()
	}
	end()
	eventually(t, "the stream has ended", func() bool {
		return s.call(t, "reader", "GET", "/v1/events?prefix=/p/&wait_ms=1", "").status == http.StatusOK
	})
}
