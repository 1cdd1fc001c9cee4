package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// tape keeps the output of an audit log, and can be full.
type tape struct {
	testrun.Log
	full atomic.Bool
}

func (w *tape) Write(p []byte) (int, error) {
	if w.full.Load() {
		return 0, syscall.ENOSPC
	}
	return w.Log.Write(p)
}

// taped gives a server an audit log.
func taped(t *testing.T, to *tape, required, changes bool) func(*server.Options) {
	t.Helper()
	l, err := audit.Open(audit.Options{Path: "-", Stdout: to, Required: required, Logger: zerolog.Nop()})
	must(t, err)
	return func(o *server.Options) { o.Audit, o.AuditChanges = l, changes }
}

// auditLine is a line about a call.
type auditLine struct {
	Time                                             time.Time
	Principal, How, Remote, Via, Method, Route, Path string
	Status                                           int
	Code                                             string
	RequestID                                        string `json:"request_id"`
	Epoch, Revision                                  uint64
	Event, Adopted                                   string
}

func (l auditLine) String() string {
	return strings.TrimSpace(fmt.Sprintln(l.Principal, l.How, l.Method, l.Route, l.Path, l.Status, l.Code))
}

// of returns the lines of a request.
func (w *tape) of(t *testing.T, id string) []auditLine {
	t.Helper()
	var found []auditLine
	for text := range strings.Lines(w.String()) {
		var l auditLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if l.RequestID == id {
			found = append(found, l)
		}
	}
	return found
}

// linesOf returns the lines of an answered call, once they are written.
func (w *tape) linesOf(t *testing.T, got reply, lines int) []auditLine {
	t.Helper()
	id := got.header.Get(lockapi.HeaderRequestID)
	if id == "" {
		t.Fatalf("the answer names no request: %d %v", got.status, got.header)
	}
	eventually(t, "the line about request "+id, func() bool { return len(w.of(t, id)) >= lines })
	return w.of(t, id)
}

// secrets returns texts that must not appear in the log.
func (s *secured) secrets() (all []string) {
	for _, secret := range s.tokens {
		all = append(all, secret, secret[len("stout_"):], sumText(secret))
	}
	return append(all, "c0ntent", "k3y-of-idempotency", "n0te", "Bearer", "stout_")
}

