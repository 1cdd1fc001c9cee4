package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

func TestEveryReplyTellsEpochMasterAndCell(t *testing.T) {
	n := startMaster(t, nil)
	targets := []string{
		"GET /v1/sessions", "POST /v1/sessions", "DELETE /v1/sessions/x", "GET /v1/sessions/x", "GET /v1/locks/a", "GET /v1/locks",
		"GET /v1/locks/..", "GET /v1/cell", "GET /v1/replica", "GET /v1/members", "GET /livez", "GET /readyz", "GET /metrics", "GET /v1/openapi.yaml",
		"GET /nowhere", "PATCH /v1/sessions", "HEAD /v1/locks/a", "HEAD /nowhere", "OPTIONS *", "GET /%",
	}
	check := func(epoch, master string) {
		for _, target := range targets {
			method, path, _ := strings.Cut(target, " ")
			got := line(t, n, method, path, "")
			if e, m := got.header.Get("Stout-Epoch"), got.header.Get("Stout-Master"); e != epoch || m != master {
				t.Errorf("%s: epoch %q and master %q, want %q and %q", target, e, m, epoch, master)
			}
			if c := got.header.Get("Stout-Cell"); c != "c1" {
				t.Errorf("%s: cell %q", target, c)
			}
		}
	}
	check("3", n.url)
	n.setMaster(3, "", "")
	check("3", "")
}

