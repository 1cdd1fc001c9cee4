package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// TestBadAccessInput: invalid input is refused with the name of the field, and
// never ignored.
func TestBadAccessInput(t *testing.T) {
	long := strings.Repeat("x", lockapi.MaxPrincipalName+1)
	many := strings.TrimSuffix(strings.Repeat(`"*",`, lockapi.MaxAccessEntries+1), ",")
	refuse(t, []refusals{
		{"path", `PUT /v1/access/rules/a {"path":"/a"}`, nil},
		{"Read", `PUT /v1/access/rules/a {"Read":[]}`, nil},
		{"read", "PUT /v1/access/rules/a ", []string{`{"read":null}`, `{"read":"*"}`, `{"read":[],"read":[]}`}},
		{"lock[1]", `PUT /v1/access/rules/a {"lock":["*","a"]}`, nil},
		{"write[0]", `PUT /v1/access/rules/a {"write":["user:"]}`, nil},
		{"admin[0]", "PUT /v1/access/rules/a ", []string{
			`{"admin":["user:a\n"]}`, `{"admin":["group:a/b"]}`, `{"admin":["User:a"]}`,
			`{"admin":["user:` + long + `"]}`,
		}},
		{"read", `PUT /v1/access/rules/a {"read":[` + many + "]}", nil},
		{"body", "PUT /v1/access/rules/a {} {}", nil},
		{"path", "PUT /v1/access/rules/", []string{"a/ {}", "a%2F {}", "/ {}"}},
		{"prefix", "DELETE /v1/access/", []string{"rules", "rules?prefix=/a", "rules?prefix=//"}},
		{"x", "PUT /v1/access/rules/a?x=1 {}", nil},
		{"limit", "GET /v1/access/rules?limit=0", nil},
		{"prefix", "GET /v1/access/rules?prefix=foo", nil},
		{"path", "GET /v1/access/", []string{"check", "check?path=a"}},
		{"principal", "GET /v1/access/check?path=/a&principal=", []string{"", "group:a", "*"}},
		{"members", "PUT /v1/access/groups/", []string{"g {}", "g"}},
		{"members[0]", "PUT /v1/access/groups/g ", []string{`{"members":["*"]}`, `{"members":["anonymous"]}`}},
		{"name", "PUT /v1/access/groups/", []string{
			`g%2Fh {"members":[]}`, `g%00 {"members":[]}`, long + ` {"members":[]}`,
		}},
		{"operate[0]", `PUT /v1/access/cell {"operate":["x"]}`, nil},
		{"admin", `PUT /v1/access/cell {"admin":[]}`, nil},
		{"principal", "POST /v1/access/", []string{
			"tokens", `tokens {"principal":"group:a"}`, `tokens {"principal":"anonymous"}`,
		}},
		{"ttl_ms", "POST /v1/access/tokens ", []string{
			`{"principal":"user:a","ttl_ms":-1}`, `{"principal":"user:a","ttl_ms":99999999999999}`,
		}},
		{"note", `POST /v1/access/tokens {"principal":"user:a","note":"` + strings.Repeat("x", lockapi.MaxTokenNote+1) + `"}`, nil},
		{"token_sha256", "POST /v1/access/tokens ", []string{
			`{"principal":"user:a","token_sha256":"ab"}`,
			`{"principal":"user:a","token_sha256":"` + strings.Repeat("g", 64) + `"}`,
		}},
		{"token", "POST /v1/access/", []string{
			`tokens {"principal":"user:a","token":"stout_x"}`, `enable {"token":"stout_x"}`,
		}},
		{"x", `POST /v1/access/disable {"x":1}`, nil},
	}, startMaster(t, nil))
}

