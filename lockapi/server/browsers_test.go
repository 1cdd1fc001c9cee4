package server_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

const (
	evil = "https://evil.example"
	ui   = "https://ui.example.com"
)

// shared allows the pages of ui to use the API.
func shared(o *server.Options) {
	site, err := browser.Parse(ui)
	if err != nil {
		panic(err)
	}
	o.Browsers = browser.Settings{Allowed: []browser.Origin{site}, Names: []string{"stout.example.com"}}
}

// callAs is call with another Host header.
func callAs(t *testing.T, n *node, method, host, target, body string, headers ...string) reply {
	t.Helper()
	text := method + " " + target + " HTTP/1.1\r\n"
	if host != "" {
		text += "Host: " + host + "\r\n"
	}
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if body != "" {
		text += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return raw(t, n, method, text+"\r\n"+body)
}

// A page of another site changes nothing, on any route and replica, and cannot
// read the answer.
func TestOtherSitesPagesChangeNothing(t *testing.T) {
	master, replica := startPair(t, shared)
	for _, n := range []*node{master, replica} {
		for _, r := range append(server.Routes(), "POST /nowhere", "BREW /v1/cell") {
			method, target, _ := strings.Cut(strings.NewReplacer("{id}", "s1", "/{path}", "/a").Replace(r), " ")
			if method == http.MethodGet {
				continue
			}
			for _, headers := range [][]string{
				{"Origin", evil, "Sec-Fetch-Site", "cross-site"}, {"Origin", evil}, {"Origin", "null"},
				{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			} {
				got := callAs(t, n, method, n.addr, target, "{}", headers...)
				e := got.wantCode(t, lockapi.CodeCrossOrigin)
				if !strings.Contains(e.Detail, n.addr) || !strings.Contains(e.Detail, "--allow-origin") || got.header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %q: %+v %v", r, headers, e, got.header)
				}
			}
		}
	}
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("the master was asked for %q", calls)
	}
	if got := counted(t, master, "stout_http_requests_total", "POST", lockapi.RouteSessions); got != 5 {
		t.Errorf("%d refusals are counted under their route", got)
	}
}

// A page with a foreign name that resolves to this host can neither change nor
// read anything.
func TestForeignNamesAreRefused(t *testing.T) {
	n := startMaster(t, shared)
	for _, c := range [][]string{
		{"GET", "/v1/cell", "Origin", "http://evil.example"},
		{"GET", "/livez", "Sec-Fetch-Site", "none"},
		{"GET", "/nowhere", "Sec-Fetch-Site", "same-origin"},
		{"POST", "/v1/sessions", "Origin", ui},
		{"OPTIONS", "/v1/sessions", "Origin", ui, "Access-Control-Request-Method", "POST"},
	} {
		got := callAs(t, n, c[0], "evil.example", c[1], "", c[2:]...)
		if e := got.wantCode(t, lockapi.CodeCrossOrigin); !strings.Contains(e.Detail, `"evil.example"`) || !strings.Contains(e.Detail, "--api-host") {
			t.Errorf("%q: %+v", c, e)
		}
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %v", c, got.header)
		}
	}
	callAs(t, n, "POST", "evil.example", "/v1/sessions", "{}").wantStatus(t, http.StatusCreated)
}

// If the API listens on loopback only, calls to a foreign name are refused.
func TestForeignNamesOnLoopback(t *testing.T) {
	n := startMaster(t, func(o *server.Options) { shared(o); o.Browsers.Loopback = true })
	n.setReplicas(lockapi.Replica{ID: "r1", URL: "http://R1.example.com.:7101/"}, lockapi.Replica{ID: "r2", URL: "http://[::1"})
	for host, status := range map[string]int{
		n.addr: 201, "localhost": 201, "[::1]:1": 201, "stout.example.com": 201, "ui.example.com:5": 201, "r1.example.com": 201,
		"evil.example": 403, "r2": 403, "example.com": 403,
	} {
		callAs(t, n, "POST", host, "/v1/sessions", "{}").wantStatus(t, status)
	}
}

// The replica that forwards a call has checked its origin. The forwarded call
// is addressed to the member's name, not the API's.
func TestForwardedCallsAreNotJudgedAgain(t *testing.T) {
	onLoopback := func(o *server.Options) { o.Browsers.Loopback = true }
	master, replica := startMaster(t, onLoopback), startNode(t, "r2", onLoopback)
	replica.setMaster(3, "r1", master.url)
	callAs(t, replica, "POST", replica.addr, "/v1/sessions", "{}", "Origin", "http://"+replica.addr).wantStatus(t, http.StatusCreated)
	callAs(t, replica, "GET", replica.addr, "/readyz", "").wantStatus(t, http.StatusOK)
}

// Pages of the API's own host, and programs, call as usual.
func TestOwnPagesCall(t *testing.T) {
	n := startMaster(t, nil)
	for _, headers := range [][]string{
		nil, {"Origin", "http://" + n.addr}, {"Origin", "http://" + n.addr, "Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"},
	} {
		got := callAs(t, n, "POST", n.addr, "/v1/sessions", "{}", headers...)
		got.wantStatus(t, http.StatusCreated)
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %v", headers, got.header)
		}
	}
}