func TestRepliesAreJSON(t *testing.T) {
	n := startMaster(t, nil)
	got := call(t, "POST", n.url+"/v1/sessions", `{"name":"<b> & é \u2028"}`, "Content-Type", "application/x-www-form-urlencoded")
	got.wantStatus(t, http.StatusCreated)
	if !strings.Contains(got.body, `"name":"<b> & é `+"\u2028"+`"`) {
		t.Errorf("the name is escaped: %s", got.body)
	}
	if !strings.Contains(got.body, `"meta":{}`) {
		t.Errorf("no meta is not {}: %s", got.body)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Content-Length": fmt.Sprint(len(got.body))} {
		if v := got.header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	if got := call(t, "GET", n.url+"/v1/locks", ""); got.body != `{"locks":[]}`+"\n" {
		t.Errorf("an empty list reads %s", got.body)
	}
	if got := call(t, "GET", n.url+"/v1/locks/free", ""); strings.Contains(got.body, "queue") {
		t.Errorf("a queue that nobody asked for: %s", got.body)
	}
	if got := call(t, "GET", n.url+"/v1/locks/free?waiters=1", ""); !strings.Contains(got.body, `"queue":[]`) {
		t.Errorf("no queue is not []: %s", got.body)
	}
	n.setHook(func(context.Context, string) error { return lockapi.Invalid("to", "<&>") })
	if got := call(t, "GET", n.url+"/v1/locks", ""); !strings.Contains(got.body, `"detail":"<&>"`) {
		t.Errorf("the detail is escaped: %s", got.body)
	}
}

func TestQueuedGrantHasNoToken(t *testing.T) {
	n := startMaster(t, nil)
	n.addSession(lockapi.Session{ID: "s1"})
	call(t, "PUT", n.url+"/v1/locks/a", `{"session":"s1"}`).wantStatus(t, 200)
	got := call(t, "PUT", n.url+"/v1/locks/a", `{"session":"s1","handle":"h","queue":true}`).wantStatus(t, http.StatusAccepted)
	if want := `{"path":"/a","state":"queued","session":"s1","handle":"h","mode":"exclusive","position":1}` + "\n"; got.body != want {
		t.Errorf("got %s\nwant %s", got.body, want)
	}
	held := call(t, "PUT", n.url+"/v1/locks/a", `{"session":"s1","handle":"i"}`).wantCode(t, lockapi.CodeLockHeld)
	if len(held.Holders) != 1 || held.Holders[0].Session != "s1" {
		t.Errorf("holders %+v", held.Holders)
	}
}

func TestNoSuchRouteOrMethod(t *testing.T) {
	n := startMaster(t, nil)
	for _, target := range []string{
		"GET /", "GET /v1", "GET /v1/", "GET /v1/lock", "GET /v1/sessions/", "GET /v1/sessions/s1/",
		"POST /v1/sessions/s1/keepalives", "GET /v1//locks/a", "GET /v1%2Flocks/a", "GET /v1/cell/", "GET /V1/cell", "GET /livez/",
		"GET /v1/sessions/s1/../s2", "OPTIONS *", "GET /debug/pprof/", "GET /v1/locksa",
	} {
		method, path, _ := strings.Cut(target, " ")
		got := line(t, n, method, path, "")
		if got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", target, got.status, got.body)
			continue
		}
		got.wantCode(t, lockapi.CodeNotFound)
	}
	for target, allow := range map[string]string{
		"DELETE /v1/sessions":               "POST GET HEAD",
		"PUT /v1/sessions/s1":               "GET HEAD DELETE",
		"GET /v1/sessions/s1/keepalive":     "POST",
		"PUT /v1/locks":                     "GET HEAD",
		"POST /v1/locks/a":                  "PUT GET HEAD DELETE",
		"PATCH /v1/locks/a":                 "PUT GET HEAD DELETE",
		"OPTIONS /v1/locks/a/b":             "PUT GET HEAD DELETE",
		"POST /v1/cell":                     "GET HEAD",
		"GET /v1/cell/transfer":             "POST",
		"POST /metrics":                     "GET HEAD",
		"TRACE /livez":                      "GET HEAD",
		"BREW /livez":                       "GET HEAD",
		strings.Repeat("M", 99) + " /livez": "GET HEAD",
	} {
		method, path, _ := strings.Cut(target, " ")
		got := line(t, n, method, path, "")
		got.wantCode(t, lockapi.CodeMethodNotAllowed)
		for _, m := range strings.Fields(allow) {
			if !strings.Contains(", "+got.header.Get("Allow")+",", " "+m+",") {
				t.Errorf("%s: Allow %q lacks %s", target, got.header.Get("Allow"), m)
			}
		}
		if n := len(strings.Split(got.header.Get("Allow"), ", ")); n != len(strings.Fields(allow)) {
			t.Errorf("%s: Allow %q, want %s", target, got.header.Get("Allow"), allow)
		}
	}
	n.wantNoCalls(t)
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, base := range []string{master.url, replica.url} {
		get, head := call(t, "GET", base+"/v1/locks/a", ""), call(t, "HEAD", base+"/v1/locks/a", "")
		if head.status != get.status || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") {
			t.Errorf("HEAD %+v\nGET %+v", head, get)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	n := startMaster(t, nil)
	for _, c := range []struct {
		err  *lockapi.Error
		want string
	}{
		{&lockapi.Error{Code: lockapi.CodeTooMany, Detail: "x"}, "1"},
		{&lockapi.Error{Code: lockapi.CodeTooMany, Detail: "x", RetryAfter: 7}, "7"},
		{&lockapi.Error{Code: lockapi.CodeNoMaster, Detail: "x"}, "1"},
		{&lockapi.Error{Code: lockapi.CodeOutcomeUnknown, Detail: "x"}, ""},
		{&lockapi.Error{Code: lockapi.CodeConflict, Detail: "x"}, ""},
	} {
		n.setHook(func(context.Context, string) error { return c.err })
		got := call(t, "POST", n.url+"/v1/sessions", "")
		got.wantCode(t, c.err.Code)
		if h := got.header.Get("Retry-After"); h != c.want {
			t.Errorf("%v: Retry-After %q, want %q", c.err, h, c.want)
		}
	}
}

func TestStaleReadsAreAnsweredHere(t *testing.T) {
	_, replica := startPair(t, nil)
	stale := map[string]string{
		"/v1/locks/a": "GetLock Path=/a", "/v1/locks": "ListLocks Limit=100", "/v1/sessions": "ListSessions Limit=100",
		"/v1/sequencers?value=shared:1:/a": "CheckSequencer Mode=shared Token=1 Path=/a", "/v1/sessions/x": "GetSession Session=x",
	}
	for target, made := range stale {
		replica.forget()
		mark := "?"
		if strings.Contains(target, "?") {
			mark = "&"
		}
		got := call(t, "GET", replica.url+target+mark+"consistency=stale", "")
		if calls := replica.made(); len(calls) != 1 || calls[0] != made {
			t.Errorf("%s: the replica made %q", target, calls)
		}
		if got.header.Get("Stout-Stale") != "true" {
			t.Errorf("%s: no Stout-Stale in %v", target, got.header)
		}
		if got := call(t, "GET", replica.url+target, ""); got.header.Get("Stout-Stale") != "" {
			t.Errorf("%s: Stout-Stale on a linearizable read", target)
		}
	}
	replica.setMaster(3, "", "")
	call(t, "GET", replica.url+"/v1/locks/a?consistency=stale", "").wantStatus(t, http.StatusOK)
	call(t, "GET", replica.url+"/v1/locks/a?consistency=stale", "", "Stout-Forward", "never").wantStatus(t, http.StatusOK)
}

func TestPanicsAndStrangeErrorsAreInternal(t *testing.T) {
	n := startMaster(t, nil)
	n.setHook(func(context.Context, string) error { panic("at the disco") })
	call(t, "POST", n.url+"/v1/sessions", "").wantCode(t, lockapi.CodeInternal)
	n.setHook(func(context.Context, string) error { return errors.New("secret of the house") })
	got := call(t, "POST", n.url+"/v1/sessions", "")
	got.wantCode(t, lockapi.CodeInternal)
	if strings.Contains(got.body, "secret") {
		t.Errorf("the caller learns too much: %s", got.body)
	}
	n.setHook(nil)
	call(t, "POST", n.url+"/v1/sessions", "").wantStatus(t, http.StatusCreated)
	for _, want := range []string{"at the disco", "secret of the house", "reply_test.go"} {
		if !strings.Contains(n.log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, n.log)
		}
	}
}