// TestAudit: the log has denials and changes with their callers, and never a
// secret.
func TestAudit(t *testing.T) {
	w := new(tape)
	s := startSecured(t, taped(t, w, false, false))
	session := s.session(t, "locker")
	hold := func() {
		s.call(t, "locker", "PUT", "/v1/locks/p/l", `{"session":"`+session+`"}`).wantStatus(t, 200)
	}
	hold()
	for _, c := range []struct{ as, method, path, body, want string }{
		{"reader", "PUT", "/v1/files/p/f", "c0ntent", "user:reader token PUT /v1/files/{path} /p/f 403 permission_denied"},
		{"reader", "PUT", "/v1/files/p%2Fd%2ff", "c0ntent", "user:reader token PUT /v1/files/{path} /p/d/f 403 permission_denied"},
		{"reader", "GET", "/v1/files/q?consistency=stale", "", "user:reader token GET /v1/files/{path} /q 403 permission_denied"},
		{"reader", "GET", "/v1/cell", "", "user:reader token GET /v1/cell  403 permission_denied"},
		{"anonymous", "GET", "/v1/sessions", "", "anonymous none GET /v1/sessions  401 unauthenticated"},
		{"wrong", "GET", "/v1/files/p/f", "", "anonymous none GET /v1/files/{path} /p/f 401 unauthenticated"},
		{"anonymous", "PUT", "/v1/locks/p/l", "{", "anonymous none PUT /v1/locks/{path} /p/l 401 unauthenticated"},
		{"anonymous", "GET", "/v1/locks/p/l?consistency=x", "", "anonymous none GET /v1/locks/{path} /p/l 401 unauthenticated"},
		{"anonymous", "PUT", "/v1/access/rules/p", "{", "anonymous none PUT /v1/access/rules/{path} /p 401 unauthenticated"},
		{"anonymous", "POST", "/v1/files/p/f-?session=", "", "anonymous none POST /v1/files/{path} /p/f-0000000000000000 401 unauthenticated"},
		{"reader", "POST", "/v1/keepalives", `{"sessions":[{"id":"` + session + `"}]}`, "user:reader token POST /v1/keepalives  200 permission_denied"},
		{"root", "PUT", "/v1/access/rules/p/q", `{"read":["*"]}`, "user:root token PUT /v1/access/rules/{path} /p/q 200"},
		{"root", "DELETE", "/v1/access/rules/p/q", "", "user:root token DELETE /v1/access/rules/{path} /p/q 204"},
		{"root", "DELETE", "/v1/access/rules?prefix=/p/", "", "user:root token DELETE /v1/access/rules /p 200"},
		{"root", "PUT", "/v1/access/groups/g", `{"members":["user:b"]}`, "user:root token PUT /v1/access/groups/{name}  200"},
		{"root", "DELETE", "/v1/access/groups/g", "", "user:root token DELETE /v1/access/groups/{name}  204"},
		{"operator", "PUT", "/v1/access/cell", cellLists, "user:operator token PUT /v1/access/cell  200"},
		{"operator", "POST", "/v1/access/tokens", `{"principal":"user:x","note":"n0te"}`, "user:operator token POST /v1/access/tokens  201"},
		{"operator", "DELETE", "/v1/access/tokens/none", "", "user:operator token DELETE /v1/access/tokens/{id}  204"},
		{"root", "POST", "/v1/cell/transfer", `{"to":"r1"}`, "user:root token POST /v1/cell/transfer  200"},
		{"admin", "DELETE", "/v1/locks/p/l?session=" + session, "", "user:admin token DELETE /v1/locks/{path} /p/l 200"},
		{"operator", "DELETE", "/v1/sessions/" + session, "", "user:operator token DELETE /v1/sessions/{id}  204"},
	} {
		s.tokens["wrong"] = "stout_" + strings.Repeat("w", 40)
		got := s.call(t, c.as, c.method, c.path, c.body, "Cookie", "Bearer")
		lines := w.linesOf(t, got, 1)
		l := lines[0]
		if len(lines) != 1 || l.String() != c.want {
			t.Errorf("%s %s as %s: %v; want %s", c.method, c.path, c.as, lines, c.want)
		}
		if l.Epoch == 0 || l.Time.IsZero() || !strings.HasPrefix(l.Remote, "127.0.0.1:") || l.Event != "" || l.Via != "" {
			t.Errorf("%+v", l)
		}
	}
	// Permitted calls without a change of access have no line, nor have failed
	// ones.
	session = s.session(t, "locker")
	before := w.String()
	hold()
	for _, c := range []struct{ as, method, path, body string }{
		{"writer", "PUT", "/v1/files/p/f", "c0ntent"}, {"reader", "GET", "/v1/files/p/f", ""}, {"writer", "DELETE", "/v1/files/p/f", ""},
		{"locker", "DELETE", "/v1/locks/p/l?session=" + session, ""}, {"locker", "DELETE", "/v1/sessions/" + session, ""},
		{"root", "PUT", "/v1/access/rules/p", `{"read":["x"]}`}, {"root", "GET", "/v1/access/tokens", ""},
	} {
		if got := s.call(t, c.as, c.method, c.path, c.body); got.header.Get(lockapi.HeaderRequestID) != "" {
			t.Errorf("%s %s: %v", c.method, c.path, got.header)
		}
	}
	if got := w.String(); got != before {
		t.Error(got[len(before):])
	}
	for _, secret := range s.secrets() {
		if strings.Contains(w.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, w)
		}
	}
}