// Pages of an allowed site may call and read every answer, including errors,
// also through a forwarding replica; headers for caches are set.
func TestAllowedSitesCall(t *testing.T) {
	_, replica := startPair(t, shared)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/sessions", "{}", 201}, {"GET", "/v1/cell", "", 200}, {"GET", "/v1/sessions/nobody", "", 404},
		{"GET", "/nowhere", "", 404}, {"PUT", "/v1/locks/a", "{", 400}, {"DELETE", "/v1/sessions/s1", "", 204}, {"PATCH", "/v1/cell", "", 405},
	} {
		got := callAs(t, replica, c.method, replica.addr, c.target, c.body, "Origin", ui, "Sec-Fetch-Site", "cross-site")
		got.wantStatus(t, c.status)
		want := map[string]string{"Access-Control-Allow-Origin": ui, "Access-Control-Expose-Headers": "*", "Vary": "Authorization, Origin", "Cache-Control": "no-store",
			"Access-Control-Allow-Methods": "", "Access-Control-Allow-Credentials": ""}
		if !strings.HasPrefix(c.target, "/v1/") {
			want["Vary"], want["Cache-Control"] = "Origin", ""
		}
		for name, value := range want {
			if got.header.Get(name) != value {
				t.Errorf("%s %s: %s is %q, want %q", c.method, c.target, name, got.header.Get(name), value)
			}
		}
		if got := callAs(t, replica, c.method, replica.addr, c.target, c.body); got.header.Get("Vary") != want["Vary"] || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s without an origin: %v", c.method, c.target, got.header)
		}
	}
}

// The answer to a preflight lists what the page may do.
func TestPreflights(t *testing.T) {
	n := startMaster(t, shared)
	ask := func(site string, more ...string) reply {
		return callAs(t, n, "OPTIONS", n.addr, "/v1/locks/a", "", append([]string{"Origin", site, "Access-Control-Request-Method", "PUT",
			"Access-Control-Request-Headers", "content-type"}, more...)...)
	}
	got := ask(ui, "Access-Control-Request-Private-Network", "true")
	got.wantStatus(t, http.StatusNoContent)
	for name, part := range map[string]string{
		"Access-Control-Allow-Origin": ui, "Access-Control-Allow-Methods": "PUT", "Access-Control-Allow-Headers": "Content-Type",
		"Access-Control-Max-Age": "600", "Access-Control-Allow-Private-Network": "true", "Vary": "Origin", "Stout-Epoch": "3",
	} {
		if !strings.Contains(got.header.Get(name), part) {
			t.Errorf("%s is %q", name, got.header.Get(name))
		}
	}
	if got := ask(ui); got.header.Get("Access-Control-Allow-Private-Network") != "" {
		t.Errorf("%v", got.header)
	}
	if got := ask(evil); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", got.header)
	} else {
		got.wantCode(t, lockapi.CodeCrossOrigin)
	}
	callAs(t, n, "OPTIONS", n.addr, "/v1/locks/a", "").wantCode(t, lockapi.CodeMethodNotAllowed)
	if calls := n.made(); len(calls) > 0 {
		t.Errorf("the master was asked for %q", calls)
	}
}

// While access control is on, a page of an allowed site sends a preflight
// without a credential, calls with one, and can read refusals. A page of
// another site is refused before its credential is checked.
func TestPagesWithAccess(t *testing.T) {
	s := startSecured(t, shared)
	n := &node{addr: strings.TrimPrefix(s.url, "http://"), url: s.url}
	token := []string{"Authorization", "Bearer " + s.tokens["writer"]}
	page := []string{"Origin", ui, "Sec-Fetch-Site", "cross-site"}
	asked := callAs(t, n, "OPTIONS", n.addr, "/v1/files/p/f", "", append(page, "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization")...)
	asked.wantStatus(t, http.StatusNoContent)
	for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "X-Consul-Token"} {
		if !strings.Contains(asked.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s may not be sent: %v", name, asked.header)
		}
	}
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{slices.Concat(page, token), 201}, {page, 401}, {slices.Concat(page, []string{"Authorization", "Bearer stout_x"}), 401},
		{slices.Concat(page, []string{"Authorization", "Bearer " + s.tokens["reader"]}), 403},
	} {
		got := callAs(t, n, "PUT", n.addr, "/v1/files/p/f", "x", c.headers...)
		got.wantStatus(t, c.status)
		if got.header.Get("Access-Control-Allow-Origin") != ui || got.header.Get("Access-Control-Expose-Headers") != "*" || got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d: %v", c.status, got.header)
		}
	}
	callAs(t, n, "PUT", n.addr, "/v1/files/p/g", "x", append(token, "Origin", evil)...).wantCode(t, lockapi.CodeCrossOrigin)
	callAs(t, n, "PUT", "evil.example", "/v1/files/p/g", "x", append(token, "Origin", "http://evil.example")...).wantCode(t, lockapi.CodeCrossOrigin)
	callAs(t, n, "PUT", "stout.example.com", "/v1/files/p/g", "x", append(token, "Origin", "http://stout.example.com", "Sec-Fetch-Site", "same-origin")...).wantStatus(t, 201)
	s.call(t, "reader", "GET", "/v1/files/p/g", "").wantStatus(t, 200)
}
