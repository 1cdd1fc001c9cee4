package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
	got := call(t, "PUT", n.url+"/v1/locks/a", `{"session":"s1","handle":"h","queue":true}`)
	got.wantStatus(t, http.StatusAccepted)
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
	if calls := n.made(); len(calls) > 0 {
		t.Errorf("calls went on to the master: %q", calls)
	}
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
	if got := call(t, "GET", n.url+"/readyz", ""); got.status != 200 || !strings.Contains(got.body, directory) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	blocked = 12 * time.Second
	if got := call(t, "GET", n.url+"/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"log":"blocked for 12s"`) {
		t.Errorf("with a blocked log: %d %s", got.status, got.body)
	}
	n.setUnfit(lockapi.Errorf(lockapi.CodeNoMaster, "catching up: applied 3 of 9"))
	if got := call(t, "GET", n.url+"/readyz", ""); got.status != 503 || !strings.Contains(got.body, "applied 3 of 9") || !strings.Contains(got.body, directory) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	n.setUnfit(errors.New("the disk is slow"))
	if e := call(t, "GET", n.url+"/readyz", "").wantCode(t, lockapi.CodeNoMaster); !strings.Contains(e.Detail, "the disk is slow") {
		t.Errorf("detail %q", e.Detail)
	}
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
	if e := call(t, "GET", r.url+"/readyz", "").wantCode(t, lockapi.CodeNoMaster); !strings.Contains(e.Detail, "no longer the master") {
		t.Errorf("deposed: %q", e.Detail)
	}
	r.setMaster(5, "r3", "http://127.0.0.1:1")
	if e := call(t, "GET", r.url+"/readyz", "").wantCode(t, lockapi.CodeNoMaster); !strings.Contains(e.Detail, "did not report its applied entry") {
		t.Errorf("out of reach: %q", e.Detail)
	}
}

func TestReplicaAndDocument(t *testing.T) {
	n := startMaster(t, nil)
	var r lockapi.Replica
	must(t, json.Unmarshal([]byte(call(t, "GET", n.url+"/v1/replica", "").body), &r))
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
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("PUT", "/v1/locks/a%2Fb", strings.NewReader(`{}`)))
	if w.Code != http.StatusBadRequest {
		t.Errorf("status %d", w.Code)
	}
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
		c, err := net.Dial("tcp", n.addr)
		must(t, err)
		must(t, second(c.Write([]byte(request))))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		got := readReply(t, resp)
		if got.status >= 500 || got.header.Get("Stout-Epoch") == "" {
			t.Errorf("%q: %d %v %s", request, got.status, got.header, got.body)
		}
		c.Close()
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