func TestNoLogLinePerRequest(t *testing.T) {
	n := startMaster(t, nil)
	for range 3 {
		call(t, "POST", n.url+"/v1/sessions", "")
		call(t, "GET", n.url+"/nowhere", "")
		call(t, "GET", n.url+"/v1/locks/..", "")
	}
	if n.log.String() != "" {
		t.Errorf("requests are logged: %s", n.log)
	}
}

func TestHealth(t *testing.T) {
	blocked := time.Duration(0)
	n := startMaster(t, func(o *server.Options) { o.LogBlocked = func() time.Duration { return blocked } })
	call(t, "GET", n.url+"/livez", "").wantStatus(t, 200)
	directory := `"directory":"` + directoryOf("r1") + `"`
	call(t, "GET", n.url+"/readyz", "").wantBody(t, 200, directory)
	blocked = 12 * time.Second
	call(t, "GET", n.url+"/readyz", "").wantBody(t, 200, `"log":"blocked for 12s"`)
	n.setUnfit(lockapi.Errorf(lockapi.CodeNoMaster, "catching up: applied 3 of 9"))
	if got := call(t, "GET", n.url+"/readyz", ""); got.status != 503 || !strings.Contains(got.body, "applied 3 of 9") || !strings.Contains(got.body, directory) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	n.setUnfit(errors.New("the disk is slow"))
	call(t, "GET", n.url+"/readyz", "").wantDetail(t, lockapi.CodeNoMaster, "the disk is slow")
	call(t, "GET", n.url+"/livez", "").wantStatus(t, 200)
}

// TestReadyIsWhoeverHasCaughtUp: readiness depends on the applied index that
// the master reports.
func TestReadyIsWhoeverHasCaughtUp(t *testing.T) {
	m, r := startPair(t, nil)
	for _, test := range []struct {
		master, own uint64
		status      int
	}{{1000, 0, 503}, {1000, 935, 503}, {1000, 936, 200}, {1000, 1003, 200}} {
		m.setApplied(test.master)
		r.setApplied(test.own)
		got := call(t, "GET", r.url+"/readyz", "")
		if got.status != test.status {
			t.Errorf("master at %d, replica at %d: %d %s, want %d", test.master, test.own, got.status, got.body, test.status)
		}
	}
	m.setMaster(4, "r2", r.url)
	call(t, "GET", r.url+"/readyz", "").wantDetail(t, lockapi.CodeNoMaster, "no longer the master")
	r.setMaster(5, "r3", "http://127.0.0.1:1")
	call(t, "GET", r.url+"/readyz", "").wantDetail(t, lockapi.CodeNoMaster, "did not report its applied entry")
}

func TestReplicaAndDocument(t *testing.T) {
	n := startMaster(t, nil)
	r := decoded[lockapi.Replica](t, call(t, "GET", n.url+"/v1/replica", ""))
	if r.ID != "r1" || r.Version != "v1" || r.UptimeMS == nil || r.Role != lockapi.RoleMaster || r.Directory != directoryOf("r1") {
		t.Errorf("replica %+v", r)
	}
	doc := call(t, "GET", n.url+"/v1/openapi.yaml", "")
	if doc.body != string(lockapi.OpenAPI()) || doc.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("the document differs: %v", doc.header)
	}
}

// The API works under a server other than its own.
func TestHandlerAlone(t *testing.T) {
	f := newStandIn(t, "r1")
	s := server.New(server.Options{Master: f})
	ts := httptest.NewServer(s.Handler())
	defer ts.Close()
	f.setMaster(1, "r1", ts.URL)
	call(t, "POST", ts.URL+"/v1/sessions", `{"ttl_ms":1000}`).wantStatus(t, http.StatusCreated)
	handled(s.Handler(), "", "PUT", "/v1/locks/a%2Fb", `{}`).wantStatus(t, http.StatusBadRequest)
}

