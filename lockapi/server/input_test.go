package server_test

import (
	"bufio"
	"encoding/base64"
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
		n.wantNoCalls(t)
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

// TestRefusedFileCalls: by the master and by a replica.
func TestRefusedFileCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	refuse(t, []refusals{
		{"path", "PUT /v1/files/", []string{
			"", "a/", "/a", "a%2F", "a/..", "a%0Ab", "a%FF", strings.Repeat("x", 256),
		}},
		{"path", "PUT /v1/files" + strings.Repeat("/s", 33), nil},
		{"path", "GET /v1/files/", nil},
		{"path", "DELETE /v1/files/a/", nil},
		{"path", "POST /v1/files/", []string{"/", "a//", "a%2F%2F", strings.Repeat("x", 240)}},
		{"path", "POST /v1/files" + strings.Repeat("/s", 32) + "/", nil},
		{"sesion", "PUT /v1/files/a?sesion=s1", nil},
		{"consistency", "PUT /v1/files/a?consistency=stale", nil},
		{"revision", "PUT /v1/files/a?revision=1", nil},
		{"as", "PUT /v1/files/a?as=", []string{"xml", ""}},
		{"content", "PUT /v1/files/a?content=", []string{"1", "", "true&content=true"}},
		{"as", "POST /v1/files/a?as=json", nil},
		{"content", "POST /v1/files/a?content=true", nil},
		{"content", "DELETE /v1/files/a?content=true", nil},
		{"session", "PUT /v1/files/a?session=", []string{"s1&session=s1", ""}},
		{"ephemeral", "PUT /v1/files/a?ephemeral=true", nil},
		{"session", "PUT /v1/files/a?ephemeral=true&session=", nil},
		{"ephemeral", "PUT /v1/files/a?ephemeral=", []string{
			"", "1&session=s1", "True&session=s1", "true&ephemeral=false&session=s1",
		}},
		{"sequencer", "PUT /v1/files/a?", []string{
			"sequencer=", "sequencer=42", "sequencer=exclusive:0:/l",
			"sequencer=exclusive:1:/l&sequencer=all:1:/l", "sequencer=exclusive:1:/l%00exclusive:2:/l",
			strings.Repeat("sequencer=exclusive:1:/l&", 9),
		}},
		{"ephemeral", "POST /v1/files/a?ephemeral=true", nil},
		{"sequential", "POST /v1/files/a?sequential=true", nil},
		{"as", "GET /v1/files/a?as=", []string{"", "xml"}},
		{"session", "GET /v1/files/a?session=s1", nil},
		{"prefix", "GET /v1/files/a?prefix=/", nil},
		{"consistency", "GET /v1/files/a?consistency=best", nil},
		{"content", "GET /v1/files/a?content=yes&as=json", nil},
		{"delimiter", "GET /v1/files?delimiter=", []string{"", "%2D", "//"}},
		{"content", "GET /v1/files?content=1", nil},
		{"limit", "GET /v1/files?limit=", []string{"0", "1001"}},
		{"as", "GET /v1/files?as=json", nil},
		{"prefix", "GET /v1/files?prefix=", []string{"foo", "foo/&content=true", "%20/a", "/a&prefix=/b"}},
		{"ephemeral", "DELETE /v1/files/a?ephemeral=false", nil},
		{"prefix", "DELETE /v1/files/a?prefix=/a/", nil},
		{"sequencer", "DELETE /v1/files/a?sequencer=x", nil},
		{"session", "DELETE /v1/files/a?session=", nil},
		{"prefix", "DELETE /v1/files", nil},
		{"prefix", "DELETE /v1/files?prefix=", []string{
			"", "/", "//", "/app", "app/", "/a/../", "/a/&prefix=/b/",
		}},
		{"limit", "DELETE /v1/files?prefix=/a/&limit=5", nil},
		{"If-Match", "PUT /v1/files/", []string{
			"a\nIf-Match: 57", "a\nIf-Match: \"x\"", "a\nIf-Match: \"\"", "a\nIf-Match:", "a\nIf-Match: *",
			"a\nIf-Match: \"-1\"", "a\nIf-Match: \"0\"", "a\nIf-Match: \"057\"", "a\nIf-Match: W/\"57\"",
			"a\nIf-Match: \"57\", \"58\"", "a\nIf-Match: \"9007199254740992\"",
			"a\nIf-Match: \"57\"\r\nIf-Match: \"57\"",
		}},
		{"If-None-Match", "PUT /v1/files/", []string{
			"a\nIf-None-Match: \"57\"", "a\nIf-None-Match:", "a\nIf-None-Match: *\r\nIf-None-Match: *",
			"a\nIf-Match: \"57\"\r\nIf-None-Match: *",
		}},
		{"Idempotency-Key", "PUT /v1/files/", []string{
			"a\nIdempotency-Key: k", "a?session=s1\nIdempotency-Key: " + strings.Repeat("k", 129),
			"a?session=s1\nIdempotency-Key: k\r\nIdempotency-Key: k", "a?session=s1\nIdempotency-Key:",
		}},
		{"Stout-Forward", "PUT /v1/files/a\nStout-Forward: always", nil},
		{"If-Match", "POST /v1/files/a\nIf-Match: ", []string{`"57"`, "x"}},
		{"If-None-Match", "POST /v1/files/a\nIf-None-Match: *", nil},
		{"Idempotency-Key", "POST /v1/files/a\nIdempotency-Key: k", nil},
		{"If-Match", "GET /v1/files/a\nIf-Match: \"57\"", nil},
		{"If-Match", "GET /v1/files\nIf-Match: \"57\"", nil},
		{"If-Match", "DELETE /v1/files/a\nIf-Match: 57", nil},
		{"If-None-Match", "DELETE /v1/files/a\nIf-None-Match: *", nil},
		{"Idempotency-Key", "DELETE /v1/files/a\nIdempotency-Key: k", nil},
		{"If-Match", "DELETE /v1/files?prefix=/a/\nIf-Match: \"57\"", nil},
		{"If-None-Match", "DELETE /v1/files?prefix=/a/\nIf-None-Match: *", nil},
		{"Idempotency-Key", "DELETE /v1/files?prefix=/a/\nIdempotency-Key: k", nil},
		{"If-Match", "POST /v1/transactions\nIf-Match: \"57\"", nil},
		{"If-None-Match", "POST /v1/transactions\nIf-None-Match: *", nil},
	}, master, replica)
}

