package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/replica/state"
)

// The principals of the table below. Each has the right in its name, at /p or
// in the cell; "nobody" is authenticated without any right.
var principals = []string{"anonymous", "nobody", "reader", "locker", "writer", "admin", "observer", "operator", "root"}

var (
	everybody = principals
	known     = principals[1:]
	noOne     []string
	operators = []string{"operator", "root"}
)

func and(names ...string) []string { return append(names, operators...) }

// decision has a valid call of a route and the principals that may make it. In
// path and body ${own} is a session of the caller, and ${other} a session of
// another principal.
type decision struct {
	path, body string
	may        []string
}

// decisions are the contract's decisions, by route. A missing route fails the
// test.
var decisions = map[string][]decision{
	"POST /v1/sessions":                {{"/v1/sessions", "", known}},
	"GET /v1/sessions":                 {{"/v1/sessions", "", and("observer")}, {"/v1/sessions?consistency=stale", "", and("observer")}},
	"POST /v1/keepalives":              {{"/v1/keepalives", `{"sessions":[{"id":"${own}"}]}`, known}},
	"POST /v1/sessions/{id}/keepalive": {{"/v1/sessions/${own}/keepalive", "", known}, {"/v1/sessions/${other}/keepalive", "", noOne}},
	"GET /v1/sessions/{id}": {{"/v1/sessions/${own}", "", known}, {"/v1/sessions/${other}", "", and("observer")},
		{"/v1/sessions/${other}?consistency=stale", "", and("observer")}},
	"DELETE /v1/sessions/{id}": {{"/v1/sessions/${own}", "", known}, {"/v1/sessions/${other}", "", operators}},
	"GET /v1/locks":            {{"/v1/locks", "", known}},
	"PUT /v1/locks/{path}": {{"/v1/locks/p/l", `{"session":"${own}"}`, and("locker")}, {"/v1/locks/p/l", `{"session":"${other}"}`, noOne},
		{"/v1/locks/p%2Fl", `{"session":"${own}"}`, and("locker")}, {"/v1/locks/p%252Fl", `{"session":"${own}"}`, operators},
		{"/v1/locks/elsewhere", `{"session":"${own}"}`, operators}},
	"GET /v1/locks/{path}": {{"/v1/locks/p/l", "", and("reader")}, {"/v1/locks/p/l?consistency=stale", "", and("reader")}, {"/v1/locks/pp", "", operators},
		{"/v1/locks/p%2fl", "", and("reader")}, {"/v1/locks/p%252fl", "", operators}},
	"DELETE /v1/locks/{path}": {{"/v1/locks/p/l?session=${own}", "", known}, {"/v1/locks/p/l?session=${other}", "", and("admin")}},
	"GET /v1/sequencers":      {{"/v1/sequencers?value=exclusive:1:/p/l", "", and("reader")}},
	"GET /v1/files":           {{"/v1/files?prefix=/p/", "", known}},
	"DELETE /v1/files":        {{"/v1/files?prefix=/p/", "", and("writer")}, {"/v1/files?prefix=/q/", "", operators}},
	"PUT /v1/files/{path}": {{"/v1/files/p/f", "x", and("writer")}, {"/v1/files/p/f?session=${own}", "x", and("writer")}, {"/v1/files/p/f?session=${other}", "x", noOne},
		{"/v1/files/p/f?sequencer=exclusive:1:/p/l", "x", operators}},
	"POST /v1/files/{path}":   {{"/v1/files/p/f-", "x", and("writer")}, {"/v1/files/p/", "x", and("writer")}, {"/v1/files/p%2F", "x", and("writer")}, {"/v1/files/p", "x", operators}},
	"GET /v1/files/{path}":    {{"/v1/files/p/f", "", and("reader")}},
	"DELETE /v1/files/{path}": {{"/v1/files/p/f", "", and("writer")}, {"/v1/files/p/f?session=${other}", "", noOne}},
	"POST /v1/transactions": {
		{"/v1/transactions", `{"then":[{"put":{"path":"/p/f","content":"x"}}],"else":[{"create":{"path":"/p/f","content":"x"}},{"create_sequential":{"path":"/p/","content":"x"}},{"delete":{"path":"/p/f"}}]}`, and("writer")},
		{"/v1/transactions", `{"then":[{"get":{"path":"/p/f"}}],"if":[{"file":"/p/f","exists":true},{"lock":"/p/l","state":"free"},{"sequencer":"exclusive:1:/p/l"}]}`, and("reader")},
		{"/v1/transactions", `{"session":"${own}","then":[{"acquire":{"path":"/p/t"}}],"else":[{"release":{"path":"/p/t"}}]}`, and("locker")},
		{"/v1/transactions", `{"session":"${own}","then":[{"release":{"path":"/p/t"}}]}`, known},
		{"/v1/transactions", `{"session":"${other}","then":[{"release":{"path":"/p/t"}}]}`, noOne},
		{"/v1/transactions", `{"if":[{"session":"${other}"}]}`, and("observer")},
		{"/v1/transactions", `{"else":[{"put":{"path":"/q","content":"x"}}]}`, operators},
		{"/v1/transactions", `{"then":[{"create_sequential":{"path":"/p","content":"x"}}]}`, operators}, // creates /p000…, not below /p
	},
	"GET /v1/events":                {{"/v1/events?after=1", "", known}},
	"GET /v1/history":               {{"/v1/history?path=/p/l", "", and("reader")}, {"/v1/history?path=/pp&limit=1", "", operators}},
	"GET /v1/deadlocks":             {{"/v1/deadlocks", "", known}, {"/v1/deadlocks?consistency=stale", "", known}},
	"GET /v1/cell":                  {{"/v1/cell", "", and("observer")}, {"/v1/cell", "", and("observer")}},
	"GET /v1/cell/urls":             {{"/v1/cell/urls", "", known}, {"/v1/cell/urls?consistency=stale", "", known}},
	"POST /v1/cell/transfer":        {{"/v1/cell/transfer", `{"to":"r9"}`, operators}},
	"GET /v1/backup":                {{"/v1/backup", "", operators}},
	"GET /v1/replica":               {{"/v1/replica", "", and("observer")}},
	"GET /v1/members":               {{"/v1/members", "", and("observer")}, {"/v1/members?consistency=stale", "", and("observer")}},
	"POST /v1/members":              {{"/v1/members", `{"id":"r9","directory":"0123456789abcde0","raft_addr":"h:1","url":"http://h"}`, operators}},
	"PATCH /v1/members/{id}":        {{"/v1/members/r9", `{"suffrage":"voter"}`, operators}},
	"DELETE /v1/members/{id}":       {{"/v1/members/r9", "", operators}},
	"POST /v1/members/{id}/replace": {{"/v1/members/r9/replace", `{"directory":"0123456789abcde0"}`, operators}},
	"PUT /v1/access/rules/{path}": {{"/v1/access/rules/p/x", `{"read":["*"]}`, and("admin")}, {"/v1/access/rules/", `{}`, operators}, {"/v1/access/rules/q", `{}`, operators},
		{"/v1/access/rules/p%2Fx", `{"read":["*"]}`, and("admin")}},
	"GET /v1/access/rules/{path}":    {{"/v1/access/rules/p", "", and("admin")}, {"/v1/access/rules/", "", operators}},
	"DELETE /v1/access/rules/{path}": {{"/v1/access/rules/p/x", "", and("admin")}, {"/v1/access/rules/", "", operators}},
	"GET /v1/access/rules":           {{"/v1/access/rules", "", known}},
	"DELETE /v1/access/rules":        {{"/v1/access/rules?prefix=/p/", "", and("admin")}, {"/v1/access/rules?prefix=/q/", "", operators}},
	"GET /v1/access/check": {{"/v1/access/check?path=/p", "", known}, {"/v1/access/check?path=/p&principal=user:zoe", "", and("admin")},
		{"/v1/access/check?path=/&principal=user:zoe", "", operators}},
	"PUT /v1/access/groups/{name}":         {{"/v1/access/groups/g", `{"members":[]}`, operators}},
	"GET /v1/access/groups/{name}":         {{"/v1/access/groups/g", "", operators}},
	"DELETE /v1/access/groups/{name}":      {{"/v1/access/groups/g", "", operators}},
	"GET /v1/access/groups":                {{"/v1/access/groups", "", operators}},
	"PUT /v1/access/quotas/{principal}":    {{"/v1/access/quotas/user:a", "{}", operators}},
	"GET /v1/access/quotas/{principal}":    {{"/v1/access/quotas/user:a", "", operators}, {"/v1/access/quotas/user:a?consistency=stale", "", operators}},
	"DELETE /v1/access/quotas/{principal}": {{"/v1/access/quotas/user:a", "", operators}},
	"GET /v1/access/quotas":                {{"/v1/access/quotas", "", operators}},
	"PUT /v1/access/cell":                  {{"/v1/access/cell", cellLists, operators}},
	"GET /v1/access/cell":                  {{"/v1/access/cell", "", operators}},
	"POST /v1/access/tokens":               {{"/v1/access/tokens", `{"principal":"user:zoe"}`, operators}},
	"GET /v1/access/tokens":                {{"/v1/access/tokens", "", operators}},
	"DELETE /v1/access/tokens/{id}":        {{"/v1/access/tokens/none", "", operators}},
	"POST /v1/access/enable":               {{"/v1/access/enable", "", operators}},
	"POST /v1/access/disable":              {{"/v1/access/disable", "", operators}},
	"GET /v1/access/whoami":                {{"/v1/access/whoami", "", everybody}},
	"GET /v1/openapi.yaml":                 {{"/v1/openapi.yaml", "", everybody}},
	"GET /livez":                           {{"/livez", "", everybody}},
	"GET /v1/join":                         {{"/v1/join?cell=test", "", everybody}},
	"GET /readyz":                          {{"/readyz", "", everybody}},
	"GET /metrics":                         {{"/metrics", "", and("observer")}},
	"GET /":                                {{"/", "", everybody}},
	"GET /ui":                              {{"/ui", "", everybody}},
	"GET /ui/{file}":                       {{"/ui/", "", everybody}, {"/ui/page.js", "", everybody}, {"/ui/none", "", everybody}},
}