// Unusual targets do not upset the router.
func TestStrangeTargets(t *testing.T) {
	n := startMaster(t, nil)
	for _, request := range []string{
		"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://x/livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET ?x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET //livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /livez HTTP/1.1\r\n\r\n",
		"GET /livez\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
	} {
		if got := raw(t, n, "GET", request); got.status >= 500 || got.header.Get("Stout-Epoch") == "" {
			t.Errorf("%q: %d %v %s", request, got.status, got.header, got.body)
		}
	}
	if strings.Contains(n.log.String(), "panic") {
		t.Error(n.log.String())
	}
}

// TestProbesOfOneThatHangs: both probes report it with the reason, without a
// step that may hang as well.
func TestProbesOfOneThatHangs(t *testing.T) {
	n := startMaster(t, nil)
	n.setHangs(errors.New("its disk hangs"))
	for _, path := range []string{"/livez", "/readyz"} {
		if got := call(t, "GET", n.url+path, "").wantCode(t, lockapi.CodeNoMaster); got.Detail != "its disk hangs" {
			t.Errorf("%s says %q", path, got.Detail)
		}
	}
	n.setHangs(nil)
	call(t, "GET", n.url+"/livez", "").wantStatus(t, 200)
}

// TestReadsTellTheirRevision: every answer to a read of files, locks and
// sessions has the revision of its state, with any status and from any replica;
// other answers have none.
func TestReadsTellTheirRevision(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	call(t, "PUT", master.url+"/v1/files/a", "x").wantStatus(t, 201)
	for range 7 {
		replica.happened("/b")
	}
	for _, c := range []struct {
		call   string
		status int
	}{
		{"GET /v1/files/a", 200},
		{"HEAD /v1/files/a", 200},
		{"GET /v1/files/a?as=json", 200},
		{"GET /v1/files/none", 404},
		{"HEAD /v1/files/none", 404},
		{"GET /v1/files", 200},
		{"GET /v1/locks/a", 200},
		{"HEAD /v1/locks/a", 200},
		{"GET /v1/locks", 200},
		{"GET /v1/sessions", 200},
		{"GET /v1/sessions/s1", 200},
		{"GET /v1/sessions/none", 404},
		{"GET /v1/sequencers?value=shared:1:/a", 200},
	} {
		method, target, _ := strings.Cut(c.call, " ")
		for _, n := range []*node{master, replica} {
			got := call(t, method, n.url+target, "").wantStatus(t, c.status)
			if r := got.header.Values(lockapi.HeaderRevision); len(r) != 1 || r[0] != "2" {
				t.Errorf("%s by %s has revisions %q, want 2", c.call, n.id, r)
			}
		}
	}
	for _, n := range []*node{master, replica} {
		got := call(t, "GET", n.url+"/v1/files/a", "", "If-None-Match", `"3", W/"2"`)
		if got.wantStatus(t, 304); got.header.Get(lockapi.HeaderRevision) != "2" || got.header.Get("ETag") != `"2"` {
			t.Errorf("304 by %s: %v", n.id, got.header)
		}
	}
	if got := call(t, "GET", replica.url+"/v1/files/a?consistency=stale", ""); got.header.Get(lockapi.HeaderRevision) != "8" || got.status != 404 {
		t.Errorf("stale: %d %v", got.status, got.header)
	}
	for _, without := range []string{"GET /v1/cell", "GET /v1/replica", "GET /v1/files/a?limit=1", "PUT /v1/files/b", "DELETE /v1/files/b"} {
		method, target, _ := strings.Cut(without, " ")
		if got := call(t, method, master.url+target, ""); got.header.Get(lockapi.HeaderRevision) != "" {
			t.Errorf("%s: %v", without, got.header)
		}
	}
	master.setMaster(3, "", "")
	if got := call(t, "GET", master.url+"/v1/files/a", ""); got.header.Get(lockapi.HeaderRevision) != "" {
		t.Errorf("without a master: %v", got.header)
	}
}

// TestReplayed: a repeated answer is marked as such, with any status, also
// through a replica.
func TestReplayed(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	for _, n := range []*node{master, replica} {
		for i, c := range []struct{ method, target string }{
			{"PUT", "/v1/files/a?session=s1"}, {"POST", "/v1/files/a?session=s1"}, {"DELETE", "/v1/files/a?session=s1"}, {"DELETE", "/v1/files?prefix=/a/&session=s1"},
		} {
			key := fmt.Sprint(n.id, i)
			for _, want := range []string{"", "true"} {
				if got := call(t, c.method, n.url+c.target, "", "Idempotency-Key", key); got.header.Get(lockapi.HeaderReplayed) != want || got.status >= 300 {
					t.Errorf("%s %s: %d %v", c.method, c.target, got.status, got.header)
				}
			}
		}
	}
}