// TestBadCredentials: every route that reads credentials refuses bad ones, even
// while access control is off, and before any effect.
func TestBadCredentials(t *testing.T) {
	n := startMaster(t, nil)
	for _, headers := range [][]string{
		{"Authorization", ""},
		{"Authorization", "Bearer"},
		{"Authorization", "Bearer "},
		{"Authorization", "Basic dXNlcjpwYXNz"},
		{"Authorization", "stout_" + strings.Repeat("a", 40)},
		{"Authorization", "Bearer eyJhbGciOiJub25lIn0.e30."},
		{"Authorization", "Bearer Stout_" + strings.Repeat("a", 40)},
		{"Authorization", "Bearer stout_a", "Authorization", "Bearer stout_a"},
	} {
		got := call(t, "PUT", n.url+"/v1/files/a", "x", headers...)
		got.wantCode(t, lockapi.CodeUnauthenticated)
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %v", headers, got.header)
		}
		for _, path := range []string{"/livez", "/readyz", "/v1/openapi.yaml"} {
			call(t, "GET", n.url+path, "", headers...).wantStatus(t, http.StatusOK)
		}
	}
	n.wantNoCalls(t)
}

// TestNoHeaderMakesAPrincipal: no header lets a caller claim a principal.
func TestNoHeaderMakesAPrincipal(t *testing.T) {
	s := startSecured(t)
	var forged []string
	for _, name := range []string{"Stout-Principal", "Stout-Caller", "Stout-How", "Stout-Peer", "X-Forwarded-User", "X-Remote-User", "Remote-User", "X-Forwarded-For", "Forwarded", "X-Ssl-Client-S-Dn"} {
		forged = append(forged, name, "user:root")
	}
	call(t, "GET", s.url+"/v1/files/p/f", "", forged...).wantCode(t, lockapi.CodeUnauthenticated)
	call(t, "GET", s.url+"/v1/files/p/f", "", append(forged, "Stout-Forward", "never")...).wantCode(t, lockapi.CodeUnauthenticated)
	who := s.call(t, "reader", "GET", "/v1/access/whoami", "", forged...)
	var got lockapi.WhoAmI
	if err := json.Unmarshal([]byte(who.body), &got); err != nil || got != (lockapi.WhoAmI{Principal: "user:reader", How: "token"}) {
		t.Errorf("%v: %s", err, who.body)
	}
}