const cellLists = `{"observe":["user:observer"],"operate":["group:operators"]}`

// open lists the routes that ignore credentials.
var open = []string{"GET /v1/openapi.yaml", "GET /livez", "GET /readyz", "GET /v1/join", "GET /", "GET /ui", "GET /ui/{file}"}

// local lists the routes that each replica answers itself.
var local = append([]string{"GET /v1/events", "GET /v1/history", "GET /v1/cell", "GET /v1/replica", "GET /metrics"}, open...)

// secured is a master with access control on, and a token for each principal.
type secured struct {
	url     string
	server  *server.Server
	through string            // base URL for calls
	tokens  map[string]string // by principal, without user:
	via     http.RoundTripper // transport; nil for the usual one
	// proofs replace the tokens of principals with another proof, with a header
	// or without.
	proofs map[string]proof
}

// proof is how a principal authenticates.
type proof struct {
	via    http.RoundTripper
	header []string
}

func secretOf(name string) string { return "stout_" + strings.Repeat(name[:1], 40) + name }

func sumText(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func startSecured(t *testing.T, tune ...func(*server.Options)) *secured {
	t.Helper()
	s := &secured{tokens: map[string]string{"root": secretOf("root")}}
	s.url, s.server = startReal(t, tune...)
	s.secure(t)
	return s
}

// secure turns access control on, with the rules of the table.
func (s *secured) secure(t *testing.T) {
	t.Helper()
	s.through = s.url
	s.call(t, "anonymous", "POST", "/v1/access/enable", `{"token_sha256":"`+sumText(s.tokens["root"])+`"}`).wantStatus(t, 201)
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/access/rules/p", `{"read":["user:reader"],"lock":["user:locker"],"write":["user:writer"],"admin":["user:admin"]}`},
		{"PUT", "/v1/access/groups/operators", `{"members":["user:operator"]}`},
		{"PUT", "/v1/access/cell", cellLists},
	} {
		s.call(t, "root", c.method, c.path, c.body).wantStatus(t, 200)
	}
	for _, name := range append([]string{"other"}, known[:len(known)-1]...) {
		r := s.call(t, "root", "POST", "/v1/access/tokens", `{"principal":"user:`+name+`"}`).wantStatus(t, 201)
		var token lockapi.Token
		if err := json.Unmarshal([]byte(r.body), &token); err != nil || !strings.HasPrefix(token.Secret, "stout_") {
			t.Fatalf("%v: %s", err, r.body)
		}
		s.tokens[name] = token.Secret
	}
}

