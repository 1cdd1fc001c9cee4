package browser

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func mustParse(t *testing.T, s string) Origin {
	t.Helper()
	o, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// policies returns a policy for an API on a network, and the same on loopback. The
// allowed sites are https://ui.example.com and http://other:8080. The further names
// are stout.example.com and Stout2, and a member's URL has the name r2.
func policies(t *testing.T) (open, loopback *Policy) {
	s := Settings{
		Allowed: []Origin{mustParse(t, "https://ui.example.com"), mustParse(t, "http://other:8080")},
		Names:   []string{"stout.example.com", "Stout2.", "not a name"},
		Named:   func(name string) bool { return name == "r2" },
	}
	open = New(s)
	s.Loopback = true
	return open, New(s)
}

const (
	own     = "own"      // the page's host is the API's
	share   = "share"    // allowed, and its page may read the answer
	ask     = "ask"      // the preflight of a shared call
	foreign = "foreign"  // refused: another site's page
	host    = "bad host" // refused: not addressed to us
)

// row is a call. "|" separates values of a repeated header, and "-" means that the
// header is missing.
type row struct{ method, host, origin, site, open, loopback string }

// Rows without a result for loopback have the same result there.
var rows = []row{
	// No browser: accepted with any method and name, but on loopback only with one
	// of the API's names.
	{"GET", "evil.example", "-", "-", own, host},
	{"POST", "evil.example", "-", "-", own, host},
	{"PUT", "10.0.0.1:7101", "-", "-", own, ""},
	{"DELETE", "[::1]:7101", "-", "-", own, ""},
	{"POST", "[fe80::1%eth0]", "-", "-", own, ""},
	{"POST", "0.0.0.0:7101", "-", "-", own, ""},
	{"POST", "localhost", "-", "-", own, ""},
	{"POST", "LOCALHOST.:7101", "-", "-", own, ""},
	{"POST", "localhost..", "-", "-", own, host},
	{"POST", "sub.localhost", "-", "-", own, host},
	{"POST", "r2:99", "-", "-", own, ""},
	{"POST", "R2.", "-", "-", own, ""},
	{"POST", "stout.example.com", "-", "-", own, ""},
	{"POST", "stout2:1", "-", "-", own, ""},
	{"POST", "ui.example.com:5", "-", "-", own, ""},
	{"POST", "other", "-", "-", own, ""},
	{"POST", "", "-", "-", own, ""}, // HTTP/1.0: no browser
	{"POST", "localhost@evil.example", "-", "-", own, host},
	{"POST", "127.0.0.1.evil.example", "-", "-", own, host},
	{"POST", "127.1", "-", "-", own, host}, // browsers send 127.0.0.1
	{"POST", "::1", "-", "-", own, host},

	// A page of the API's own host.
	{"POST", "localhost:7101", "http://localhost:7101", "same-origin", own, ""},
	{"POST", "localhost:7101", "http://localhost:7101", "-", own, ""},
	{"POST", "localhost:7101", "http://LOCALHOST.:7101", "-", own, ""},
	{"POST", "LocalHost.:7101", "http://localhost:7101", "-", own, ""},
	{"PUT", "[::1]:7101", "http://[::1]:7101", "same-origin", own, ""},
	{"PUT", "[0:0::1]:7101", "http://[::1]:7101", "same-origin", own, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1", "same-origin", own, ""},
	{"DELETE", "10.0.0.1:80", "http://10.0.0.1", "same-origin", own, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1:80", "same-origin", own, ""},
	{"PATCH", "stout.example.com", "https://stout.example.com", "same-origin", own, ""},
	{"PATCH", "stout.example.com:443", "https://stout.example.com", "same-origin", own, ""},
	{"POST", "r2:7102", "http://r2:7102", "same-origin", own, ""},
	{"POST", "localhost", "-", "same-origin", own, ""},
	{"POST", "localhost", "-", "none", own, ""},
	{"POST", "localhost:7101", "http://localhost:7101", "none", own, ""},

	// Not quite the same host.
	{"POST", "localhost:7101", "http://localhost", "-", foreign, ""},
	{"POST", "localhost", "http://localhost:7101", "-", foreign, ""},
	{"POST", "localhost:443", "http://localhost", "-", foreign, ""},
	{"POST", "localhost:7101", "http://localhost:8000", "same-site", foreign, ""},
	{"POST", "localhost:7101", "http://127.0.0.1:7101", "-", foreign, ""},
	{"POST", "127.0.0.1:7101", "http://localhost:7101", "cross-site", foreign, ""},
	{"POST", "10.0.0.1:7101", "http://10.0.0.2:7101", "-", foreign, ""},
	{"POST", "[::1]:7101", "http://[::2]:7101", "-", foreign, ""},
	{"POST", "stout.example.com", "https://example.com", "same-site", foreign, ""},

	// Another site's page.
	{"POST", "localhost:7101", "https://evil.example", "cross-site", foreign, ""},
	{"POST", "localhost:7101", "https://evil.example", "-", foreign, ""},
	{"POST", "10.0.0.1", "https://evil.example", "same-origin", foreign, ""},
	{"POST", "10.0.0.1", "https://evil.example", "none", foreign, ""},
	{"POST", "10.0.0.1", "-", "cross-site", foreign, ""},
	{"POST", "10.0.0.1", "-", "same-site", foreign, ""},
	{"PUT", "10.0.0.1", "null", "-", foreign, ""},
	{"PUT", "10.0.0.1", "null", "same-origin", foreign, ""},
	{"PUT", "10.0.0.1", "", "-", foreign, ""},
	{"PUT", "10.0.0.1", "-", "", foreign, ""},
	{"PUT", "10.0.0.1", "-", "Same-Origin", foreign, ""},
	{"PUT", "10.0.0.1", "http://10.0.0.1/", "-", foreign, ""},
	{"PUT", "10.0.0.1", "10.0.0.1", "-", foreign, ""},
	{"PUT", "10.0.0.1", "ftp://10.0.0.1", "-", foreign, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1|http://10.0.0.1", "-", foreign, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1|https://evil.example", "-", foreign, ""},
	{"DELETE", "10.0.0.1", "https://ui.example.com|https://ui.example.com", "-", foreign, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1", "same-origin|same-origin", foreign, ""},
	{"DELETE", "10.0.0.1", "http://10.0.0.1", "same-origin|cross-site", foreign, ""},
	{"CONNECT", "10.0.0.1", "https://evil.example", "-", foreign, ""},
	{"BREW", "10.0.0.1", "https://evil.example", "-", foreign, ""},
	{"get", "10.0.0.1", "https://evil.example", "-", foreign, ""},

	// A call without an effect is answered; the browser withholds the answer from the
	// page.
	{"GET", "10.0.0.1", "https://evil.example", "cross-site", own, ""},
	{"HEAD", "localhost", "null", "cross-site", own, ""},
	{"GET", "localhost", "-", "cross-site", own, ""},
	{"OPTIONS", "localhost", "https://evil.example", "cross-site", own, ""},
	{"GET", "localhost", "https://a|https://b", "x|y", own, ""},

	// An allowed site's page.
	{"POST", "10.0.0.1", "https://ui.example.com", "cross-site", share, ""},
	{"GET", "10.0.0.1", "https://ui.example.com", "cross-site", share, ""},
	{"DELETE", "r2", "https://ui.example.com:443", "-", share, ""},
	{"DELETE", "r2", "HTTPS://UI.example.com", "-", share, ""},
	{"POST", "ui.example.com", "https://ui.example.com", "same-origin", share, ""},
	{"POST", "10.0.0.1", "http://other:8080", "cross-site", share, ""},
	{"POST", "10.0.0.1", "http://other", "cross-site", foreign, ""},
	{"POST", "10.0.0.1", "http://ui.example.com", "cross-site", foreign, ""},
	{"POST", "10.0.0.1", "https://sub.ui.example.com", "same-site", foreign, ""},
	{"POST", "10.0.0.1", "https://ui.example.com.evil.example", "cross-site", foreign, ""},

	// A name that a page has rebound to this address.
	{"GET", "evil.example", "http://evil.example", "same-origin", host, ""},
	{"GET", "evil.example:7101", "-", "same-origin", host, ""},
	{"GET", "evil.example", "-", "none", host, ""},
	{"POST", "evil.example", "http://evil.example", "same-origin", host, ""},
	{"POST", "evil.example", "https://ui.example.com", "cross-site", host, ""},
	{"OPTIONS", "evil.example", "https://ui.example.com", "-", host, ""},
	{"GET", "", "http://evil.example", "-", host, ""},
	{"GET", "127.0.0.1.evil.example", "-", "none", host, ""},
}

func TestJudge(t *testing.T) {
	open, loopback := policies(t)
	for _, r := range rows {
		c := &http.Request{Method: r.method, Host: r.host, Header: http.Header{"Origin": values(r.origin), "Sec-Fetch-Site": values(r.site)}}
		if got := told(open.Check(c)); got != r.open {
			t.Errorf("%+v: %s", r, got)
		}
		if r.loopback == "" {
			r.loopback = r.open
		}
		if got := told(loopback.Check(c)); got != r.loopback {
			t.Errorf("%+v on loopback: %s", r, got)
		}
	}
}

// A preflight has the same result as its call.
func TestJudgePreflights(t *testing.T) {
	open, _ := policies(t)
	for _, r := range []struct{ method, asked, host, origin, want string }{
		{"OPTIONS", "POST", "10.0.0.1", "https://ui.example.com", ask},
		{"OPTIONS", "GET", "10.0.0.1", "https://ui.example.com", ask},
		{"OPTIONS", "POST", "10.0.0.1", "https://evil.example", foreign},
		{"OPTIONS", "patch", "10.0.0.1", "null", foreign},
		{"OPTIONS", "GET", "10.0.0.1", "https://evil.example", own},
		{"OPTIONS", "POST", "evil.example", "https://ui.example.com", host},
		{"OPTIONS", "POST", "10.0.0.1", "-", own},
		{"OPTIONS", "GET|POST", "10.0.0.1", "https://evil.example", own},
		{"OPTIONS", "", "10.0.0.1", "https://evil.example", foreign},
		{"POST", "GET", "10.0.0.1", "https://evil.example", foreign},
		{"POST", "GET", "10.0.0.1", "https://ui.example.com", share},
	} {
		c := &http.Request{Method: r.method, Host: r.host, Header: http.Header{"Origin": values(r.origin), "Access-Control-Request-Method": values(r.asked)}}
		if got := told(open.Check(c)); got != r.want {
			t.Errorf("%+v: %s", r, got)
		}
	}
}

func values(s string) []string {
	if s == "-" {
		return nil
	}
	return strings.Split(s, "|")
}

func told(v Verdict) string {
	switch {
	case v.Refusal == ForeignHost && v.Share == "" && !v.Preflight:
		return host
	case v.Refusal == ForeignPage && v.Share == "" && !v.Preflight:
		return foreign
	case v.Refusal == Fine && v.Share != "" && v.Preflight:
		return ask
	case v.Refusal == Fine && v.Share != "":
		return share
	case v == Verdict{}:
		return own
	}
	return "nonsense"
}

// A call with an effect is refused if any of the browser's headers names another site.
func FuzzJudge(f *testing.F) {
	f.Add("POST", "localhost:7101", "http://localhost:7101", "same-origin")
	f.Add("PUT", "10.0.0.1", "https://evil.example", "none")
	f.Add("DELETE", "[::1]:80", "http://[::1]", "same-site")
	f.Fuzz(func(t *testing.T, method, host, origin, site string) {
		p := New(Settings{Names: []string{"stout"}})
		c := &http.Request{Method: method, Host: host, Header: http.Header{"Origin": {origin}, "Sec-Fetch-Site": {site}}}
		v := p.Check(c)
		if v.Share != "" || v.Preflight {
			t.Fatalf("%+v is shared without an origin", c)
		}
		if v.Refusal != Fine || isSafe(method) {
			return
		}
		if site != "same-origin" && site != "none" {
			t.Errorf("%+v passes", c)
		}
		page, err := url.Parse(origin)
		if err != nil {
			t.Fatalf("%+v passes: %v", c, err)
		}
		own, err := url.Parse(page.Scheme + "://" + host)
		if err != nil {
			t.Fatalf("%+v passes: %v", c, err)
		}
		if a, b := place(page), place(own); a != b {
			t.Errorf("%+v passes: %q is not %q", c, a, b)
		}
	})
}

// place returns the host and port of a URL.
func place(u *url.URL) string {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if a, err := netip.ParseAddr(name); err == nil {
		name = a.String()
	}
	port := strings.TrimLeft(u.Port(), "0")
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return name + " " + port
}

// With TLS, a page from the same host without TLS counts as another site's: anyone on
// the network path may have made it.
func TestPagesWithoutTLS(t *testing.T) {
	open, loopback := policies(t)
	for origin, want := range map[string]Refusal{
		"https://stout.example.com": Fine, "http://stout.example.com": ForeignPage, "http://other:8080": Fine,
	} {
		for _, p := range []*Policy{open, loopback} {
			c := &http.Request{Method: "POST", Host: "stout.example.com", Header: http.Header{"Origin": {origin}}, TLS: &tls.ConnectionState{}}
			if got := p.Check(c).Refusal; got != want {
				t.Errorf("%s: %v, want %v", origin, got, want)
			}
		}
	}
}