// TestAuditOfChanges: with --audit-changes each change has a line, without its
// data.
func TestAuditOfChanges(t *testing.T) {
	w := new(tape)
	s := startSecured(t, taped(t, w, false, true))
	opened := s.call(t, "writer", "POST", "/v1/sessions", `{"name":"c0ntent"}`, "Idempotency-Key", "k3y-of-idempotency")
	v := decoded[lockapi.Session](t, opened)
	w.linesOf(t, opened, 1)
	door := startDoor(t, s.server)
	last := uint64(0)
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "door kv/p/k", "c0ntent", "user:writer token PUT /consul/v1/kv/{name} /p/k 200"},
		{"DELETE", "door kv/p/k?recurse", "", "user:writer token DELETE /consul/v1/kv/{name} /p/k 200"},
		{"PUT", "/v1/files/p/f?session=" + v.ID, "c0ntent", "user:writer token PUT /v1/files/{path} /p/f 201"},
		{"POST", "/v1/files/p/f-", "c0ntent", "user:writer token POST /v1/files/{path}"},
		{"POST", "/v1/transactions", `{"then":[{"put":{"path":"/p/g","content":"c0ntent"}}]}`, "user:writer token POST /v1/transactions  200"},
		{"DELETE", "/v1/files/p/f", "", "user:writer token DELETE /v1/files/{path} /p/f 200"},
		{"DELETE", "/v1/files?prefix=/p/", "", "user:writer token DELETE /v1/files /p 200"},
		{"DELETE", "/v1/sessions/" + v.ID, "", "user:writer token DELETE /v1/sessions/{id}  204"},
	} {
		var headers []string
		if strings.Contains(c.path, "session=") {
			headers = []string{"Idempotency-Key", "k3y-of-idempotency"}
		}
		var got reply
		if rest, ok := strings.CutPrefix(c.path, "door "); ok {
			got = call(t, c.method, door+rest, c.body, "Authorization", "Bearer "+s.tokens["writer"])
		} else {
			got = s.call(t, "writer", c.method, c.path, c.body, headers...)
		}
		lines := w.linesOf(t, got, 1)
		if len(lines) != 1 || !strings.HasPrefix(lines[0].String(), c.want) || lines[0].Revision < last {
			t.Errorf("%s %s: %v at %d; want %s", c.method, c.path, lines, lines[0].Revision, c.want)
		}
		last = lines[0].Revision
	}
	if last == 0 {
		t.Error("no line has a revision")
	}
	for _, secret := range s.secrets() {
		if strings.Contains(w.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestEveryChangeIsAudited: every route that changes something is audited, and
// routes for access, members and mastership always have a line. So have a
// backup, which contains everything, and /v1/join, which shows the members
// without a credential.
func TestEveryChangeIsAudited(t *testing.T) {
	for _, r := range server.Routes() {
		method, template, _ := strings.Cut(r, " ")
		got := server.Audits(method, template)
		want := "if changes"
		switch {
		case template == lockapi.RouteBackup, template == lockapi.RouteJoin:
			want = "always"
		case method == http.MethodGet, strings.HasSuffix(template, "/keepalive"), template == lockapi.RouteKeepalives:
			want = "never"
		case strings.HasPrefix(template, "/v1/access/"), strings.HasPrefix(template, lockapi.RouteMembers), template == lockapi.RouteTransfer:
			want = "always"
		case r == "DELETE /v1/sessions/{id}", r == "DELETE /v1/locks/{path}":
			want = "if others"
		}
		if got != want {
			t.Errorf("%s is audited %s, want %s", r, got, want)
		}
	}
}

// TestAuditRequired: a change without a line has no effect, and a change with
// one is announced before and recorded after.
func TestAuditRequired(t *testing.T) {
	t.Parallel()
	for _, changes := range []bool{false, true} {
		w := new(tape)
		s := startSecured(t, taped(t, w, true, changes))
		session := s.session(t, "locker")
		made := w.linesOf(t, s.call(t, "root", "PUT", "/v1/access/rules/p/q", `{"read":["*"]}`), 2)
		if len(made) != 2 || made[0].Status != 0 || made[1].Status != 200 || made[0].Principal != "user:root" || made[0].Path != "/p/q" {
			t.Errorf("%v", made)
		}
		denied := w.linesOf(t, s.call(t, "reader", "PUT", "/v1/access/rules/p/q", `{"read":["*"]}`), 1)
		if len(denied) != 1 || denied[0].Status != 403 {
			t.Errorf("%v", denied) // a denial has only one line
		}

		w.full.Store(true)
		for _, c := range []struct{ as, method, path, body string }{
			{"root", "PUT", "/v1/access/rules/p/q", `{"read":[]}`}, {"root", "POST", "/v1/access/disable", ""},
			{"root", "POST", "/v1/access/tokens", `{"principal":"user:x"}`}, {"root", "POST", "/v1/cell/transfer", ""},
			{"writer", "PUT", "/v1/files/p/f", "x"}, {"writer", "POST", "/v1/transactions", `{"then":[{"put":{"path":"/p/g","content":"x"}}]}`},
			{"locker", "PUT", "/v1/locks/p/l", `{"session":"` + session + `"}`}, {"operator", "DELETE", "/v1/sessions/" + session, ""},
			{"writer", "POST", "/v1/sessions", ""},
		} {
			got := s.call(t, c.as, c.method, c.path, c.body)
			e := got.wantCode(t, lockapi.CodeNoMaster)
			if got.status != 503 || !strings.Contains(e.Detail, "audit-required") || !strings.Contains(e.Detail, "no space left") || got.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %+v", c.method, c.path, got.status, e)
			}
		}
		// Calls without a change are served, and sessions continue.
		s.call(t, "locker", "POST", "/v1/sessions/"+session+"/keepalive", "").wantStatus(t, 200)
		s.call(t, "reader", "GET", "/v1/files/p/f", "").wantCode(t, lockapi.CodeNotFound)
		s.call(t, "reader", "GET", "/v1/files/p/g", "").wantCode(t, lockapi.CodeNotFound)
		rule := s.call(t, "root", "GET", "/v1/access/rules/p/q", "")
		if strings.TrimSpace(rule.body) != `{"path":"/p/q","read":["*"]}` {
			t.Errorf("a change without a line has taken effect: %s", rule.body)
		}
		s.call(t, "reader", "PUT", "/v1/files/p/f", "x").wantCode(t, lockapi.CodePermissionDenied)

		w.full.Store(false)
		eventually(t, "changes are made again", func() bool { return s.call(t, "writer", "PUT", "/v1/files/p/f", "x").status == 201 })
		if !strings.Contains(w.String(), `"event":"audit_lost"`) {
			t.Error(w)
		}
	}
}

// TestAuditOfAForcedEndAtTheDoor: the end of another principal's session has a line
// also through Consul's door, without audit-changes. The end of an own one has none.
func TestAuditOfAForcedEndAtTheDoor(t *testing.T) {
	w := new(tape)
	s := startSecured(t, taped(t, w, false, false))
	door := startDoor(t, s.server)
	of := s.session(t, "locker")
	destroy := func(as, id string) reply {
		return call(t, "PUT", door+"session/destroy/"+id, "", "Authorization", "Bearer "+s.tokens[as])
	}
	lines := w.linesOf(t, destroy("operator", of).wantStatus(t, 200), 1)
	if want := "user:operator token PUT /consul/v1/session/destroy/{name}  200"; len(lines) != 1 || !strings.HasPrefix(lines[0].String(), want) {
		t.Errorf("%v; want %s", lines, want)
	}
	if own := destroy("locker", s.session(t, "locker")).wantStatus(t, 200); own.header.Get(lockapi.HeaderRequestID) != "" {
		t.Error("the end of an own session has a line")
	}
}

// TestAuditOfAdoption: the adoption of a session by a principal has a line,
// even by a keepalive. The next call has none.
func TestAuditOfAdoption(t *testing.T) {
	for _, required := range []bool{false, true} {
		w := new(tape)
		s := &secured{tokens: map[string]string{"root": secretOf("root")}}
		s.url, s.server = startReal(t, taped(t, w, required, false))
		s.through = s.url
		old := s.sessionOf(t, "anonymous")
		s.call(t, "anonymous", "PUT", "/v1/locks/p/l", `{"session":"`+old+`"}`).wantStatus(t, 200)
		s.secure(t)
		keepalive := "/v1/sessions/" + old + "/keepalive"
		s.call(t, "reader", "POST", keepalive, "").wantCode(t, lockapi.CodeSessionNotFound)
		lines := map[bool]int{false: 1, true: 2}[required]
		made := w.linesOf(t, s.call(t, "locker", "POST", keepalive, ""), lines)
		last := made[len(made)-1]
		if len(made) != lines || last.Adopted != old || last.Principal != "user:locker" || last.Status != 200 || last.Route != "/v1/sessions/{id}/keepalive" {
			t.Errorf("required: %v, %+v", required, made)
		}
		if again := s.call(t, "locker", "POST", keepalive, ""); again.status != 200 || again.header.Get(lockapi.HeaderRequestID) != "" {
			t.Errorf("the next one: %d %v", again.status, again.header)
		}
	}
}

// TestAuditOfBreakGlass: each use of the break-glass secret has a line,
// including reads.
func TestAuditOfBreakGlass(t *testing.T) {
	w := new(tape)
	glass := secretOf("glass")
	sum := sha256.Sum256([]byte(glass))
	s := startSecured(t, taped(t, w, false, false), func(o *server.Options) { o.BreakGlass = &sum })
	for _, path := range []string{"/v1/cell", "/v1/access/whoami", "/v1/files/p/f", "/metrics"} {
		got := call(t, "GET", s.url+path, "", "Authorization", "Bearer "+glass)
		if l := w.linesOf(t, got, 1); len(l) != 1 || l[0].Principal != lockapi.PrincipalRoot || l[0].How != lockapi.HowBreakGlass || l[0].Status != got.status {
			t.Errorf("%s: %+v", path, l)
		}
	}
}

// TestAuditOfForwardedCalls: only the replica that checked the call has the
// line. A replica that refuses a call itself has its own.
func TestAuditOfForwardedCalls(t *testing.T) {
	at, via := new(tape), new(tape)
	s := startSecured(t, taped(t, at, false, true))
	replica := startReplica(t, s.url, taped(t, via, false, true))
	s.through = replica.url
	for _, got := range []reply{
		s.call(t, "reader", "PUT", "/v1/files/p/f", "x"), s.call(t, "writer", "PUT", "/v1/files/p/f", "x"), s.call(t, "root", "PUT", "/v1/access/rules/p/q", "{}"),
		s.call(t, "reader", "GET", "/v1/sessions", ""),
	} {
		lines := at.linesOf(t, got, 1)
		if len(lines) != 1 || lines[0].Via != "r2" || len(via.of(t, lines[0].RequestID)) != 0 {
			t.Errorf("%v, and at the other replica %v", lines, via)
		}
	}
	got := call(t, "PUT", replica.url+"/v1/files/p/f", "x", "Authorization", "Basic YTpi")
	got.wantCode(t, lockapi.CodeUnauthenticated)
	if lines := via.linesOf(t, got, 1); len(lines) != 1 || len(at.of(t, lines[0].RequestID)) != 0 {
		t.Errorf("%v, and at the master %v", lines, at)
	}
	cross := call(t, "PUT", replica.url+"/v1/files/p/f", "x", "Origin", evil)
	cross.wantCode(t, lockapi.CodeCrossOrigin)
	if n := strings.Count(via.String(), "\n"); n > 3 {
		t.Errorf("what the master has decided is in the replica's log, too:\n%s", via)
	}
	if lines := via.linesOf(t, cross, 1); lines[0].Code != "cross_origin" || lines[0].Status != 403 {
		t.Errorf("%v", lines)
	}
}

// TestAuditOfLostAnswers: if the master may have made a change but its answer
// was lost, the called replica logs the caller.
func TestAuditOfLostAnswers(t *testing.T) {
	const secret = "stout_of-the-operator"
	sum := sha256.Sum256([]byte(secret))
	for way, tune := range ways {
		w := new(tape)
		gone := startOther(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		replica := startNode(t, "r2", func(o *server.Options) {
			tune(o)
			taped(t, w, false, false)(o)
			o.Master = knowing{o.Master.(*standIn), sum}
		})
		replica.setMaster(3, "r1", gone.URL)
		got := call(t, "POST", replica.url+"/v1/access/tokens", `{"principal":"user:x"}`, "Authorization", "Bearer "+secret)
		got.wantCode(t, lockapi.CodeOutcomeUnknown)
		if l := w.linesOf(t, got, 1); len(l) != 1 || l[0].Principal != "user:operator" || l[0].How != "token" || l[0].Code != "outcome_unknown" {
			t.Errorf("%s: %v", way, l)
		}
	}
}

// knowing is a stand-in of a replica that knows a token.
type knowing struct {
	*standIn
	token [sha256.Size]byte
}

func (k knowing) Authorize(by *master.Caller) error {
	if by.Secret == nil || *by.Secret != k.token {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the token is not known here")
	}
	if by.Told != nil {
		*by.Told = master.Checked{Principal: "user:operator", How: lockapi.HowToken}
	}
	return nil
}

// TestAuditOfManyDenials: guessing does not fill the disk.
func TestAuditOfManyDenials(t *testing.T) {
	w := new(tape)
	s := startSecured(t, taped(t, w, false, false))
	began := time.Now()
	for range 50 {
		s.call(t, "reader", "PUT", "/v1/files/p/f", "x").wantCode(t, lockapi.CodePermissionDenied)
	}
	took := time.Since(began)
	var counted, lines uint64
	eventually(t, "all are counted", func() bool {
		counted, lines = 0, 0
		for text := range strings.Lines(w.String()) {
			var l struct {
				Event string
				Code  string
				Count uint64
			}
			must(t, json.Unmarshal([]byte(text), &l))
			switch {
			case l.Event == audit.Suppressed:
				counted += l.Count
			case l.Code == "permission_denied":
				lines++
			}
		}
		return counted+lines == 50
	})
	if seconds := uint64(took/time.Second) + 2; lines > 10*seconds {
		t.Errorf("%d lines in %v", lines, took)
	}
}

// TestHistoryIsTheReplicasOwn: each replica answers from its own record, with
// and without a master, and includes the revision.
func TestHistoryIsTheReplicasOwn(t *testing.T) {
	master, replica := startPair(t, nil)
	for range 3 {
		replica.happened("/a")
	}
	for _, known := range []bool{true, false} {
		if !known {
			replica.setMaster(0, "", "")
		}
		got := call(t, "GET", replica.url+"/v1/history?path=%2Fa&limit=2", "", "Stout-Forward", "never").wantStatus(t, 200)
		var h lockapi.History
		if err := json.Unmarshal([]byte(got.body), &h); err != nil || len(h.Events) != 2 || h.Events[0].Revision != 4 || h.Revision != 4 {
			t.Errorf("%v: %s", err, got.body)
		}
		if r := got.header.Get(lockapi.HeaderRevision); r != "4" {
			t.Errorf("revision %q", r)
		}
	}
	if got := call(t, "GET", master.url+"/v1/history?path=/a", ""); got.status != 200 || got.header.Get(lockapi.HeaderRevision) != "1" {
		t.Errorf("the master says %d %s", got.status, got.body)
	}
}

func TestHistoryRefuses(t *testing.T) {
	n := startMaster(t, nil)
	for query, field := range map[string]string{"": "path", "path=": "path", "path=a": "path", "path=/a&limit=0": "limit", "path=/a&limit=1001": "limit",
		"path=/a&path=/b": "path", "path=/a&consistency=stale": "consistency"} {
		if e := call(t, "GET", n.url+"/v1/history?"+query, "").wantCode(t, lockapi.CodeInvalidArgument); e.Field != field {
			t.Errorf("%s: field %q", query, e.Field)
		}
	}
}