// call makes a call as a principal.
func (s *secured) call(t *testing.T, as, method, path, body string, headers ...string) reply {
	t.Helper()
	via := s.via
	if p, ok := s.proofs[as]; ok {
		via, headers = p.via, append(headers, p.header...)
	} else if as != "anonymous" {
		headers = append(headers, "Authorization", "Bearer "+s.tokens[as])
	}
	if via == nil {
		via = http.DefaultTransport
	}
	return callVia(t, via, method, s.through+path, body, headers...)
}

// session opens a session as a principal; the anonymous caller gets another
// principal's.
func (s *secured) session(t *testing.T, as string) string {
	t.Helper()
	if as == "anonymous" {
		as = "other"
	}
	return s.sessionOf(t, as)
}

// sessionOf opens a session as a principal, or as an anonymous caller.
func (s *secured) sessionOf(t *testing.T, as string) string {
	t.Helper()
	r := s.call(t, as, "POST", "/v1/sessions", "")
	var v lockapi.Session
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	return v.ID
}

// TestEachRouteIsJudged checks every route with every principal, at the master
// and through a forwarding replica, with either kind of connection between
// replicas.
func TestEachRouteIsJudged(t *testing.T) {
	for _, route := range server.Routes() {
		if len(decisions[route]) == 0 {
			t.Errorf("%s has no decision: add who may make the call to decisions; FuzzRequest sends these calls, too", route)
		}
	}
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) { eachRouteIsJudged(t, tune) })
	}
}