// TestAccessAnswers: the answers of the calls for access control.
func TestAccessAnswers(t *testing.T) {
	s := startSecured(t)
	for _, c := range []struct{ as, method, path, body, want string }{
		{"root", "PUT", "/v1/access/rules/p/q", `{"lock":[]}`, `{"path":"/p/q","lock":[]}`},
		{"root", "PUT", "/v1/access/rules/", `{"read":["*","anonymous"]}`, `{"path":"/","read":["*","anonymous"]}`},
		{"root", "GET", "/v1/access/rules/", "", `{"path":"/","read":["*","anonymous"]}`},
		{"root", "GET", "/v1/access/rules?limit=1", "", `{"rules":[{"path":"/","read":["*","anonymous"],"principal":"user:root"}],"next":"/"}`},
		{"root", "GET", "/v1/access/rules?after=/p", "", `{"rules":[{"path":"/p/q","lock":[],"principal":"user:root"}]}`},
		{"admin", "GET", "/v1/access/rules?prefix=/p/", "", `{"rules":[{"path":"/p/q","lock":[],"principal":"user:root"}]}`},
		{"reader", "GET", "/v1/access/rules", "", `{"rules":[]}`},
		{"admin", "GET", "/v1/access/check?path=/p/q/r&principal=user:locker", "",
			`{"principal":"user:locker","path":"/p/q/r","read":{"allowed":false,"rule":"/p"},"lock":{"allowed":false,"rule":"/p/q"},"write":{"allowed":false,"rule":"/p"},"admin":{"allowed":false,"rule":"/p"}}`},
		{"anonymous", "GET", "/v1/access/check?path=/x", "",
			`{"principal":"anonymous","path":"/x","read":{"allowed":true,"rule":"/"},"lock":{"allowed":false,"rule":null},"write":{"allowed":false,"rule":null},"admin":{"allowed":false,"rule":null}}`},
		{"operator", "GET", "/v1/access/check?path=/p", "",
			`{"principal":"user:operator","path":"/p","read":{"allowed":true,"rule":null},"lock":{"allowed":true,"rule":null},"write":{"allowed":true,"rule":null},"admin":{"allowed":true,"rule":null}}`},
		{"admin", "DELETE", "/v1/access/rules?prefix=/p/", "", `{"deleted":true}`},
		{"admin", "DELETE", "/v1/access/rules?prefix=/p/", "", `{"deleted":false}`},
		{"root", "PUT", "/v1/access/groups/g", `{"members":["group:operators","user:b"]}`, `{"name":"g","members":["group:operators","user:b"]}`},
		{"root", "GET", "/v1/access/groups", "", `{"groups":[{"name":"g","members":["group:operators","user:b"]},{"name":"operators","members":["user:operator"]}]}`},
		{"root", "GET", "/v1/access/cell", "", cellLists},
		{"anonymous", "GET", "/v1/access/whoami", "", `{"principal":"anonymous","how":"none"}`},
	} {
		got := s.call(t, c.as, c.method, c.path, c.body)
		if got.status != 200 || strings.TrimSpace(got.body) != c.want {
			t.Errorf("%s %s as %s: %d %s; want %s", c.method, c.path, c.as, got.status, got.body, c.want)
		}
	}
	e := s.call(t, "root", "PUT", "/v1/access/groups/operators", `{"members":["group:g"]}`).wantCode(t, lockapi.CodeInvalidArgument)
	if e.Field != "members" {
		t.Errorf("%+v", e)
	}
	denied := s.call(t, "reader", "PUT", "/v1/files/p/f", "x").wantCode(t, lockapi.CodePermissionDenied)
	if denied.Principal != "user:reader" || denied.Permission != "write" || denied.Path != "/p/f" {
		t.Errorf("%+v", denied)
	}
	s.call(t, "root", "DELETE", "/v1/access/rules/none", "").wantStatus(t, 204)
	s.call(t, "root", "GET", "/v1/access/rules/none", "").wantCode(t, lockapi.CodeNotFound)
}

// TestTokensOnTheWire: a secret is shown once, and never if the caller chose
// it.
func TestTokensOnTheWire(t *testing.T) {
	s := startSecured(t)
	own := "stout_" + strings.Repeat("own", 12)
	made := s.call(t, "root", "POST", "/v1/access/tokens", `{"principal":"user:zoe","note":"<&>","token_sha256":"`+sumText(own)+`","ttl_ms":60000}`)
	var token lockapi.Token
	if err := json.Unmarshal([]byte(made.body), &token); err != nil || made.status != 201 || token.Secret != "" || token.Note != "<&>" || token.ExpiresAt == nil {
		t.Fatalf("%v: %d %s", err, made.status, made.body)
	}
	s.call(t, "root", "POST", "/v1/access/tokens", `{"principal":"user:zoe","token_sha256":"`+sumText(own)+`"}`).wantCode(t, lockapi.CodeConflict)
	call(t, "GET", s.url+"/v1/access/whoami", "", "Authorization", "bearer "+own).wantStatus(t, 200)
	list := s.call(t, "root", "GET", "/v1/access/tokens", "")
	for name, secret := range s.tokens {
		if strings.Contains(list.body, secret) || strings.Contains(list.body, sumText(secret)) {
			t.Errorf("the list tells of the secret of %s: %s", name, list.body)
		}
	}
	s.call(t, "root", "DELETE", "/v1/access/tokens/"+token.ID, "").wantStatus(t, 204)
	call(t, "GET", s.url+"/v1/access/whoami", "", "Authorization", "Bearer "+own).wantCode(t, lockapi.CodeUnauthenticated)
}

