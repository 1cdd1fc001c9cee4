package server_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/internal/page"
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
	master.wantNoCalls(t)
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
		got := callAs(t, n, "POST", n.addr, "/v1/sessions", "{}", headers...).wantStatus(t, http.StatusCreated)
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
	got := ask(ui, "Access-Control-Request-Private-Network", "true").wantStatus(t, http.StatusNoContent)
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
	n.wantNoCalls(t)
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
		got := callAs(t, n, "PUT", n.addr, "/v1/files/p/f", "x", c.headers...).wantStatus(t, c.status)
		if got.header.Get("Access-Control-Allow-Origin") != ui || got.header.Get("Access-Control-Expose-Headers") != "*" || got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d: %v", c.status, got.header)
		}
	}
	callAs(t, n, "PUT", n.addr, "/v1/files/p/g", "x", append(token, "Origin", evil)...).wantCode(t, lockapi.CodeCrossOrigin)
	callAs(t, n, "PUT", "evil.example", "/v1/files/p/g", "x", append(token, "Origin", "http://evil.example")...).wantCode(t, lockapi.CodeCrossOrigin)
	callAs(t, n, "PUT", "stout.example.com", "/v1/files/p/g", "x", append(token, "Origin", "http://stout.example.com", "Sec-Fetch-Site", "same-origin")...).wantStatus(t, 201)
	s.call(t, "reader", "GET", "/v1/files/p/g", "").wantStatus(t, 200)
}

// TestPageFiles: each file has its type, and headers that restrict a browser to
// the files of the page and the API of its replica.
func TestPageFiles(t *testing.T) {
	n := startMaster(t, nil)
	for _, name := range append(page.Names(), "") {
		r := call(t, "GET", n.url+"/ui/"+name, "").wantStatus(t, http.StatusOK)
		f, _ := page.Find(name)
		if r.body != string(f.Content) || r.header.Get("Content-Type") != f.Type {
			t.Errorf("%q: %d bytes of %s", name, len(r.body), r.header.Get("Content-Type"))
		}
		checkPageHeaders(t, name, r.header)
		for _, tag := range []string{f.ETag, "W/" + f.ETag, `"x", ` + f.ETag, "*"} {
			again := call(t, "GET", n.url+"/ui/"+name, "", "If-None-Match", tag)
			if again.status != http.StatusNotModified || again.body != "" || again.header.Get("ETag") != f.ETag {
				t.Errorf("%q with %s: %d %q", name, tag, again.status, again.header.Get("ETag"))
			}
		}
		if other := call(t, "GET", n.url+"/ui/"+name, "", "If-None-Match", `"x"`); other.status != http.StatusOK {
			t.Errorf("%q with another ETag: %d", name, other.status)
		}
		head := call(t, "HEAD", n.url+"/ui/"+name, "")
		if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != r.header.Get("Content-Length") {
			t.Errorf("HEAD %q: %d, %d bytes", name, head.status, len(head.body))
		}
	}
}

func checkPageHeaders(t *testing.T, name string, h http.Header) {
	t.Helper()
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains("; "+policy+";", "; "+part+";") {
			t.Errorf("%q: the policy %q has no %s", name, policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, ":") {
		t.Errorf("%q: the policy %q opens more than its own host", name, policy)
	}
	for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin"} {
		if got := h.Get(header); got != want {
			t.Errorf("%q: %s is %q, want %q", name, header, got, want)
		}
	}
	if h.Get("Set-Cookie") != "" {
		t.Errorf("%q sets a cookie", name)
	}
}

// TestPageHasNothingElse: file names are looked up exactly.
func TestPageHasNothingElse(t *testing.T) {
	n := startMaster(t, nil)
	for _, name := range []string{
		"none", "page.js/", "/page.js", "./page.js", "../page.go", "..%2fpage.go", "%2e%2e/%2e%2e/etc/passwd", "../../../../etc/passwd", "files/page.js", "files", "PAGE.JS",
		"page.js%00", "page.js%00.css", "..", "..\\page.go", "index.html/page.js", strings.Repeat("x", 4000),
	} {
		r := call(t, "GET", n.url+"/ui/"+name, "")
		if r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
			t.Errorf("%q: %d %.80s", name, r.status, r.body)
		}
		if r.status == http.StatusNotFound && r.problem(t).Code != lockapi.CodeNotFound {
			t.Errorf("%q: %s", name, r.body)
		}
	}
	if r := call(t, "GET", n.url+"/ui/%70age.js", ""); r.status != http.StatusOK {
		t.Errorf("a name in another spelling: %d", r.status)
	}
	call(t, "GET", n.url+"/ui/?x=1", "").wantField(t, "x")
	for _, path := range []string{"/ui/", "/ui/page.js", "/ui", "/"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			r := call(t, method, n.url+path, "")
			r.wantCode(t, lockapi.CodeMethodNotAllowed)
			if got := r.header.Get("Allow"); !strings.Contains(got, "GET") || strings.Contains(got, method) {
				t.Errorf("%s %s: Allow is %q", method, path, got)
			}
		}
	}
}

// TestWaysToThePage: a browser at the replica's bare address is redirected to
// the page, and a program gets 404 as before.
func TestWaysToThePage(t *testing.T) {
	n := startMaster(t, nil)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		path, accept string
		status       int
	}{
		{"/", browser, http.StatusSeeOther},
		{"/", "", http.StatusNotFound},
		{"/", "*/*", http.StatusNotFound},
		{"/", "application/json", http.StatusNotFound},
		{"/", "text/html;q=0", http.StatusNotFound},
		{"/ui", "", http.StatusPermanentRedirect},
		{"/ui", browser, http.StatusPermanentRedirect},
	} {
		var headers []string
		if c.accept != "" {
			headers = []string{"Accept", c.accept}
		}
		r := call(t, "GET", n.url+c.path, "", headers...)
		if r.status != c.status || (r.header.Get("Location") == "/ui/") != (c.status < 400) {
			t.Errorf("%s with %q: %d to %q", c.path, c.accept, r.status, r.header.Get("Location"))
		}
	}
}

// TestPageAsksForNothing: the page's files are open while access control is on,
// and a wrong credential is ignored. Each call of the page is checked.
func TestPageAsksForNothing(t *testing.T) {
	s := startSecured(t)
	for _, as := range []string{"anonymous", "nobody", "root"} {
		s.call(t, as, "GET", "/ui/", "").wantStatus(t, http.StatusOK)
	}
	s.tokens["bad"] = "stout_" + strings.Repeat("x", 64)
	s.call(t, "bad", "GET", "/ui/page.js", "").wantStatus(t, http.StatusOK)
	s.call(t, "anonymous", "GET", "/v1/cell", "").wantStatus(t, http.StatusUnauthorized)
	for who, want := range map[string]string{
		"nobody":   `{"principal":"user:nobody","how":"token"}`,
		"observer": `{"principal":"user:observer","how":"token","observe":true}`,
		"operator": `{"principal":"user:operator","how":"token","observe":true,"operate":true}`,
	} {
		if r := s.call(t, who, "GET", "/v1/access/whoami?rights=true", ""); strings.TrimSpace(r.body) != want {
			t.Errorf("%s, want %s", r.body, want)
		}
	}
}