// Answers and log lines stay short, wherever a caller puts as much as it can
// send.
func TestAnswersQuoteLittle(t *testing.T) {
	n := startMaster(t, nil)
	head, body := strings.Repeat("é", 5_000), strings.Repeat("é", 30_000)
	escaped := strings.Repeat("%C3%A9", 5_000)
	for _, c := range []struct{ method, target, header, body string }{
		{"GET", "/" + escaped, "", ""},
		{"GET", "/" + head, "", ""},
		{"GET", "/v1/locks/" + escaped, "", ""},
		{"GET", "/v1/sessions/" + escaped, "", ""},
		{"GET", "/v1/sessions/%FF" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=s&handle=" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=s&token=" + escaped, "", ""},
		{"GET", "/v1/locks?" + escaped + "=1", "", ""},
		{"GET", "/v1/locks?limit=" + escaped, "", ""},
		{"GET", "/v1/locks/a?consistency=" + escaped, "", ""},
		{"GET", "/v1/sequencers?value=" + escaped, "", ""},
		{"GET", "/v1/sequencers?value=exclusive:" + escaped + ":/a", "", ""},
		{"GET", "/v1/sequencers?value=exclusive:1:" + escaped, "", ""},
		{"PATCH", "/v1/locks/" + escaped, "", ""},
		{strings.Repeat("M", 20_000), "/v1/locks/a", "", ""},
		{"GET", "/v1/locks/a", "Stout-Forward: " + head, ""},
		{"POST", "/v1/sessions", "Idempotency-Key: " + head, ""},
		{"POST", "/v1/sessions", "", body},
		{"POST", "/v1/sessions", "", `{"` + body + `":1}`},
		{"POST", "/v1/sessions", "", `{"` + body[:20_000] + `":1,"` + body[:20_000] + `":1}`},
		{"POST", "/v1/sessions", "", `{"name":"` + body + `"}`},
		{"POST", "/v1/sessions", "", `{"ttl_ms":"` + body + `"}`},
		{"POST", "/v1/sessions", "", `{"ttl_ms":1` + strings.Repeat("0", 60_000) + `}`},
		{"POST", "/v1/sessions/" + escaped + "/keepalive", "", ""},
		{"PUT", "/v1/locks/a", "", `{"session":"` + body + `"}`},
		{"PUT", "/v1/locks/a", "", `{"session":"s","mode":"` + body + `"}`},
		{"PUT", "/v1/locks/a", "", `{"session":"s","handle":"` + body + `"}`},
		{"BREW" + head, "/", "", ""},
		{"GET", "/ HTTP/" + head, "", ""},
	} {
		header := ""
		if c.header != "" {
			header = c.header + "\r\n"
		}
		got := raw(t, n, c.method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", c.method, c.target, header, len(c.body), c.body))
		what := fmt.Sprintf("%.10s %.40s %.30s %.20s", c.method, c.target, c.header, c.body)
		if got.status < 400 || got.status == http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d does not test anything", what, got.status)
			continue
		}
		if e := got.problem(t); len(e.Detail) > 1000 || len(e.Field) > 100 {
			t.Errorf("%s: a detail of %d bytes, a field of %d", what, len(e.Detail), len(e.Field))
		}
		if len(got.body) > 2000 {
			t.Errorf("%s: %d bytes in %s", what, len(got.body), lockapi.Clip(got.body))
		}
		for name, values := range got.header {
			if len(strings.Join(values, "")) > 200 {
				t.Errorf("%s: the header %s is %.300q", what, name, values)
			}
		}
	}
	if logged := n.log.String(); len(logged) > 1000 {
		t.Errorf("%d bytes are logged", len(logged))
	}
}

// The log line about an error outside the contract names the request, but
// quotes little of it.
func TestLogQuotesLittle(t *testing.T) {
	n := startMaster(t, nil)
	n.setHook(func(context.Context, string) error { return errors.New("outside the contract") })
	call(t, "GET", n.url+"/v1/locks/"+strings.Repeat("x", 200)+strings.Repeat("/é", 20), "").wantCode(t, lockapi.CodeInternal)
	if logged := n.log.String(); !strings.Contains(logged, "/v1/locks/xxx") || len(logged) > 500 {
		t.Errorf("logged: %s", logged)
	}
}
