package contract_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// badInput is a request that is refused, and how. In its texts $S is a session
// that lives and holds /held under the handle h, so that but for the one fault
// the request would be granted.
type badInput struct {
	call, body string
	status     int
	code       lockapi.Code
	field      string
}

const (
	openSession = "POST /v1/sessions"
	keepalive   = "POST /v1/sessions/$S/keepalive"
	lockA       = "PUT /v1/locks/a"
	transfer    = "POST /v1/cell/transfer"
	goodLock    = `{"session":"$S"}`
)

// invalid are refusals with 400 invalid_argument, by what is wrong with them.
var invalid = map[string][][3]string{ // call, body, field
	"malformed JSON": {
		{openSession, `{`, "body"},
		{openSession, `nope`, "body"},
		{openSession, `[]`, "body"},
		{openSession, `null`, "body"},
		{openSession, `{"ttl_ms":12000,}`, "body"},
		{openSession, `{"name":"a"} x`, "body"},
		{openSession, `{}{}`, "body"},
		{openSession, strings.Repeat("[", 20000), "body"},
		{lockA, goodLock + `]`, "body"},
	},
	"unknown and misspelled fields": {
		{openSession, `{"ttl":12000}`, "ttl"},
		{openSession, `{"TTL_MS":12000}`, "TTL_MS"},
		{openSession, `{"name":"a","name":"b"}`, "name"},
		{lockA, `{"session":"$S","path":"/a"}`, "path"},
		{lockA, `{"Session":"$S"}`, "Session"},
		{lockA, `{"session":"$S","wait":5}`, "wait"},
		{keepalive, `{"wait":1}`, "wait"},
		{transfer, `{"from":"r1"}`, "from"},
	},
	"wrong types": {
		{openSession, `{"ttl_ms":"12000"}`, "ttl_ms"},
		{openSession, `{"ttl_ms":12000.5}`, "ttl_ms"},
		{openSession, `{"ttl_ms":null}`, "ttl_ms"},
		{openSession, `{"name":7}`, "name"},
		{openSession, `{"meta":["a"]}`, "meta"},
		{openSession, `{"meta":{"a":1}}`, "meta"},
		{lockA, `{"session":1}`, "session"},
		{lockA, `{"session":"$S","queue":"true"}`, "queue"},
		{keepalive, `{"ack":1.5}`, "ack"},
		{transfer, `{"to":1}`, "to"},
	},
	"out of bounds": {
		{openSession, `{"ttl_ms":999}`, "ttl_ms"},
		{openSession, `{"ttl_ms":86400001}`, "ttl_ms"},
		{openSession, `{"ttl_ms":9223372036854775808}`, "ttl_ms"},
		{openSession, `{"name":"` + strings.Repeat("n", 129) + `"}`, "name"},
		{openSession, `{"meta":{` + manyPairs(17) + `}}`, "meta"},
		{keepalive, `{"wait_ms":600001}`, "wait_ms"},
		{keepalive, `{"wait_ms":-1}`, "wait_ms"},
		{keepalive, `{"ack":9007199254740992}`, "ack"},
		{lockA, ``, "session"},
		{lockA, `{"session":""}`, "session"},
		{lockA, `{"session":"$S","mode":"Exclusive"}`, "mode"},
		{lockA, `{"session":"$S","mode":"shared","limit":-1}`, "limit"},
		{lockA, `{"session":"$S","mode":"shared","limit":1000001}`, "limit"},
		{lockA, `{"session":"$S","limit":1}`, "limit"},
		{lockA, `{"session":"$S","wait_ms":600001}`, "wait_ms"},
		{lockA, `{"session":"$S","lock_delay_ms":60001}`, "lock_delay_ms"},
		{lockA, `{"session":"$S","handle":"` + strings.Repeat("h", 65) + `"}`, "handle"},
		{"DELETE /v1/locks/held?session=$S&handle=" + strings.Repeat("h", 65), ``, "handle"},
		{"DELETE /v1/locks/held?session=$S&handle=h&token=0", ``, "token"},
		{"DELETE /v1/locks/held?session=$S&handle=h&token=42x", ``, "token"},
		{"GET /v1/locks?limit=0", ``, "limit"},
		{"GET /v1/locks?limit=1001", ``, "limit"},
		{"GET /v1/sessions?limit=many", ``, "limit"},
		{transfer, `{"to":"nobody"}`, "to"},
	},
	"bad UTF-8": {
		{openSession, "{\"name\":\"\xff\"}", "name"},
		{openSession, `{"name":"\ud800"}`, "name"},
		{lockA, "{\"session\":\"$S\",\"handle\":\"\xc3\"}", "handle"},
		{"PUT /v1/locks/a%ff", goodLock, "path"},
		{"PUT /v1/locks/a\xff", goodLock, "path"},
		{"GET /v1/locks?prefix=%ff", ``, "prefix"},
		{"DELETE /v1/locks/held?session=$S&handle=%ff", ``, "handle"},
	},
	"bad paths": {
		{"PUT /v1/locks/", goodLock, "path"},
		{"PUT /v1/locks//a", goodLock, "path"},
		{"PUT /v1/locks/a/", goodLock, "path"},
		{"PUT /v1/locks/a//b", goodLock, "path"},
		{"PUT /v1/locks/.", goodLock, "path"},
		{"PUT /v1/locks/a/../b", goodLock, "path"},
		{"PUT /v1/locks/a/%2e%2E/b", goodLock, "path"},
		{"PUT /v1/locks/a%2F", goodLock, "path"},
		{"PUT /v1/locks/a%00b", goodLock, "path"},
		{"PUT /v1/locks/a%0Ab", goodLock, "path"},
		{"PUT /v1/locks/a%7f", goodLock, "path"},
		{"PUT /v1/locks/a%C2%85", goodLock, "path"},
		{"PUT /v1/locks" + strings.Repeat("/s", 33), goodLock, "path"},
		{"PUT /v1/locks/" + strings.Repeat("x", 256), goodLock, "path"},
		{"PUT /v1/locks" + strings.Repeat("/"+strings.Repeat("x", 204), 5), goodLock, "path"}, // 1025 bytes
		{"GET /v1/locks/a/../held", ``, "path"},
		{"DELETE /v1/locks/a/../held?session=$S&handle=h", ``, "path"},
		{"POST /v1/sessions/a%2Fb/keepalive", ``, "id"},
	},
	"malformed requests": {
		{"PUT /v1/locks/a%", goodLock, "request"},
		{"PUT /v1/locks/a%zz", goodLock, "request"},
		{"PUT /v1/locks/a\x01", goodLock, "request"},
		{"PUT /v1/locks/a b", goodLock, "request"},
	},
	"query parameters": {
		{"PUT /v1/locks/a?queue=true", goodLock, "queue"},
		{"POST /v1/sessions?ttl_ms=5000", ``, "ttl_ms"},
		{"POST /v1/sessions/$S/keepalive?wait_ms=5", ``, "wait_ms"},
		{"DELETE /v1/sessions/$S?force=1", ``, "force"},
		{"DELETE /v1/locks/held?session=$S&handle=h&tokn=1", ``, "tokn"},
		{"DELETE /v1/locks/held?session=$S&session=$S&handle=h", ``, "session"},
		{"DELETE /v1/locks/held?handle=h", ``, "session"},
		{"DELETE /v1/locks/held?session=$S&handle=%zz", ``, "handle"},
		{"GET /v1/locks/held?consistency=strong", ``, "consistency"},
		{"GET /v1/locks?perfix=/", ``, "perfix"},
		{"GET /v1/sequencers", ``, "value"},
		{"GET /v1/sequencers?value=exclusive:042:/held", ``, "value"},
		{"GET /v1/cell?verbose=1", ``, "verbose"},
		{"POST /v1/cell/transfer?to=r2", ``, "to"},
	},
}

