package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// raw sends bytes unchanged and reads one reply to a request with the method.
func raw(t *testing.T, n *node, method, request string) reply {
	t.Helper()
	c, err := net.Dial("tcp", n.addr)
	must(t, err)
	defer c.Close()
	must(t, second(c.Write([]byte(request))))
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return readReply(t, resp)
}

// line sends a request with exactly this target, and a body.
func line(t *testing.T, n *node, method, target, body string) reply {
	t.Helper()
	return raw(t, n, method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body))
}

const (
	sessions = "POST /v1/sessions"
	alive    = "POST /v1/sessions/s1/keepalive"
	lockA    = "PUT /v1/locks/a"
)

func TestBadBodies(t *testing.T) {
	pairs := strings.TrimSuffix(strings.Repeat(`"k%d":"v",`, 17), ",")
	keys := make([]any, 17)
	for i := range keys {
		keys[i] = i
	}
	for _, c := range []struct{ call, body, field string }{
		{sessions, `{`, "body"},
		{sessions, `nope`, "body"},
		{sessions, ` `, "body"},
		{sessions, `[]`, "body"},
		{sessions, `null`, "body"},
		{sessions, `"ttl_ms"`, "body"},
		{sessions, `12`, "body"},
		{sessions, `{"ttl_ms":12000`, "body"},
		{sessions, `{"ttl_ms":12000,}`, "body"},
		{sessions, `{ttl_ms:12000}`, "body"},
		{sessions, `{"name":"a"} x`, "body"},
		{sessions, `{"name":"a"}{}`, "body"},
		{sessions, `{}]`, "body"},
		{sessions, "\xef\xbb\xbf{}", "body"},
		{sessions, `{"ttl":12000}`, "ttl"},
		{sessions, `{"TTL_MS":12000}`, "TTL_MS"},
		{sessions, `{"ttl_ms ":12000}`, "ttl_ms "},
		{sessions, `{"Name":"x"}`, "Name"},
		{sessions, `{"ttl_ms":null}`, "ttl_ms"},
		{sessions, `{"meta":null}`, "meta"},
		{sessions, `{"meta":{"a":null}}`, "meta"},
		{sessions, `{"ttl_ms":"12000"}`, "ttl_ms"},
		{sessions, `{"ttl_ms":true}`, "ttl_ms"},
		{sessions, `{"ttl_ms":[1]}`, "ttl_ms"},
		{sessions, `{"ttl_ms":12000.5}`, "ttl_ms"},
		{sessions, `{"ttl_ms":1e999}`, "ttl_ms"},
		{sessions, `{"ttl_ms":9223372036854775808}`, "ttl_ms"},
		{sessions, `{"ttl_ms":0}`, "ttl_ms"},
		{sessions, `{"ttl_ms":-1}`, "ttl_ms"},
		{sessions, `{"ttl_ms":999}`, "ttl_ms"},
		{sessions, `{"ttl_ms":86400001}`, "ttl_ms"},
		{sessions, `{"ttl_ms":12000,"ttl_ms":12000}`, "ttl_ms"},
		{sessions, `{"meta":{"a":"x","a":"y"}}`, "meta"},
		{sessions, `{"name":7}`, "name"},
		{sessions, `{"name":"` + strings.Repeat("n", 129) + `"}`, "name"},
		{sessions, `{"name":"\ud800"}`, "name"},
		{sessions, `{"name":"\q"}`, "name"},
		{sessions, "{\"name\":\"\xff\"}", "name"},
		{sessions, "{\"name\":\"a\nb\"}", "name"},
		{sessions, `{"meta":[]}`, "meta"},
		{sessions, `{"meta":"x"}`, "meta"},
		{sessions, `{"meta":{"a":1}}`, "meta"},
		{sessions, `{"meta":{` + fmt.Sprintf(pairs, keys...) + `}}`, "meta"},
		{sessions, strings.Repeat("[", 20000), "body"},
		{sessions, `{"meta":` + strings.Repeat(`{"a":`, 9000) + `1`, "meta"},
		{alive, `{"wait_ms":-1}`, "wait_ms"},
		{alive, `{"wait_ms":600001}`, "wait_ms"},
		{alive, `{"wait":1}`, "wait"},
		{alive, `{"ack":-1}`, "ack"},
		{alive, `{"ack":9007199254740992}`, "ack"},
		{alive, `{"ack":1.5}`, "ack"},
		{lockA, ``, "session"},
		{lockA, `{}`, "session"},
		{lockA, `{"session":""}`, "session"},
		{lockA, `{"session":1}`, "session"},
		{lockA, `{"session":"s","mode":"Exclusive"}`, "mode"},
		{lockA, `{"session":"s","mode":""}`, "mode"},
		{lockA, `{"session":"s","mode":null}`, "mode"},
		{lockA, `{"session":"s","limit":-1,"mode":"shared"}`, "limit"},
		{lockA, `{"session":"s","limit":1000001,"mode":"shared"}`, "limit"},
		{lockA, `{"session":"s","limit":1}`, "limit"},
		{lockA, `{"session":"s","wait_ms":600001}`, "wait_ms"},
		{lockA, `{"session":"s","lock_delay_ms":60001}`, "lock_delay_ms"},
		{lockA, `{"session":"s","queue":"true"}`, "queue"},
		{lockA, `{"session":"s","queue":1}`, "queue"},
		{lockA, `{"session":"s","handle":"` + strings.Repeat("h", 65) + `"}`, "handle"},
		{lockA, `{"session":"s","path":"/a"}`, "path"},
		{"POST /v1/cell/transfer", `{"to":1}`, "to"},
		{"POST /v1/cell/transfer", `{"from":"r1"}`, "from"},
	} {
		t.Run(c.call+" "+clip(c.body), func(t *testing.T) {
			n := startMaster(t, nil)
			method, target, _ := strings.Cut(c.call, " ")
			got := line(t, n, method, target, c.body)
			if e := got.wantCode(t, lockapi.CodeInvalidArgument); e.Field != c.field {
				t.Errorf("field %q, want %q: %s", e.Field, c.field, got.body)
			}
			if len(got.body) > 2000 {
				t.Errorf("the problem has %d bytes", len(got.body))
			}
			if calls := n.made(); len(calls) > 0 {
				t.Errorf("the call went on to the master: %q", calls)
			}
		})
	}
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40]
	}
	return s
}

