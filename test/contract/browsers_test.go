package contract_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// Settings of the cells here, for browsers.
const (
	allowedOrigin = "https://ops.example:8443"
	apiHost       = "stout.example"
)

// browsers: a page of another site can neither change anything nor, by a name
// that it has resolve to this machine, read anything.
func browsers(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	for _, r := range []*cell.Replica{master, c.Others(master)[0]} {
		session := open(t, r, `{"ttl_ms":600000}`)
		route, own := "/v1/locks/browsers/"+r.ID, strings.TrimPrefix(r.URL, "http://")
		_, port, _ := strings.Cut(own, ":")
		put := []string{"PUT", route, fmt.Sprintf(`{"session":%q}`, session)}
		get := []string{"GET", route, ""}
		for _, test := range []struct {
			name    string
			call    []string
			host    string
			headers []string
			status  int
		}{
			{"a program", put, own, nil, 200},
			{"a page of ours", put, own, []string{"Origin: http://" + own, "Sec-Fetch-Site: same-origin"}, 200},
			{"an older browser", put, own, []string{"Origin: http://" + own}, 200},
			{"typed into a browser", get, own, []string{"Sec-Fetch-Site: none"}, 200},
			{"an allowed page", put, own, []string{"Origin: " + allowedOrigin, "Sec-Fetch-Site: cross-site"}, 200},
			{"another site", put, own, []string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site"}, 403},
			{"another site in an older browser", put, own, []string{"Origin: http://evil.example"}, 403},
			{"another port", put, own, []string{"Origin: http://127.0.0.1:1"}, 403},
			{"another scheme's allowed page", put, own, []string{"Origin: http://ops.example:8443"}, 403},
			{"no origin that it would tell", put, own, []string{"Origin: null"}, 403},
			{"a form without an origin", put, own, []string{"Sec-Fetch-Site: cross-site"}, 403},
			{"a neighbour", put, own, []string{"Sec-Fetch-Site: same-site"}, 403},
			{"another site closes a session", []string{"DELETE", "/v1/sessions/" + session, ""}, own, []string{"Origin: http://evil.example"}, 403},
			{"another site moves mastership", []string{"POST", "/v1/cell/transfer", "{}"}, own, []string{"Origin: http://evil.example"}, 403},
			{"another site replaces a member", []string{"POST", "/v1/members/r1/replace", `{"directory":"0123456789abcdef"}`}, own, []string{"Origin: http://evil.example"}, 403},
			{"another site reads what its page will not be shown", get, own, []string{"Origin: http://evil.example"}, 200},
			{"localhost", get, "localhost:" + port, nil, 200},
			{"an address", get, "[::1]:" + port, nil, 200},
			{"a name that was allowed", put, apiHost + ":" + port, []string{"Origin: http://" + apiHost + ":" + port, "Sec-Fetch-Site: same-origin"}, 200},
			{"another name for this machine", get, "evil.example:" + port, nil, 403},
			{"another name, from its own page", put, "evil.example:" + port, []string{"Origin: http://evil.example:" + port, "Sec-Fetch-Site: same-origin"}, 403},
			{"another name reads", get, "evil.example:" + port, []string{"Sec-Fetch-Site: same-origin"}, 403},
		} {
			t.Run(test.name+" at "+r.ID, func(t *testing.T) {
				got := exchange(t, r, request(test.call[0], test.call[1], test.call[2], test.host, test.headers...))
				if got.status != test.status || (got.problem.Code == "cross_origin") != (test.status == http.StatusForbidden) {
					t.Errorf("%d %s, want %d", got.status, got.body, test.status)
				}
				shown := got.header.Get("Access-Control-Allow-Origin")
				if want := slices.Contains(test.headers, "Origin: "+allowedOrigin); (shown == allowedOrigin) != want || !want && shown != "" {
					t.Errorf("Access-Control-Allow-Origin is %q", shown)
				}
			})
		}
		preflights(t, r, own)
		if s, _ := call(t, r, http.StatusOK, "GET", "/v1/sessions/"+session, ""); len(list(t, s, "holds")) != 1 {
			t.Errorf("at last: %v", s)
		}
	}
}

// preflights: a browser asks before it sends a page's call to another site.
func preflights(t *testing.T, r *cell.Replica, own string) {
	ask := func(origin string) reply {
		return exchange(t, r, request("OPTIONS", "/v1/locks/browsers", "", own, "Origin: "+origin,
			"Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: content-type"))
	}
	got := ask(allowedOrigin)
	if got.status/100 != 2 || got.header.Get("Access-Control-Allow-Origin") != allowedOrigin ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "PUT") ||
		!strings.Contains(strings.ToLower(got.header.Get("Access-Control-Allow-Headers")), "content-type") ||
		!strings.Contains(got.header.Get("Vary"), "Origin") {
		t.Errorf("a preflight of %s: %d %v", allowedOrigin, got.status, got.header)
	}
	if got = ask("http://evil.example"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight of another site: %d %v", got.status, got.header)
	}
}