// TestFileCalls: valid calls reach the master unchanged, also through a
// replica.
func TestFileCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	digits := strings.Repeat("x", 239)
	for _, c := range []struct{ call, headers, body, made string }{
		{"PUT /v1/files/a", "", "", `WriteFile Path=/a`},
		{"PUT /v1/files/a%20b/c", "", "\x00\xff", `WriteFile Path=/a b/c Content="\x00\xff"`},
		{"PUT /v1/files/a", "Content-Type: application/x-www-form-urlencoded", "x=1", `WriteFile Path=/a Content="x=1"`},
		{"PUT /v1/files/a?session=s1&ephemeral=true", "", "x", `WriteFile Path=/a Content="x" Session=s1 Ephemeral=true`},
		{"PUT /v1/files/a?ephemeral=false", "", "x", `WriteFile Path=/a Content="x" Ephemeral=false`},
		{"PUT /v1/files/a", `If-Match: "57"`, "x", `WriteFile Path=/a Content="x" IfRevision=57`},
		{"PUT /v1/files/a?as=json&content=true", "If-Match: \"57\"", "x", `WriteFile Path=/a Content="x" IfRevision=57 Tell=true`},
		{"PUT /v1/files/a?as=json&content=false", "", "x", `WriteFile Path=/a Content="x"`},
		{"PUT /v1/files/n", "If-None-Match: *", "x", `WriteFile Path=/n Content="x" IfAbsent=true`},
		{"PUT /v1/files/a?sequencer=exclusive:1:/l&sequencer=shared:2:/l%20m", "", "x", `WriteFile Path=/a Content="x" Sequencers=[exclusive:1:/l shared:2:/l m]`},
		{"PUT /v1/files/a?session=s1", "Idempotency-Key: k", "x", `WriteFile Path=/a Content="x" Session=s1 Key=k`},
		{"POST /v1/files/q/", "", "x", `WriteFile Path=/q/ Content="x" Sequential=true`},
		{"POST /v1/files/q/job-", "", "x", `WriteFile Path=/q/job- Content="x" Sequential=true`},
		{"POST /v1/files/" + digits, "", "x", `WriteFile Path=/` + digits + ` Content="x" Sequential=true`},
		{"POST /v1/files/", "", "x", `WriteFile Path=/ Content="x" Sequential=true`},
		{"POST /v1/files/q/?session=s1&ephemeral=true", "Idempotency-Key: k", "x", `WriteFile Path=/q/ Content="x" Session=s1 Ephemeral=true Key=k Sequential=true`},
		{"DELETE /v1/files/a", "", "", `DeleteFiles Path=/a`},
		{"DELETE /v1/files/a?session=s1&sequencer=exclusive:1:/l", "If-Match: \"57\"\r\nIdempotency-Key: k", "", `DeleteFiles Path=/a Session=s1 IfRevision=57 Sequencers=[exclusive:1:/l] Key=k`},
		{"DELETE /v1/files?prefix=/app/", "", "", `DeleteFiles Prefix=/app/`},
		{"GET /v1/files/a", "", "", `GetFile Path=/a`},
		{"GET /v1/files/a?as=json", `If-None-Match: W/"1", "2"`, "", `GetFile Path=/a`},
		{"GET /v1/files/a", "If-None-Match: *", "", `GetFile Path=/a`},
		{"GET /v1/files?prefix=/a/&delimiter=/&content=true&after=/a/b&limit=7", "", "", `ListFiles Prefix=/a/ Delimiter=true Content=true After=/a/b Limit=7`},
		{"GET /v1/files?delimiter=%2F", "", "", `ListFiles Delimiter=true Limit=100`},
		{"GET /v1/files", "", "", `ListFiles Limit=100`},
	} {
		method, target, _ := strings.Cut(c.call, " ")
		headers := c.headers
		if headers != "" {
			headers += "\r\n"
		}
		for _, n := range []*node{master, replica} {
			master.forget()
			got := raw(t, n, method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", method, target, len(c.body), headers, c.body))
			if calls := master.made(); len(calls) != 1 || calls[0] != c.made {
				t.Errorf("%s by %s: made %q, want %q; answer %d %s", clip(c.call), n.id, calls, c.made, got.status, got.body)
			}
		}
	}
}