func TestBadPathsAndParameters(t *testing.T) {
	segments := strings.Repeat("/s", 33)
	long := strings.Repeat("/"+strings.Repeat("x", 204), 5) // 1025 bytes
	for _, c := range []struct{ method, target, field string }{
		{"GET", "/v1/locks/", "path"},
		{"GET", "/v1/locks//a", "path"},
		{"GET", "/v1/locks/a//b", "path"},
		{"GET", "/v1/locks/a/", "path"},
		{"GET", "/v1/locks/.", "path"},
		{"GET", "/v1/locks/a/..", "path"},
		{"GET", "/v1/locks/../sessions", "path"},
		{"GET", "/v1/locks/a/%2e%2E/b", "path"},
		{"GET", "/v1/locks/a%2F%2Fb", "path"},
		{"GET", "/v1/locks/%2fb", "path"},
		{"GET", "/v1/locks/a%2F|c/", "path"},
		{"GET", "/v1/locks/a%2F..%2F\u00e9", "path"},
		{"GET", "/v1/locks/a%00b", "path"},
		{"GET", "/v1/locks/a%0Ab", "path"},
		{"GET", "/v1/locks/a%7F", "path"},
		{"GET", "/v1/locks/a%C2%85b", "path"}, // U+0085
		{"GET", "/v1/locks/a\u0085b", "path"},
		{"GET", "/v1/locks/a%FFb", "path"},
		{"GET", "/v1/locks/a\xffb", "path"},
		{"GET", "/v1/locks/%ED%A0%80", "path"},
		{"GET", "/v1/locks" + segments, "path"},
		{"GET", "/v1/locks" + long, "path"},
		{"GET", "/v1/locks/" + strings.Repeat("x", 256), "path"},
		{"PUT", "/v1/locks/a%2F", "path"},
		{"DELETE", "/v1/locks/..?session=s", "path"},
		{"GET", "/v1/locks/a%", "request"},
		{"GET", "/v1/locks/a%2", "request"},
		{"GET", "/v1/locks/a%zz", "request"},
		{"GET", "/v1/sessions/%", "request"},
		{"GET", "/v1/sessions/a%2Fb", "id"},
		{"GET", "/v1/sessions/%ff", "id"},
		{"DELETE", "/v1/sessions/a%2Fb", "id"},
		{"POST", "/v1/sessions/a%2Fb/keepalive", "id"},
		{"POST", "/v1/sessions//keepalive", "id"},

		{"GET", "/v1/locks?limit=0", "limit"},
		{"GET", "/v1/locks?limit=1001", "limit"},
		{"GET", "/v1/locks?limit=", "limit"},
		{"GET", "/v1/locks?limit", "limit"},
		{"GET", "/v1/locks?limit=+5", "limit"},
		{"GET", "/v1/locks?limit=05", "limit"},
		{"GET", "/v1/locks?limit=1e2", "limit"},
		{"GET", "/v1/locks?limit=99999999999999999999", "limit"},
		{"GET", "/v1/locks?limit=5&limit=5", "limit"},
		{"GET", "/v1/locks?Limit=5", "Limit"},
		{"GET", "/v1/locks?perfix=/a", "perfix"},
		{"GET", "/v1/locks?prefix=%zz", "prefix"},
		{"GET", "/v1/locks?prefix=%ff", "prefix"},
		{"GET", "/v1/locks?prefix=foo", "prefix"},
		{"GET", "/v1/locks?prefix=db/&after=/db/x", "prefix"},
		{"GET", "/v1/locks?prefix=a;limit=5", "prefix"},
		{"GET", "/v1/locks?a;b=1", "query"},
		{"GET", "/v1/locks?%zz=1", "query"},
		{"GET", "/v1/locks?=1", "query"},
		{"GET", "/v1/locks?consistency=", "consistency"},
		{"GET", "/v1/locks?consistency=Stale", "consistency"},
		{"GET", "/v1/locks/a?consistency=strong", "consistency"},
		{"GET", "/v1/locks/a?limit=5", "limit"},
		{"GET", "/v1/locks/a?waiters=", "waiters"},
		{"GET", "/v1/locks/a?waiters=-1", "waiters"},
		{"GET", "/v1/locks/a?waiters=00", "waiters"},
		{"GET", "/v1/locks/a?waiters=+1", "waiters"},
		{"GET", "/v1/locks/a?waiters=1001", "waiters"},
		{"GET", "/v1/locks/a?waiters=true", "waiters"},
		{"GET", "/v1/locks?waiters=5", "waiters"},
		{"GET", "/v1/sessions?limit=-1", "limit"},
		{"GET", "/v1/sessions?prefix=a", "prefix"},
		{"GET", "/v1/sessions/s1?x=1", "x"},
		{"POST", "/v1/sessions?ttl_ms=5", "ttl_ms"},
		{"POST", "/v1/sessions/s1/keepalive?wait_ms=5", "wait_ms"},
		{"PUT", "/v1/locks/a?session=s", "session"},
		{"PUT", "/v1/locks/a?consistency=stale", "consistency"},
		{"DELETE", "/v1/locks/a", "session"},
		{"DELETE", "/v1/locks/a?session=", "session"},
		{"DELETE", "/v1/locks/a?session=s&token=", "token"},
		{"DELETE", "/v1/locks/a?session=s&token=0", "token"},
		{"DELETE", "/v1/locks/a?session=s&token=-1", "token"},
		{"DELETE", "/v1/locks/a?session=s&token=9007199254740992", "token"},
		{"DELETE", "/v1/locks/a?session=s&token=42x", "token"},
		{"DELETE", "/v1/locks/a?session=s&consistency=stale", "consistency"},
		{"DELETE", "/v1/locks/a?session=s&handle=" + strings.Repeat("h", 65), "handle"},
		{"DELETE", "/v1/sessions/s1?force=1", "force"},
		{"GET", "/v1/sequencers", "value"},
		{"GET", "/v1/sequencers?value=", "value"},
		{"GET", "/v1/sequencers?value=exclusive:42", "value"},
		{"GET", "/v1/sequencers?value=exclusive:042:/a", "value"},
		{"GET", "/v1/sequencers?value=exclusive:0:/a", "value"},
		{"GET", "/v1/sequencers?value=shard:42:/a", "value"},
		{"GET", "/v1/sequencers?value=exclusive:42:/a/..", "value"},
		{"GET", "/v1/cell?x=1", "x"},
		{"POST", "/v1/cell/transfer?to=r1", "to"},
		{"GET", "/v1/replica?x=1", "x"},
		{"GET", "/v1/members?x=1", "x"},
		{"GET", "/v1/members?consistency=best", "consistency"},
		{"POST", "/v1/members/r1/replace?force=1", "force"},
		{"POST", "/v1/members?force=true", "force"},
		{"POST", "/v1/members", "id"},
		{"PATCH", "/v1/members/r1", "raft_addr"},
		{"DELETE", "/v1/members/r1?force=1", "force"},
		{"DELETE", "/v1/members/r1?x=1", "x"},
		{"DELETE", "/v1/members/r1?directory=", "directory"},
		{"DELETE", "/v1/members/r1?directory=0123", "directory"},
		{"GET", "/v1/join", "cell"},
		{"POST", "/v1/members/r1/replace?force=", "force"},
		{"POST", "/v1/members/r1/replace?consistency=stale", "consistency"},
		{"POST", "/v1/members/r1/replace", "directory"},
		{"POST", "/v1/members//replace", "id"},
		{"GET", "/v1/openapi.yaml?x=1", "x"},
		{"GET", "/livez?x=1", "x"},
		{"GET", "/readyz?x=1", "x"},
		{"GET", "/metrics?x=1", "x"},
	} {
		t.Run(c.method+" "+clip(c.target), func(t *testing.T) {
			n := startMaster(t, nil)
			got := line(t, n, c.method, c.target, "")
			if e := got.wantCode(t, lockapi.CodeInvalidArgument); e.Field != c.field {
				t.Errorf("field %q, want %q: %s", e.Field, c.field, got.body)
			}
			if calls := n.made(); len(calls) > 0 {
				t.Errorf("the call went on to the master: %q", calls)
			}
		})
	}
}