func eachRouteIsJudged(t *testing.T, way func(*server.Options)) {
	s := startSecured(t, way)
	replica := startNode(t, "r2", func(o *server.Options) {
		way(o)
		o.AttemptEvery = time.Nanosecond
	})
	replica.setMaster(3, "r1", s.url)
	for _, through := range []string{s.url, replica.url} {
		for _, route := range testrun.Rows(t, 10, server.Routes()) {
			for _, d := range decisions[route] {
				if through != s.url && (slices.Contains(local, route) || strings.Contains(d.path, "stale")) {
					continue // the replica answers these itself
				}
				for _, who := range principals {
					s.through = through
					s.checkDecision(t, route, d, who)
				}
			}
		}
	}
}

// TestReadsOfKnownCallersAreDocumented: docs/security.md has each read that any
// known caller may make.
func TestReadsOfKnownCallersAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	_, list, _ := strings.Cut(string(page), "\nAny known caller may read ")
	list, _, _ = strings.Cut(list, "\n\n")
	for route, all := range decisions {
		path, reads := strings.CutPrefix(route, "GET ")
		if reads && slices.Equal(all[0].may, known) && !strings.Contains(list, "`"+path+"`") {
			t.Errorf("docs/security.md: \"Any known caller may read\" lacks `%s`", path)
		}
	}
}

// reports lists the routes on which a replica reports about itself. It answers
// them in any state, by the rights that it knows.
var reports = append([]string{"GET /v1/cell", "GET /v1/replica", "GET /metrics"}, open...)