// refused are the other refusals.
var refused = []badInput{
	{openSession, strings.Repeat(" ", lockapi.MaxBodyBytes+1), 413, lockapi.CodeTooLarge, ""},
	{lockA, goodLock + strings.Repeat(" ", lockapi.MaxBodyBytes), 413, lockapi.CodeTooLarge, ""},
	{"DELETE /v1/sessions/$S", strings.Repeat("x", lockapi.MaxBodyBytes+1), 413, lockapi.CodeTooLarge, ""},
	{"PATCH /v1/locks/held", ``, 405, lockapi.CodeMethodNotAllowed, ""},
	{"DELETE /v1/sessions", ``, 405, lockapi.CodeMethodNotAllowed, ""},
	{"POST /v1/nowhere", ``, 404, lockapi.CodeNotFound, ""},
	{"GET /v2/locks/held", ``, 404, lockapi.CodeNotFound, ""},
	{"PUT /v1/locks/a", `{"session":"nobody"}`, 404, lockapi.CodeSessionNotFound, ""},
	{"POST /v1/sessions/nobody/keepalive", ``, 404, lockapi.CodeSessionNotFound, ""},
	{"GET /v1/sessions/nobody", ``, 404, lockapi.CodeSessionNotFound, ""},
	{"DELETE /v1/locks/held?session=nobody&handle=h", ``, 404, lockapi.CodeSessionNotFound, ""},
	{"PUT /v1/locks/held", `{"session":"$S"}`, 423, lockapi.CodeLockHeld, ""}, // another handle is another holder
	{"PUT /v1/locks/held", `{"session":"$S","handle":"h","mode":"shared"}`, 409, lockapi.CodeConflict, ""},
}