// TestFileSize: a file may have 256 KiB in every form of a call.
func TestFileSize(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, n := range []*node{master, replica} {
		for _, method := range []string{"PUT", "POST"} {
			line(t, n, method, "/v1/files/a", strings.Repeat("x", lockapi.MaxFileBytes))
			master.forget()
			line(t, n, method, "/v1/files/a", strings.Repeat("x", lockapi.MaxFileBytes+1)).wantCode(t, lockapi.CodeTooLarge)
			if calls := master.made(); len(calls) > 0 {
				t.Errorf("the master was called: %.40q", calls)
			}
		}
	}
}

// TestRefusedTransactions: the answer names the place of the fault.
func TestRefusedTransactions(t *testing.T) {
	master, replica := startPair(t, nil)
	refuse(t, []refusals{
		{"body", "POST /v1/transactions []", nil},
		{"then[0]", `POST /v1/transactions {"then":[}`, nil},
		{"session", "POST /v1/transactions ", []string{
			`{"session":""}`, `{"session":"","then":[{"put":{"path":"/a","content":"x"}}]}`,
			`{"session":"","then":[{"acquire":{"path":"/a"}}]}`,
		}},
		{"then[0].get.path", `POST /v1/transactions {"session":"\u0000","then":[{"get":{"path":"a"}}]}`, nil},
		{"when", `POST /v1/transactions {"when":[]}`, nil},
		{"session", `POST /v1/transactions {"session":1}`, nil},
		{"then", "POST /v1/transactions ", []string{`{"then":{}}`, `{"then":null}`}},
		{"then[0]", "POST /v1/transactions ", []string{`{"then":[null]}`, `{"then":[1]}`, `{"then":[{}]}`}},
		{"then[1]", `POST /v1/transactions {"then":[{"put":{"path":"/a"}},{"put":{"path":"/a"},"get":{"path":"/a"}}]}`, nil},
		{"then[0].write", `POST /v1/transactions {"then":[{"write":{"path":"/a"}}]}`, nil},
		{"then[0].put.contents", `POST /v1/transactions {"then":[{"put":{"path":"/a","contents":"x"}}]}`, nil},
		{"then[0].put.path", "POST /v1/transactions ", []string{
			`{"then":[{"put":{"path":"a"}}]}`, `{"then":[{"put":{}}]}`, `{"then":[{"put":{"path":"/a/"}}]}`,
		}},
		{"then[0].put.content_base64", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","content":"x","content_base64":""}}]}`, `a","content_base64":"*"}}]}`,
		}},
		{"then[0].put.content", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","content":"\ud800"}}]}`,
			`a","content":"` + strings.Repeat("x", lockapi.MaxFileBytes+1) + `"}}]}`,
		}},
		{"then[0].put.ephemeral", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","ephemeral":true}}]}`, `a","ephemeral":1}}]}`,
		}},
		{"else[0].create.path", `POST /v1/transactions {"else":[{"create":{"path":"//"}}]}`, nil},
		{"else[0].create_sequential.path", `POST /v1/transactions {"else":[{"create_sequential":{"path":"/` + strings.Repeat("x", 240) + `"}}]}`, nil},
		{"then[0].delete.revision", `POST /v1/transactions {"then":[{"delete":{"path":"/a","revision":1}}]}`, nil},
		{"then[0].delete.path", `POST /v1/transactions {"then":[{"delete":{"path":""}}]}`, nil},
		{"then[0].get.path", `POST /v1/transactions {"then":[{"get":{"path":"/.."}}]}`, nil},
		{"then[0].acquire.path", `POST /v1/transactions {"then":[{"acquire":{"path":"/a"}}]}`, nil},
		{"then[0].acquire.mode", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","mode":"all"}}]}`, nil},
		{"then[0].acquire.limit", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","limit":2}}]}`, nil},
		{"then[0].acquire.wait_ms", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","wait_ms":2}}]}`, nil},
		{"then[0].acquire.lock_delay_ms", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","lock_delay_ms":60001}}]}`, nil},
		{"then[0].acquire.handle", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","handle":"` + strings.Repeat("h", 65) + `"}}]}`, nil},
		{"then[0].acquire.path", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"a"}}]}`, nil},
		{"then[0].release.path", `POST /v1/transactions {"then":[{"release":{"path":"/a"}}]}`, nil},
		{"then[0].release.token", `POST /v1/transactions {"session":"s1","then":[{"release":{"path":"/`, []string{
			`a","token":-1}}]}`, `a","token":9007199254740992}}]}`,
		}},
		{"if[0]", `POST /v1/transactions {"if":[{}]}`, nil},
		{"if[0].revision", `POST /v1/transactions {"if":[{"file":"/`, []string{
			`a"}]}`, `a","revision":1,"exists":true}]}`, `a","revision":0}]}`, `a","revision":"57"}]}`,
			`a","revision":1.5}]}`,
		}},
		{"if[0].file", `POST /v1/transactions {"if":[{"file":"a","exists":true}]}`, nil},
		{"if[0]", `POST /v1/transactions {"if":[{"exists":true}]}`, nil},
		{"if[0].file", `POST /v1/transactions {"if":[{"session":"s1","exists":true}]}`, nil},
		{"if[1]", `POST /v1/transactions {"if":[{"file":"/a","exists":true},{"file":"/a","session":"s1"}]}`, nil},
		{"if[0].sequencer", `POST /v1/transactions {"if":[{"sequencer":"42"}]}`, nil},
		{"if[0].state", `POST /v1/transactions {"if":[{"lock":"/`, []string{`a"}]}`, `a","state":"held"}]}`}},
		{"if[0].lock", "POST /v1/transactions ", []string{
			`{"if":[{"lock":"a","state":"free"}]}`, `{"if":[{"session":"s1","state":"free"}]}`,
		}},
		{"body", `POST /v1/transactions {"then":[` + strings.TrimSuffix(strings.Repeat(`{"get":{"path":"/a"}},`, 129), ",") + "]}", nil},
	}, master, replica)
}

