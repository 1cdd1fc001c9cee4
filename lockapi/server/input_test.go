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

// refusals are calls with one violation of the contract each, and the field that
// the answer names. A call is the common beginning and a rest: a method, a target,
// and then either a space and a body or a line feed and headers.
type refusals struct {
	field, begin string
	rest         []string // nil for the beginning alone
}

// refuse checks that each replica refuses each call, before it has any effect.
func refuse(t *testing.T, table []refusals, nodes ...*node) {
	t.Helper()
	for _, c := range table {
		if c.rest == nil {
			c.rest = []string{""}
		}
		for _, rest := range c.rest {
			method, target, _ := strings.Cut(c.begin+rest, " ")
			headers, body := "", ""
			if i := strings.IndexAny(target, " \n"); i >= 0 && target[i] == ' ' {
				target, body = target[:i], target[i+1:]
			} else if i >= 0 {
				target, headers = target[:i], target[i+1:]+"\r\n"
			}
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", method, target, len(body), headers, body)
			for _, n := range nodes {
				got := raw(t, n, method, request)
				if got.status != http.StatusBadRequest {
					t.Errorf("%s of %s: %d %.300s", clip(c.begin+rest), n.id, got.status, got.body)
				} else if e := got.wantCode(t, lockapi.CodeInvalidArgument); e.Field != c.field || len(got.body) > 2000 {
					t.Errorf("%s of %s: field %q, want %q: %.2000s", clip(c.begin+rest), n.id, e.Field, c.field, got.body)
				}
			}
		}
	}
	for _, n := range nodes {
		if calls := n.made(); len(calls) > 0 {
			t.Errorf("calls went on to %s: %q", n.id, calls)
		}
	}
}

// TestBadBodies, and TestBadPathsAndParameters: see refusals.
func TestBadBodies(t *testing.T) {
	pairs := strings.TrimSuffix(strings.Repeat(`"k%d":"v",`, 17), ",")
	keys := make([]any, 17)
	for i := range keys {
		keys[i] = i
	}
	refuse(t, []refusals{
		{"body", "POST /v1/sessions ", []string{
			"{", "nope", " ", "[]", "null", `"ttl_ms"`, "12", `{"ttl_ms":12000`, `{"ttl_ms":12000,}`,
			"{ttl_ms:12000}", `{"name":"a"} x`, `{"name":"a"}{}`, "{}]", "\xef\xbb\xbf{}",
		}},
		{"ttl", `POST /v1/sessions {"ttl":12000}`, nil},
		{"TTL_MS", `POST /v1/sessions {"TTL_MS":12000}`, nil},
		{"ttl_ms ", `POST /v1/sessions {"ttl_ms ":12000}`, nil},
		{"Name", `POST /v1/sessions {"Name":"x"}`, nil},
		{"ttl_ms", `POST /v1/sessions {"ttl_ms":null}`, nil},
		{"meta", "POST /v1/sessions ", []string{`{"meta":null}`, `{"meta":{"a":null}}`}},
		{"ttl_ms", "POST /v1/sessions ", []string{
			`{"ttl_ms":"12000"}`, `{"ttl_ms":true}`, `{"ttl_ms":[1]}`, `{"ttl_ms":12000.5}`, `{"ttl_ms":1e999}`,
			`{"ttl_ms":9223372036854775808}`, `{"ttl_ms":0}`, `{"ttl_ms":-1}`, `{"ttl_ms":999}`,
			`{"ttl_ms":86400001}`, `{"ttl_ms":12000,"ttl_ms":12000}`,
		}},
		{"meta", `POST /v1/sessions {"meta":{"a":"x","a":"y"}}`, nil},
		{"name", "POST /v1/sessions ", []string{
			`{"name":7}`, `{"name":"` + strings.Repeat("n", 129) + `"}`, `{"name":"\ud800"}`, `{"name":"\q"}`,
			"{\"name\":\"\xff\"}", "{\"name\":\"a\nb\"}",
		}},
		{"meta", "POST /v1/sessions ", []string{
			`{"meta":[]}`, `{"meta":"x"}`, `{"meta":{"a":1}}`, `{"meta":{` + fmt.Sprintf(pairs, keys...) + "}}",
		}},
		{"body", "POST /v1/sessions " + strings.Repeat("[", 20000), nil},
		{"meta", `POST /v1/sessions {"meta":` + strings.Repeat(`{"a":`, 9000) + "1", nil},
		{"wait_ms", "POST /v1/sessions/s1/keepalive ", []string{`{"wait_ms":-1}`, `{"wait_ms":600001}`}},
		{"wait", `POST /v1/sessions/s1/keepalive {"wait":1}`, nil},
		{"ack", "POST /v1/sessions/s1/keepalive ", []string{
			`{"ack":-1}`, `{"ack":9007199254740992}`, `{"ack":1.5}`,
		}},
		{"session", "PUT /v1/locks/a ", []string{"", "{}", `{"session":""}`, `{"session":1}`}},
		{"mode", "PUT /v1/locks/a ", []string{
			`{"session":"s","mode":"Exclusive"}`, `{"session":"s","mode":""}`, `{"session":"s","mode":null}`,
		}},
		{"limit", "PUT /v1/locks/a ", []string{
			`{"session":"s","limit":-1,"mode":"shared"}`, `{"session":"s","limit":1000001,"mode":"shared"}`,
			`{"session":"s","limit":1}`,
		}},
		{"wait_ms", `PUT /v1/locks/a {"session":"s","wait_ms":600001}`, nil},
		{"lock_delay_ms", `PUT /v1/locks/a {"session":"s","lock_delay_ms":60001}`, nil},
		{"queue", "PUT /v1/locks/a ", []string{`{"session":"s","queue":"true"}`, `{"session":"s","queue":1}`}},
		{"handle", `PUT /v1/locks/a {"session":"s","handle":"` + strings.Repeat("h", 65) + `"}`, nil},
		{"path", `PUT /v1/locks/a {"session":"s","path":"/a"}`, nil},
		{"to", `POST /v1/cell/transfer {"to":1}`, nil},
		{"from", `POST /v1/cell/transfer {"from":"r1"}`, nil},
	}, startMaster(t, nil))
}