func TestBadHeaders(t *testing.T) {
	n := startMaster(t, nil)
	for _, c := range []struct{ header, field string }{
		{"Idempotency-Key: " + strings.Repeat("k", 129), "Idempotency-Key"},
		{"Idempotency-Key: \xff", "Idempotency-Key"},
		{"Idempotency-Key: a\r\nIdempotency-Key: b", "Idempotency-Key"},
		{"Stout-Forward: always", "Stout-Forward"},
		{"Stout-Forward: never\r\nStout-Forward: never", "Stout-Forward"},
		{"Bad Header: x", "request"},
		{"X: a\x00b", "request"},
	} {
		got := raw(t, n, "POST", "POST /v1/sessions HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n\r\n")
		if e := got.wantCode(t, lockapi.CodeInvalidArgument); e.Field != c.field {
			t.Errorf("%q: field %q, want %q: %s", c.header, e.Field, c.field, got.body)
		}
	}
	if calls := n.made(); len(calls) > 0 {
		t.Errorf("calls went on to the master: %q", calls)
	}
}

// Unusual but valid input reaches the master unchanged.
func TestUnusualInput(t *testing.T) {
	n := startMaster(t, nil)
	longest := strings.TrimSuffix(strings.Repeat("/"+strings.Repeat("x", 203), 5), "xxxx") + "xxxx" // 1020 bytes
	for _, c := range []struct{ method, target, body, made string }{
		{"GET", "/v1/locks/a%20b/c", "", "GetLock Path=/a b/c"},
		{"GET", "/v1/locks/%61%25", "", "GetLock Path=/a%"},
		{"GET", "/v1/locks/a%252Fb", "", "GetLock Path=/a%2Fb"},
		{"GET", "/v1/locks/a%2Fb%2fc/d", "", "GetLock Path=/a/b/c/d"},
		{"GET", "/v1/locks/a+b", "", "GetLock Path=/a+b"},
		{"GET", "/v1/locks/caf%C3%A9", "", "GetLock Path=/café"},
		{"GET", "/v1/locks/a?waiters=0", "", "GetLock Path=/a"},
		{"GET", "/v1/locks/a?waiters=1000&consistency=linearizable", "", "GetLock Path=/a Waiters=1000"},
		{"GET", "/v1/locks/caf\u00e9|", "", "GetLock Path=/café|"},
		{"GET", "/v1/locks/...", "", "GetLock Path=/..."},
		{"GET", "/v1/locks/a:b@c;d=e,f", "", "GetLock Path=/a:b@c;d=e,f"},
		{"GET", "/v1/locks" + longest, "", "GetLock Path=" + longest},
		{"GET", "/v1/locks" + strings.Repeat("/s", 32), "", "GetLock Path=" + strings.Repeat("/s", 32)},
		{"GET", "/v1/locks?", "", "ListLocks Limit=100"},
		{"GET", "/v1/locks?prefix=/d%20b+c&after=%2Fx&limit=1000&", "", "ListLocks Prefix=/d b c After=/x Limit=1000"},
		{"GET", "/v1/sessions?after=s%31", "", "ListSessions After=s1 Limit=100"},
		{"GET", "/v1/sessions/a%20b", "", "GetSession Session=a b"},
		{"GET", "/v1/sequencers?value=exclusive:42:/db/migrate", "", "CheckSequencer Mode=exclusive Token=42 Path=/db/migrate"},
		{"DELETE", "/v1/locks/a?session=s&handle=h%26&token=9007199254740991", "", "ReleaseLock Path=/a Session=s Handle=h& Token=9007199254740991"},
		{"DELETE", "/v1/locks/a?session=s", `{"ignored":1}`, "ReleaseLock Path=/a Session=s"},
		{"POST", "/v1/sessions", ``, "OpenSession TTLMS=12000"},
		{"POST", "/v1/sessions", ` { "ttl_ms" : 1000 , "meta" : { } } ` + "\n", "OpenSession TTLMS=1000"},
		{"POST", "/v1/sessions", `{"name":"` + strings.Repeat("n", 128) + `","meta":{"":""}}`, "OpenSession TTLMS=12000 Name=" + strings.Repeat("n", 128) + " Meta=map[:]"},
		{"POST", "/v1/cell/transfer", `{"to":"r2"}`, "TransferMastership To=r2"},
		{"POST", "/v1/cell/transfer", ``, "TransferMastership"},
		{"GET", "/v1/members", "", "ListMembers"},
		{"POST", "/v1/members/r1/replace", `{"directory":"0123456789abcdef"}`, "ReplaceMember ID=r1 Directory=0123456789abcdef"},
		{"POST", "/v1/members", `{"id":"r4","directory":"0123456789abcdef","raft_addr":"h:1","url":"http://h:2"}`, "AddMember ID=r4 Directory=0123456789abcdef RaftAddr=h:1 URL=http://h:2"},
		{"POST", "/v1/members", `{"id":"r4","directory":"0123456789abcdef","raft_addr":"[::1]:1","url":"https://h","suffrage":"nonvoter"}`, "AddMember ID=r4 Directory=0123456789abcdef RaftAddr=[::1]:1 URL=https://h Suffrage=nonvoter"},
		{"PATCH", "/v1/members/r4?force=true", `{"suffrage":"nonvoter"}`, "SetMember ID=r4 Suffrage=nonvoter Force=true"},
		{"PATCH", "/v1/members/r4", `{"raft_addr":"h:1","url":"http://h:2"}`, "SetMember ID=r4 RaftAddr=h:1 URL=http://h:2"},
		{"DELETE", "/v1/members/r4", "", "RemoveMember ID=r4"},
		{"DELETE", "/v1/members/r4?force=true", "", "RemoveMember ID=r4 Force=true"},
		{"DELETE", "/v1/members/r4?directory=0123456789abcdef", "", "RemoveMember ID=r4 Directory=0123456789abcdef"},
		{"POST", "/v1/members/r1/replace", `{"directory":"0123456789abcdef","in_place_of":"00000000000000aa"}`, "ReplaceMember ID=r1 Directory=0123456789abcdef InPlaceOf=00000000000000aa"},
		{"POST", "/v1/members/%72.1/replace?force=true", `{"directory":"0123456789abcdef"}`, "ReplaceMember ID=r.1 Directory=0123456789abcdef Force=true"},
		{"POST", "/v1/members/r1/replace?force=false", `{"directory":"0123456789abcdef"}`, "ReplaceMember ID=r1 Directory=0123456789abcdef"},
	} {
		n.forget()
		got := line(t, n, c.method, c.target, c.body)
		if calls := n.made(); len(calls) != 1 || calls[0] != c.made {
			t.Errorf("%s %s: made %q, want %q; answer %d %s", c.method, c.target, calls, c.made, got.status, got.body)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	body := func(size int) string {
		const frame = `{"name":"x"}`
		return frame + strings.Repeat(" ", size-len(frame))
	}
	chunked := func(body string) string {
		return fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	n := startMaster(t, nil)
	line(t, n, "POST", "/v1/sessions", body(lockapi.MaxBodyBytes)).wantStatus(t, 201)
	raw(t, n, "POST", chunked(body(lockapi.MaxBodyBytes))).wantStatus(t, 201)
	raw(t, n, "POST", chunked("")[:len(chunked(""))-len("0\r\n\r\n")]).wantStatus(t, 201)
	line(t, n, "POST", "/v1/sessions", body(lockapi.MaxBodyBytes+1)).wantCode(t, lockapi.CodeTooLarge)
	raw(t, n, "POST", chunked(body(lockapi.MaxBodyBytes+1))).wantCode(t, lockapi.CodeTooLarge)
	line(t, n, "DELETE", "/v1/sessions/s1", body(lockapi.MaxBodyBytes+1)).wantCode(t, lockapi.CodeTooLarge)

	// The size is refused before the body arrives.
	const announced = "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n"
	raw(t, n, "POST", announced+"\r\n").wantCode(t, lockapi.CodeTooLarge)
	raw(t, n, "POST", announced+"Expect: 100-continue\r\n\r\n").wantCode(t, lockapi.CodeTooLarge)
	raw(t, n, "POST", "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").wantCode(t, lockapi.CodeInvalidArgument)
}