// TestTransactions: valid transactions reach the master unchanged.
func TestTransactions(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, c := range []struct{ body, made string }{
		{``, `{}`},
		{`{}`, `{}`},
		{`{"then":[{"put":{"path":"/a"}}]}`, `{"then":[{"put":{"path":"/a"}}]}`},
		{`{"session":"s1","if":[{"file":"/a","exists":false},{"file":"/b","revision":57},{"sequencer":"shared:1:/l"},{"session":"s2"},{"lock":"/x","state":"free"}],"else":[{"get":{"path":"/a"}}]}`,
			`{"session":"s1","if":[{"file":"/a","exists":false},{"file":"/b","revision":57},{"sequencer":"shared:1:/l"},{"session":"s2"},{"lock":"/x","state":"free"}],"else":[{"get":{"path":"/a"}}]}`},
		{`{"session":"s1","then":[{"acquire":{"path":"/x","handle":"","mode":"exclusive","limit":0,"lock_delay_ms":0}},{"release":{"path":"/x","handle":"","token":42}}]}`,
			`{"session":"s1","then":[{"acquire":{"path":"/x","mode":"exclusive"}},{"release":{"path":"/x","token":42}}]}`},
		{`{"then":[{"create":{"path":"/a","content_base64":"` + base64.StdEncoding.EncodeToString([]byte("\x00\xff")) + `","ephemeral":false}},{"create_sequential":{"path":"/q/"}}]}`,
			`{"then":[{"create":{"path":"/a","content_base64":"AP8=","ephemeral":false}},{"create_sequential":{"path":"/q/"}}]}`},
	} {
		for _, n := range []*node{master, replica} {
			master.forget()
			got := call(t, "POST", n.url+"/v1/transactions", c.body)
			if calls := master.made(); len(calls) != 1 || calls[0] != strings.TrimSuffix("Transact "+c.made, " {}") {
				t.Errorf("%s of %s: made %q; answer %d %s", c.body, n.id, calls, got.status, got.body)
			}
		}
	}
	master.addSession(lockapi.Session{ID: "s1"})
	for _, replayed := range []string{"", "true"} {
		got := call(t, "POST", replica.url+"/v1/transactions", `{"session":"s1"}`, "Idempotency-Key", "k")
		if got.status != 200 || got.header.Get(lockapi.HeaderReplayed) != replayed || !strings.Contains(got.body, `"succeeded":true`) {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
	}
}