func manyPairs(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	return strings.Join(pairs, ",")
}

// TestBadInput sends what is wrong to the master and to a replica that
// forwards. Each answer is a problem document with the right code and headers,
// and nothing changes.
func TestBadInput(t *testing.T) {
	t.Parallel()
	_, master, follower := start(t)
	var session lockapi.Session
	_, err := master.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 600_000, Name: "holder"}, &session)
	must(t, err)
	lock := lockapi.NewLockRequest(session.ID)
	lock.Handle = "h"
	var grant lockapi.Grant
	_, err = follower.Call(cell.Bounded(t), http.MethodPut, lockapi.RouteLocks+"/held", lock, &grant)
	must(t, err)

	before := everything(t, master)
	for _, r := range []*cell.Replica{master, follower} {
		role := "through the follower"
		if r == master {
			role = "at the master"
		}
		t.Run(role, func(t *testing.T) {
			check := func(b badInput) { b.check(t, r, master, session) }
			for kind, rows := range invalid {
				t.Run(kind, func(t *testing.T) {
					for _, row := range rows {
						badInput{row[0], row[1], 400, lockapi.CodeInvalidArgument, row[2]}.check(t, r, master, session)
					}
				})
			}
			for _, b := range refused {
				check(b)
			}
			releasesOfNothing(t, r, session.ID, grant.Token)
		})
		if after := everything(t, master); after != before {
			t.Fatalf("%s the state changed from\n%s\nto\n%s", role, before, after)
		}
	}
}

// check sends one request and holds the answer against what is expected.
func (b badInput) check(t *testing.T, r, master *cell.Replica, session lockapi.Session) {
	t.Helper()
	fill := strings.NewReplacer("$S", session.ID)
	body := fill.Replace(b.body)
	got := exchange(t, r, fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", fill.Replace(b.call), len(body), body))
	name := fmt.Sprintf("%.80q %.60q", b.call, b.body)
	if got.status != b.status || got.problem.Code != b.code || got.problem.Field != b.field {
		t.Errorf("%s: %d %q field %q, want %d %q field %q: %s", name,
			got.status, got.problem.Code, got.problem.Field, b.status, b.code, b.field, got.body)
	}
	if got.problem.Detail == "" {
		t.Errorf("%s: no detail: %s", name, got.body)
	}
	if epoch := got.header.Get(lockapi.HeaderEpoch); epoch != fmt.Sprint(session.Epoch) {
		t.Errorf("%s: %s is %q, want %d", name, lockapi.HeaderEpoch, epoch, session.Epoch)
	}
	if url := got.header.Get(lockapi.HeaderMaster); url != master.URL {
		t.Errorf("%s: %s is %q, want %q", name, lockapi.HeaderMaster, url, master.URL)
	}
	if allow := got.header.Get("Allow"); (allow != "") != (b.status == http.StatusMethodNotAllowed) {
		t.Errorf("%s: %d with Allow %q", name, b.status, allow)
	}
}

// releasesOfNothing: a foreign handle's release, and one with an old token,
// find nothing to release.
func releasesOfNothing(t *testing.T, r *cell.Replica, session string, token uint64) {
	t.Helper()
	for _, query := range []string{
		url.Values{"session": {session}, "handle": {"another"}}.Encode(),
		url.Values{"session": {session}}.Encode(),
		url.Values{"session": {session}, "handle": {"h"}, "token": {fmt.Sprint(token + 1)}}.Encode(),
	} {
		var got lockapi.Released
		status, err := r.Call(cell.Bounded(t), http.MethodDelete, lockapi.RouteLocks+"/held?"+query, nil, &got)
		if err != nil || status != http.StatusOK || got.Released {
			t.Errorf("release with %s: %d %v, released %v", query, status, err, got.Released)
		}
	}
}

// everything is the text of all locks and sessions.
func everything(t *testing.T, master *cell.Replica) string {
	t.Helper()
	var text strings.Builder
	for _, route := range []string{lockapi.RouteLocks, lockapi.RouteSessions + "?consistency=stale"} {
		got := exchange(t, master, "GET "+route+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", route, got.status, got.body)
		}
		text.WriteString(got.body + "\n")
	}
	return text.String()
}