// TestStreamsAreJudgedAgain: a stream omits paths that its caller may no longer
// read, and reports that its credential has ended.
func TestStreamsAreJudgedAgain(t *testing.T) {
	s := startSecured(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/events", nil)
	must(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+s.tokens["reader"])
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	told := make(chan string, 100)
	go func() {
		defer close(told)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if line := lines.Text(); strings.HasPrefix(line, "event: ") || strings.HasPrefix(line, "data: ") {
				told <- line
			}
		}
	}()
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			select {
			case line := <-told:
				if !strings.Contains(line, w) {
					t.Fatalf("told %q, want %q", line, w)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%q is not told", w)
			}
		}
	}
	expect("bookmark", "revision")
	write := func(path string) {
		t.Helper()
		s.call(t, "root", "PUT", "/v1/files"+path, "x").wantStatus(t, 201)
	}
	write("/q/hidden")
	write("/p/seen")
	expect("file_created", `"/p/seen"`)
	s.call(t, "root", "PUT", "/v1/access/rules/p/secret", `{"read":[]}`).wantStatus(t, 200)
	write("/p/secret/hidden")
	write("/p/seen-too")
	expect("file_created", `"/p/seen-too"`)
	list := decoded[lockapi.TokenList](t, s.call(t, "root", "GET", "/v1/access/tokens", ""))
	for _, token := range list.Tokens {
		if token.Principal == "user:reader" {
			s.call(t, "root", "DELETE", "/v1/access/tokens/"+token.ID, "").wantStatus(t, 204)
		}
	}
	expect("denied", "{}")
	if line, more := <-told; more {
		t.Errorf("told %q behind the end", line)
	}
}

// TestReplicasAskEachOther: replicas send questions of their own without a
// credential, while a forwarded caller still needs one.
func TestReplicasAskEachOther(t *testing.T) {
	s := startSecured(t)
	replica := startReplica(t, s.url, nil)
	call(t, "GET", replica.url+"/v1/events", "").wantStatus(t, 200)
	call(t, "GET", replica.url+"/v1/locks/p/l", "").wantCode(t, lockapi.CodeUnauthenticated)
	for _, method := range []string{"GET", "HEAD"} {
		if got := call(t, method, replica.url+"/v1/locks/p/l", "", "Authorization", "Bearer "+s.tokens["writer"]); got.status != http.StatusForbidden {
			t.Errorf("%s: %d", method, got.status)
		}
	}
	call(t, "GET", replica.url+"/v1/locks/p/l", "", "Authorization", "Bearer "+s.tokens["reader"]).wantStatus(t, 200)
	// A waiting call keeps its credential, however large its headers were.
	v := s.session(t, "reader")
	got := call(t, "POST", replica.url+"/v1/sessions/"+v+"/keepalive", `{"wait_ms":1}`, "Authorization", "Bearer "+s.tokens["reader"], "X-Large", strings.Repeat("x", 5000))
	got.wantStatus(t, 200)
	if got.header.Get(lockapi.HeaderEpoch) == "" {
		t.Error(fmt.Sprint(got.header))
	}
}