func clip(s string) string { return s[:min(len(s), 60)] }

func TestBadPathsAndParameters(t *testing.T) {
	segments := strings.Repeat("/s", 33)
	long := strings.Repeat("/"+strings.Repeat("x", 204), 5) // 1025 bytes
	refuse(t, []refusals{
		{"path", "GET /v1/locks/", []string{
			"", "/a", "a//b", "a/", ".", "a/..", "../sessions", "a/%2e%2E/b", "a%2F%2Fb", "%2fb", "a%2F|c/",
			"a%2F..%2F\u00e9", "a%00b", "a%0Ab", "a%7F", "a%C2%85b", "a\u0085b", "a%FFb", "a\xffb", "%ED%A0%80",
		}},
		{"path", "GET /v1/locks" + segments, nil},
		{"path", "GET /v1/locks" + long, nil},
		{"path", "GET /v1/locks/" + strings.Repeat("x", 256), nil},
		{"path", "PUT /v1/locks/a%2F", nil},
		{"path", "DELETE /v1/locks/..?session=s", nil},
		{"request", "GET /v1/locks/", []string{"a%", "a%2", "a%zz"}},
		{"request", "GET /v1/sessions/%", nil},
		{"id", "GET /v1/sessions/", []string{"a%2Fb", "%ff"}},
		{"id", "DELETE /v1/sessions/a%2Fb", nil},
		{"id", "POST /v1/sessions/", []string{"a%2Fb/keepalive", "/keepalive"}},
		{"limit", "GET /v1/locks?", []string{
			"limit=0", "limit=1001", "limit=", "limit", "limit=+5", "limit=05", "limit=1e2",
			"limit=99999999999999999999", "limit=5&limit=5",
		}},
		{"Limit", "GET /v1/locks?Limit=5", nil},
		{"perfix", "GET /v1/locks?perfix=/a", nil},
		{"prefix", "GET /v1/locks?prefix=", []string{"%zz", "%ff", "foo", "db/&after=/db/x", "a;limit=5"}},
		{"query", "GET /v1/locks?", []string{"a;b=1", "%zz=1", "=1"}},
		{"consistency", "GET /v1/locks?consistency=", []string{"", "Stale"}},
		{"consistency", "GET /v1/locks/a?consistency=strong", nil},
		{"limit", "GET /v1/locks/a?limit=5", nil},
		{"waiters", "GET /v1/locks/a?waiters=", []string{"", "-1", "00", "+1", "1001", "true"}},
		{"waiters", "GET /v1/locks?waiters=5", nil},
		{"limit", "GET /v1/sessions?limit=-1", nil},
		{"prefix", "GET /v1/sessions?prefix=a", nil},
		{"x", "GET /v1/sessions/s1?x=1", nil},
		{"ttl_ms", "POST /v1/sessions?ttl_ms=5", nil},
		{"wait_ms", "POST /v1/sessions/s1/keepalive?wait_ms=5", nil},
		{"session", "PUT /v1/locks/a?session=s", nil},
		{"consistency", "PUT /v1/locks/a?consistency=stale", nil},
		{"session", "DELETE /v1/locks/", []string{"a", "a?session="}},
		{"token", "DELETE /v1/locks/a?session=s&token=", []string{"", "0", "-1", "9007199254740992", "42x"}},
		{"consistency", "DELETE /v1/locks/a?session=s&consistency=stale", nil},
		{"handle", "DELETE /v1/locks/a?session=s&handle=" + strings.Repeat("h", 65), nil},
		{"force", "DELETE /v1/sessions/s1?force=1", nil},
		{"value", "GET /v1/sequencers", nil},
		{"value", "GET /v1/sequencers?value=", []string{
			"", "exclusive:42", "exclusive:042:/a", "exclusive:0:/a", "shard:42:/a", "exclusive:42:/a/..",
		}},
		{"x", "GET /v1/cell?x=1", nil},
		{"to", "POST /v1/cell/transfer?to=r1", nil},
		{"x", "GET /v1/replica?x=1", nil},
		{"x", "GET /v1/members?x=1", nil},
		{"consistency", "GET /v1/members?consistency=best", nil},
		{"force", "POST /v1/members/r1/replace?force=1", nil},
		{"force", "POST /v1/members?force=true", nil},
		{"id", "POST /v1/members", nil},
		{"raft_addr", "PATCH /v1/members/r1", nil},
		{"force", "DELETE /v1/members/r1?force=1", nil},
		{"x", "DELETE /v1/members/r1?x=1", nil},
		{"directory", "DELETE /v1/members/r1?directory=", []string{"", "0123"}},
		{"cell", "GET /v1/join", nil},
		{"force", "POST /v1/members/r1/replace?force=", nil},
		{"consistency", "POST /v1/members/r1/replace?consistency=stale", nil},
		{"directory", "POST /v1/members/r1/replace", nil},
		{"id", "POST /v1/members//replace", nil},
		{"x", "GET /v1/openapi.yaml?x=1", nil},
		{"x", "GET /livez?x=1", nil},
		{"x", "GET /readyz?x=1", nil},
		{"x", "GET /metrics?x=1", nil},
	}, startMaster(t, nil))
}

func TestBadHeaders(t *testing.T) {
	refuse(t, []refusals{
		{"Idempotency-Key", "POST /v1/sessions\nIdempotency-Key: ", []string{
			strings.Repeat("k", 129), "\xff", "a\r\nIdempotency-Key: b",
		}},
		{"Stout-Forward", "POST /v1/sessions\nStout-Forward: ", []string{
			"always", "never\r\nStout-Forward: never",
		}},
		{"request", "POST /v1/sessions\nBad Header: x", nil},
		{"request", "POST /v1/sessions\nX: a\x00b", nil},
	}, startMaster(t, nil))
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
