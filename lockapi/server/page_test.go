package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/page"
	"github.com/stoutlock/stout/lockapi"
)

// TestPageFiles: each file has its type, and headers that restrict a browser to
// the files of the page and the API of its replica.
func TestPageFiles(t *testing.T) {
	n := startMaster(t, nil)
	for _, name := range append(page.Names(), "") {
		r := call(t, "GET", n.url+"/ui/"+name, "")
		r.wantStatus(t, http.StatusOK)
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
	if e := call(t, "GET", n.url+"/ui/?x=1", "").wantCode(t, lockapi.CodeInvalidArgument); e.Field != "x" {
		t.Errorf("a parameter: %v", e)
	}
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