// TestThePeersDoorIsNoWayAround: calls on the replicas' own connections are
// checked like calls to the API, except questions of replicas, which reveal no
// data.
func TestThePeersDoorIsNoWayAround(t *testing.T) {
	s := startSecured(t)
	s.call(t, "root", "PUT", "/v1/files/p/tr0ve", "x").wantStatus(t, 201)
	behind := s.server.PeerHandler()
	ask := func(method, path, body string, headers ...string) reply {
		return handled(behind, "192.0.2.1:1234", method, path, body, headers...)
	}
	for route, all := range decisions {
		method, _, _ := strings.Cut(route, " ")
		for _, d := range all {
			if strings.Contains(d.path+d.body, "${") {
				continue
			}
			got, open := ask(method, d.path, d.body), slices.Contains(d.may, "anonymous") || route == "GET /v1/replica" || route == "GET /v1/events"
			if (got.status == http.StatusUnauthorized) == open {
				t.Errorf("%s %s behind the peers' door: %d %s", method, d.path, got.status, got.body)
			}
			if strings.Contains(got.body, "tr0ve") {
				t.Errorf("%s %s behind the peers' door tells %s", method, d.path, got.body)
			}
		}
	}
	for _, query := range []string{"?after=1", "?after=1&content=true", "?after=1&prefix=/p", "?after=1&limit=1"} {
		if got := ask("GET", "/v1/events"+query, "", "Stout-Forward", "never"); got.status != 200 || strings.Contains(got.body, "tr0ve") {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := ask("GET", "/v1/files/p/tr0ve", "", "Authorization", "Bearer "+s.tokens["reader"]); got.status != 200 {
		t.Errorf("a call that was forwarded: %d %s", got.status, got.body)
	}
}

// TestGuessingIsSlow: bad credentials are delayed and nothing else, also
// through a forwarding replica.
func TestGuessingIsSlow(t *testing.T) {
	s := startSecured(t)
	replica := startReplica(t, s.url, func(o *server.Options) { o.AttemptEvery = time.Hour })
	guess := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", replica.url+"/v1/locks/p/l", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer stout_"+strings.Repeat("x", 64))
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		readReply(t, resp).wantCode(t, lockapi.CodeUnauthenticated)
		return nil
	}
	for range 10 {
		must(t, guess(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := make(chan error, 1)
	go func() { last <- guess(ctx) }()
	eventually(t, "all are counted", func() bool {
		return strings.Contains(call(t, "GET", replica.url+"/metrics", "").body, "stout_bad_credentials_total 11")
	})
	s.through = replica.url
	s.call(t, "reader", "GET", "/v1/locks/p/l", "").wantStatus(t, 200)
	s.call(t, "anonymous", "GET", "/v1/locks/p/l", "").wantCode(t, lockapi.CodeUnauthenticated)
	cancel()
	if err := <-last; !errors.Is(err, context.Canceled) {
		t.Errorf("guess 11 came to %v", err)
	}
}

// TestBreakGlass: the secret on a host gives the root's rights only there,
// while that replica is the master; the log has each use.
func TestBreakGlass(t *testing.T) {
	secret := "stout_" + strings.Repeat("glass", 8)
	sum := sha256.Sum256([]byte(secret))
	log := &testrun.Log{}
	s := startSecured(t, func(o *server.Options) { o.BreakGlass, o.Logger = &sum, zerolog.New(log) })
	as := []string{"Authorization", "Bearer " + secret}
	who := call(t, "GET", s.url+"/v1/access/whoami", "", as...)
	if strings.TrimSpace(who.body) != `{"principal":"user:root","how":"break_glass"}` {
		t.Errorf("%d %s", who.status, who.body)
	}
	call(t, "POST", s.url+"/v1/access/tokens", `{"principal":"user:root"}`, as...).wantStatus(t, 201)
	call(t, "GET", s.url+"/metrics", "", as...).wantStatus(t, 200)
	if told := log.String(); strings.Count(told, "break-glass") != 3 || strings.Contains(told, secret) {
		t.Errorf("the log has %s", told)
	}
	replica := startReplica(t, s.url, func(o *server.Options) { o.BreakGlass = &sum })
	call(t, "GET", replica.url+"/v1/access/whoami", "", as...).wantCode(t, lockapi.CodeUnauthenticated)
	behind(s.server, "GET", "/v1/access/whoami", as...).wantStatus(t, http.StatusUnauthorized)
}

// TestPublicMetrics: public metrics open /metrics and no other route.
func TestPublicMetrics(t *testing.T) {
	s := startSecured(t, func(o *server.Options) { o.PublicMetrics = true })
	call(t, "GET", s.url+"/metrics", "").wantStatus(t, 200)
	call(t, "GET", s.url+"/v1/replica", "").wantCode(t, lockapi.CodeUnauthenticated)
}

// TestEnablingFromAfar: while access control is off, a caller can enable it
// from loopback or with the secret of the called replica or of the master. The
// replica that receives a call first checks the address.
func TestEnablingFromAfar(t *testing.T) {
	const afar, here = "192.0.2.7:4711", "127.0.0.1:4711"
	master, follower := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for way, tune := range ways {
		for _, c := range []struct {
			name, from, secret string
			direct, forwarded  bool
		}{
			{"loopback", here, "", true, true},
			{"loopback, IPv6", "[::1]:4711", "", true, true},
			{"loopback, IPv4 in IPv6", "[::ffff:127.0.0.9]:4711", "", true, true},
			{"loopback, a wrong secret", here, "x", true, true},
			{"afar", afar, "", false, false},
			{"afar, IPv6", "[2001:db8::1]:4711", "", false, false},
			{"no address", "", "", false, false},
			{"afar, a wrong secret", afar, strings.Repeat("c", 64), false, false},
			{"afar, a part of it", afar, master[1:], false, false},
			{"afar, the master's secret", afar, master, true, true},
			{"afar, the follower's secret", afar, follower, false, true},
		} {
			for _, through := range []string{"direct", "forwarded"} {
				to := &tape{}
				url, at := startReal(t, tune, taped(t, to, false, false), func(o *server.Options) { o.EnableSecret = master })
				allowed, file := c.direct, "r1"
				if through == "forwarded" {
					replica := startReplica(t, url, func(o *server.Options) { tune(o); o.EnableSecret = follower })
					at, allowed, file = replica.server, c.forwarded, "r2"
				}
				got := handled(at.Handler(), c.from, "POST", "/v1/access/enable", fmt.Sprintf(`{"secret":%q}`, c.secret),
					"Stout-Caller", `{"enables":true,"remote":"127.0.0.1:1"}`, "X-Forwarded-For", "127.0.0.1")
				name := fmt.Sprintf("%s, %s, %s", way, c.name, through)
				if allowed {
					if got.status != http.StatusCreated {
						t.Errorf("%s: %d %s", name, got.status, got.body)
					}
					continue
				}
				if p := got.problem(t); got.status != http.StatusForbidden || p.Code != lockapi.CodePermissionDenied ||
					!strings.Contains(p.Detail, "the file enable.secret in the data directory of replica "+file) {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
				eventually(t, name+" is in the audit", func() bool {
					line := to.String()
					return strings.Contains(line, `"route":"/v1/access/enable"`) && strings.Contains(line, `"code":"permission_denied"`)
				})
				call(t, "PUT", url+"/v1/files/still/off", "x").wantStatus(t, http.StatusCreated)
			}
		}
	}
}

// TestEnablingWithoutASecret: a replica that could not write its file accepts
// no remote caller, even with an empty secret.
func TestEnablingWithoutASecret(t *testing.T) {
	_, s := startReal(t)
	for _, body := range []string{"", `{}`, `{"secret":""}`} {
		handled(s.Handler(), "192.0.2.7:1", "POST", "/v1/access/enable", body).wantCode(t, lockapi.CodePermissionDenied)
	}
	handled(s.Handler(), "192.0.2.7:1", "POST", "/v1/access/enable", `{"secret":"`+strings.Repeat("x", 257)+`"}`).wantCode(t, lockapi.CodeInvalidArgument)
	handled(s.Handler(), "127.0.0.1:1", "POST", "/v1/access/enable", "").wantStatus(t, http.StatusCreated)
}

// TestEnableSecretOpensNothingElse: the secret is not a credential. While
// access control is on, callers without operate are refused as usual, and
// others get the conflict.
func TestEnableSecretOpensNothingElse(t *testing.T) {
	secret := strings.Repeat("a", 64)
	s := startSecured(t, func(o *server.Options) { o.EnableSecret = secret })
	body := `{"secret":"` + secret + `"}`
	for _, from := range []string{"192.0.2.7:1", "127.0.0.1:1"} {
		handled(s.server.Handler(), from, "POST", "/v1/access/enable", body).wantCode(t, lockapi.CodeUnauthenticated)
		handled(s.server.Handler(), from, "POST", "/v1/access/enable", body, "Authorization", "Bearer "+s.tokens["admin"]).wantCode(t, lockapi.CodePermissionDenied)
		handled(s.server.Handler(), from, "POST", "/v1/access/enable", `{}`, "Authorization", "Bearer "+s.tokens["root"]).wantCode(t, lockapi.CodeConflict)
	}
	s.call(t, "root", "POST", "/v1/access/disable", "").wantStatus(t, http.StatusNoContent)
	handled(s.server.Handler(), "192.0.2.7:1", "POST", "/v1/access/enable", `{}`, "Authorization", "Bearer "+s.tokens["root"]).wantCode(t, lockapi.CodePermissionDenied)
	handled(s.server.Handler(), "192.0.2.7:1", "POST", "/v1/access/enable", body).wantStatus(t, http.StatusCreated)
}

// TestPrefixesTellSourcesApart: a JWT or a certificate with a chosen name
// proves no principal of another source, and tokens for principals of another
// source are refused.
func TestPrefixesTellSourcesApart(t *testing.T) {
	prefixed := func(o *server.Options) { o.JWTs.Prefix, o.CertificatePrefix = "jwt:", "cert:" }
	s := startTrusting(t, prefixed)
	for _, name := range []string{"billing", "cert:billing", "jwt:billing", "root"} {
		if r, who := s.whoAmI(t, s.via, "Authorization", "Bearer "+s.issuer.Token(name, time.Hour, nil)); who.Principal != "user:jwt:"+name || who.How != "jwt" {
			t.Errorf("%+v: %s", who, r.body)
		}
		if r, who := s.whoAmI(t, s.as(t, certs.Leaf{Name: name})); who.Principal != "user:cert:"+name || who.How != "certificate" {
			t.Errorf("%+v: %s", who, r.body)
		}
	}
	for principal, setting := range map[string]string{
		"user:jwt:billing": `it begins with "jwt:" (jwt-prefix)`, "user:cert:": `it begins with "cert:" (certificate-prefix)`,
		"user:billing": "", "user:jwt": "", "user:Jwt:billing": "", "user:root": "",
	} {
		r := s.call(t, "anonymous", "POST", "/v1/access/tokens", `{"principal":"`+principal+`"}`)
		if setting == "" {
			r.wantStatus(t, http.StatusCreated)
			continue
		}
		if p := r.problem(t); r.status != http.StatusBadRequest || p.Field != "principal" || !strings.Contains(p.Detail, setting) {
			t.Errorf("%s: %d %s", principal, r.status, r.body)
		}
	}
}

// TestReplicasOfOtherPrefixes: a master refuses a forwarded principal if its
// own settings have another prefix for the source.
func TestReplicasOfOtherPrefixes(t *testing.T) {
	by := jwttest.New()
	s := startSecured(t, proven, func(o *server.Options) {
		o.JWTs, o.CertificatePrefix = newJWTs(t, by), "cert:"
		o.JWTs.Prefix = "jwt:"
	})
	for assertion, want := range map[string]string{
		`{"principal":"user:jwt:zoe","how":"jwt"}`:          "user:jwt:zoe",
		`{"principal":"user:cert:zoe","how":"certificate"}`: "user:cert:zoe",
		`{"principal":"user:zoe","how":"jwt"}`:              "",
		`{"principal":"user:cert:zoe","how":"jwt"}`:         "",
		`{"principal":"user:jwt:zoe","how":"certificate"}`:  "",
	} {
		got := behind(s.server, "GET", "/v1/access/whoami", "Stout-Caller", assertion)
		if want != "" && !strings.Contains(got.body, `"`+want+`"`) {
			t.Errorf("%s: %d %s", assertion, got.status, got.body)
		}
		if want == "" && (got.status != http.StatusUnauthorized || !strings.Contains(got.body, "the same jwt-prefix and certificate-prefix")) {
			t.Errorf("%s: %d %s", assertion, got.status, got.body)
		}
	}
}