// TestReplicaThatHasNotCaughtUp: the replica answers no route by its own state
// except reports about itself, with any credential. A stream and a waiting call
// end.
func TestReplicaThatHasNotCaughtUp(t *testing.T) {
	url, log, api := startOneLog(t, func(o *server.Options) { o.ForwardTimeout = 50 * time.Millisecond })
	s := &secured{url: url, server: api, tokens: map[string]string{"root": secretOf("root"), "bad": "stout_" + strings.Repeat("x", 64)}}
	s.secure(t)
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/events?after=0", nil)
	must(t, err)
	stream.Header.Set("Accept", lockapi.TypeEventStream)
	stream.Header.Set("Authorization", "Bearer "+s.tokens["root"])
	told, err := http.DefaultClient.Do(stream)
	if err != nil || told.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", told, err)
	}
	defer told.Body.Close()
	waiting := make(chan reply)
	go func() { waiting <- s.call(t, "root", "GET", "/v1/events?path=/never&after=1&wait_ms=600000", "") }()
	eventually(t, "both wait", func() bool {
		return strings.Contains(s.call(t, "root", "GET", "/metrics", "").body, "stout_watchers 2")
	})

	n := log.Nodes()[0]
	n.Lag(true)
	log.Depose(n)
	s.call(t, "root", "PUT", "/v1/files/p/f", "x").wantCode(t, lockapi.CodeNoMaster)
	n.Events().Append([]state.Change{state.AccessChanged{Below: "/"}}, n.State()) // as would happen over time
	n.Events().Publish()
	(<-waiting).wantCode(t, lockapi.CodeNoMaster)
	if _, err := io.ReadAll(told.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	for _, route := range server.Routes() {
		if !strings.HasPrefix(route, "GET ") {
			continue
		}
		for _, d := range decisions[route] {
			path := strings.NewReplacer("${own}", "s", "${other}", "s").Replace(d.path)
			if !slices.Contains(local, route) && !strings.Contains(path, "consistency") && route != "GET /v1/backup" {
				path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "consistency=stale"
			}
			for _, who := range []string{"root", "bad"} {
				got := s.call(t, who, "GET", path, "")
				what := fmt.Sprintf("%s as %s: %d %s", path, who, got.status, got.body)
				switch reporting := slices.Contains(reports, route); {
				case !reporting || who == "bad" && !slices.Contains(open, route) || route == "GET /readyz":
					if got.status != http.StatusServiceUnavailable || got.problem(t).Code != lockapi.CodeNoMaster {
						t.Errorf("%s; it is to be no_master", what)
					}
				case got.status >= http.StatusInternalServerError:
					t.Errorf("%s; it is to be answered", what)
				}
			}
		}
	}
}

func (s *secured) checkDecision(t *testing.T, route string, d decision, who string) {
	t.Helper()
	method, _, _ := strings.Cut(route, " ")
	fill := func(text string) string {
		if strings.Contains(text, "${own}") {
			text = strings.ReplaceAll(text, "${own}", s.session(t, who))
		}
		if strings.Contains(text, "${other}") {
			text = strings.ReplaceAll(text, "${other}", s.session(t, "other"))
		}
		return text
	}
	got := s.call(t, who, method, fill(d.path), fill(d.body))
	what := fmt.Sprintf("%s %s %s as %s: %d %s", method, d.path, d.body, who, got.status, got.body)
	switch allowed := slices.Contains(d.may, who); {
	case allowed && (got.status == http.StatusUnauthorized || got.status == http.StatusForbidden || got.status >= 500):
		t.Errorf("%s; it is to be allowed", what)
	case !allowed && who == "anonymous":
		if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s, WWW-Authenticate %q; it is to be refused", what, got.header.Get("WWW-Authenticate"))
		}
	case !allowed:
		if got.status != http.StatusForbidden || got.problem(t).Code != lockapi.CodePermissionDenied || got.problem(t).Principal != "user:"+who {
			t.Errorf("%s; it is to be refused", what)
		}
	}
	s.tokens["bad"] = "stout_" + strings.Repeat("x", 64)
	if bad := s.call(t, "bad", method, fill(d.path), fill(d.body)); (bad.status != http.StatusUnauthorized) != slices.Contains(open, route) {
		t.Errorf("%s %s with a bad token: %d", method, d.path, bad.status)
	}
	if route == "POST /v1/access/disable" {
		_ = s.call(t, "anonymous", "POST", "/v1/access/enable", `{"token_sha256":"`+sumText(s.tokens["root"])+`"}`)
	}
}
