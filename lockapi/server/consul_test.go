package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// startDoor opens the door for Consul's clients of a server, and returns its
// base URL.
func startDoor(t *testing.T, s *server.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = s.ServeConsul(l) }()
	return "http://" + l.Addr().String() + "/v1/"
}

// doorOf opens the door of a node, and returns its address.
func doorOf(t *testing.T, n *node) string {
	t.Helper()
	return strings.TrimSuffix(strings.TrimPrefix(startDoor(t, n.server), "http://"), "/v1/")
}

// eachDoor runs a test at the door of a master, and at that of a replica that
// forwards.
func eachDoor(t *testing.T, test func(t *testing.T, door string)) {
	t.Run("master", func(t *testing.T) {
		_, s := startReal(t)
		test(t, startDoor(t, s))
	})
	t.Run("replica", func(t *testing.T) {
		_, replica := startPair(t, nil)
		test(t, startDoor(t, replica.server))
	})
}

// openKeys opens a session through the door.
func openKeys(t *testing.T, door, body string) string {
	t.Helper()
	r := call(t, "PUT", door+"session/create", body)
	var opened struct{ ID string }
	if err := json.Unmarshal([]byte(r.body), &opened); err != nil || opened.ID == "" {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return opened.ID
}

// exchanged is a request with its answer, with N for any index.
type exchanged struct {
	method, path, body string
	status             int
	want               string
}

// play sends requests in order and compares the answers. The replacer has the
// words that stand for sessions.
func play(t *testing.T, door string, sessions *strings.Replacer, all []exchanged) {
	t.Helper()
	for _, x := range all {
		r := call(t, x.method, door+sessions.Replace(x.path), sessions.Replace(x.body))
		if got, want := numbers(r.body), sessions.Replace(x.want); r.status != x.status || got != want {
			t.Errorf("%s %s: %d %s\nwant %d %s", x.method, x.path, r.status, got, x.status, want)
		}
		if _, err := strconv.ParseUint(r.header.Get("X-Consul-Index"), 10, 64); err != nil && x.method == "GET" && r.status < 400 {
			t.Errorf("%s %s: no X-Consul-Index in %v", x.method, x.path, r.header)
		}
	}
}

// numbers replaces the indexes in an answer by N.
func numbers(body string) string {
	for _, name := range []string{`"CreateIndex":`, `"ModifyIndex":`} {
		parts := strings.Split(body, name)
		for i := range parts[1:] {
			parts[i+1] = "N" + strings.TrimLeft(parts[i+1], "0123456789")
		}
		body = strings.Join(parts, name)
	}
	return body
}

func TestConsulKeys(t *testing.T) {
	eachDoor(t, func(t *testing.T, door string) {
		play(t, door, strings.NewReplacer(), []exchanged{
			{"GET", "kv/a", "", 404, ""},
			{"PUT", "kv/a", "hello", 200, "true"},
			{"GET", "kv/a", "", 200, `[{"LockIndex":0,"Key":"a","Flags":0,"Value":"aGVsbG8=","CreateIndex":N,"ModifyIndex":N}]`},
			{"GET", "kv/a?raw", "", 200, "hello"},
			{"GET", "kv/a?consistent&dc=dc1&ns=default", "", 200, `[{"LockIndex":0,"Key":"a","Flags":0,"Value":"aGVsbG8=","CreateIndex":N,"ModifyIndex":N}]`},
			{"PUT", "kv/a?cas=0", "x", 200, "false"},
			{"PUT", "kv/b?cas=0&flags=18446744073709551615", "", 200, "true"},
			{"GET", "kv/b", "", 200, `[{"LockIndex":0,"Key":"b","Flags":18446744073709551615,"Value":null,"CreateIndex":N,"ModifyIndex":N}]`},
			{"PUT", "kv/d//%2F..%2f%00%ff/", "odd", 200, "true"},
			{"GET", "kv/?keys", "", 200, `["a","b","d///../\u0000\ufffd/"]`},
			{"GET", "kv/?keys&separator=/", "", 200, `["a","b","d/"]`},
			{"GET", "kv/d/?recurse", "", 200, `[{"LockIndex":0,"Key":"d///../\u0000` + "\ufffd" + `/","Flags":0,"Value":"b2Rk","CreateIndex":N,"ModifyIndex":N}]`},
			{"GET", "kv/none?recurse", "", 404, ""},
			{"GET", "kv/none?keys", "", 404, ""},
			{"DELETE", "kv/b?cas=1", "", 200, "false"},
			{"DELETE", "kv/b", "", 200, "true"},
			{"DELETE", "kv/b", "", 200, "true"},
			{"DELETE", "kv/d?recurse", "", 200, "true"},
			{"GET", "kv/?keys", "", 200, `["a"]`},
			{"DELETE", "kv/?recurse", "", 200, "true"},
			{"GET", "kv/?keys", "", 200, `[]`},
			{"GET", "kv/?recurse", "", 404, ""},
			{"PUT", "kv/s?stale", "", 200, "true"}, // no meaning, as in Consul
			{"PUT", "txn?stale", `[{"KV":{"Verb":"get-tree","Key":""}}]`, 200, `{"Results":[{"KV":{"LockIndex":0,"Key":"s","Flags":0,"Value":null,"CreateIndex":N,"ModifyIndex":N}}],"Errors":null}`},
		})
	})
}

func TestConsulLocks(t *testing.T) {
	eachDoor(t, func(t *testing.T, door string) {
		s := openKeys(t, door, `{"LockDelay":"0s","TTL":"20s","Name":"n","Node":"host"}`)
		deletes := openKeys(t, door, `{"lockdelay":0,"behavior":"delete","Checks":[]}`)
		delays := openKeys(t, door, `{"LockDelay":60}`)
		play(t, door, strings.NewReplacer("=S", "="+s, `:"S"`, `:"`+s+`"`, "/S", "/"+s, "=T", "="+deletes, `:"T"`, `:"`+deletes+`"`, "/T", "/"+deletes, "=U", "="+delays, "/U", "/"+delays), []exchanged{
			{"GET", "session/info/S", "", 200, `[{"ID":"S","Name":"n","Node":"host","LockDelay":0,"Behavior":"release","TTL":"20s","NodeChecks":["serfHealth"],"ServiceChecks":null,"CreateIndex":N,"ModifyIndex":N}]`},
			{"GET", "session/node/host", "", 200, `[{"ID":"S","Name":"n","Node":"host","LockDelay":0,"Behavior":"release","TTL":"20s","NodeChecks":["serfHealth"],"ServiceChecks":null,"CreateIndex":N,"ModifyIndex":N}]`},
			{"GET", "session/info/none", "", 200, `[]`},
			{"PUT", "session/renew/T", "", 200, `[{"ID":"T","Name":"","Node":"r1","LockDelay":0,"Behavior":"delete","TTL":"","NodeChecks":[],"ServiceChecks":null,"CreateIndex":N,"ModifyIndex":N}]`},
			{"PUT", "session/renew/none", "", 404, "Session id 'none' not found"},

			{"PUT", "kv/l?acquire=S&flags=7", "mine", 200, "true"},
			{"PUT", "kv/l?acquire=S&flags=7", "mine", 200, "true"},
			{"PUT", "kv/l?acquire=T", "theirs", 200, "false"},
			{"PUT", "kv/l?acquire=none", "", 500, `invalid session "none"`},
			{"PUT", "kv/l?acquire=", "", 500, `missing session`},
			{"PUT", "kv/l?acquire=%00", "", 500, `invalid session "\x00"`},
			{"PUT", "kv/l?acquire=%ff", "", 500, `invalid session "\xff"`},
			{"PUT", "session/destroy/%00", "", 200, "true"},
			{"PUT", "session/destroy/%ff", "", 200, "true"},
			{"PUT", "kv/l?release=T", "", 200, "false"},
			{"GET", "kv/l", "", 200, `[{"LockIndex":1,"Key":"l","Flags":7,"Value":"bWluZQ==","Session":"S","CreateIndex":N,"ModifyIndex":N}]`},
			{"PUT", "kv/l?release=S", "free", 200, "true"},
			{"GET", "kv/l", "", 200, `[{"LockIndex":1,"Key":"l","Flags":0,"Value":"ZnJlZQ==","CreateIndex":N,"ModifyIndex":N}]`},

			// The end of a session deletes, releases, or leaves a lock-delay.
			{"PUT", "kv/l?acquire=T", "", 200, "true"},
			{"PUT", "session/destroy/T", "", 200, "true"},
			{"GET", "kv/l", "", 404, ""},
			{"PUT", "session/destroy/T", "", 200, "true"},
			{"PUT", "kv/l?acquire=S", "", 200, "true"},
			{"PUT", "session/destroy/S", "", 200, "true"},
			{"PUT", "kv/l?acquire=U", "", 200, "true"},
			{"PUT", "session/destroy/U", "", 200, "true"},
		})
		long := strings.Repeat("consul lock for é ", 50)
		if r := call(t, "GET", door+"session/info/"+openKeys(t, door, `{"Name":"`+long+`"}`), ""); !strings.Contains(r.body, `"Name":"`+long+`"`) {
			t.Errorf("a session with a long name: %d %s", r.status, r.body)
		}
		again := openKeys(t, door, "")
		play(t, door, strings.NewReplacer("=S", "="+again), []exchanged{
			{"PUT", "kv/l?acquire=S", "", 200, "false"},
			{"GET", "kv/l", "", 200, `[{"LockIndex":2,"Key":"l","Flags":0,"Value":null,"CreateIndex":N,"ModifyIndex":N}]`},
		})
	})
}

func TestConsulTransactions(t *testing.T) {
	eachDoor(t, func(t *testing.T, door string) {
		s := openKeys(t, door, `{"LockDelay":"1s"}`)
		op := func(verb, key, more string) string {
			return fmt.Sprintf(`{"KV":{"Verb":%q,"Key":%q%s},"Node":null}`, verb, key, more)
		}
		list := func(ops ...string) string { return "[" + strings.Join(ops, ",") + "]" }
		kv := func(key, value, more string) string {
			return fmt.Sprintf(`{"KV":{"LockIndex":0,"Key":%q,"Flags":0,"Value":%s%s,"CreateIndex":N,"ModifyIndex":N}}`, key, value, more)
		}
		many := make([]string, 64)
		for i := range many {
			many[i] = op("set", fmt.Sprint("many/", i), `,"Value":"eA=="`)
		}
		play(t, door, strings.NewReplacer(), []exchanged{
			{"PUT", "txn", "[]", 200, `{"Errors":null,"Results":[]}`},
			{"PUT", "txn", list(op("frobnicate", "a", ""), op("set", "", ""), op("set", "a", "")), 409, `{"Errors":[{"OpIndex":0,"What":"unknown KV verb \"frobnicate\""},{"OpIndex":1,"What":"Must provide key"}],"Results":null}`},
			{"PUT", "txn", list(op("set", "a/1", `,"Value":"eA=="`), op("get", "a/1", ""), op("delete", "nope", ""), op("get-or-empty", "none", ""), op("check-not-exists", "none", "")), 200,
				`{"Results":[` + kv("a/1", "null", "") + "," + kv("a/1", `"eA=="`, "") + "," + kv("none", "null", "") + `],"Errors":null}`},
			{"PUT", "txn", list(op("lock", "a/2", `,"Session":"`+s+`"`), op("check-session", "a/2", `,"Session":"`+s+`"`), op("unlock", "a/2", `,"Session":"`+s+`"`), op("get-tree", "a/", "")), 200,
				`{"Results":[` + strings.Join([]string{strings.Replace(kv("a/2", "null", `,"Session":"`+s+`"`), `"LockIndex":0`, `"LockIndex":1`, 1),
					strings.Replace(kv("a/2", "null", `,"Session":"`+s+`"`), `"LockIndex":0`, `"LockIndex":1`, 1), strings.Replace(kv("a/2", "null", ""), `"LockIndex":0`, `"LockIndex":1`, 1),
					kv("a/1", `"eA=="`, ""), strings.Replace(kv("a/2", "null", ""), `"LockIndex":0`, `"LockIndex":1`, 1)}, ",") + `],"Errors":null}`},
			{"PUT", "txn", list(op("set", "b", ""), op("cas", "a/1", `,"Index":1`), op("get", "none", ""), op("check-index", "a/1", `,"Index":1`), op("lock", "x", ""), op("delete-cas", "a/1", `,"Index":1`), op("check-session", "a/1", `,"Session":"s"`)), 409,
				`{"Errors":[{"OpIndex":1,"What":"failed to set key \"a/1\", index is stale"},{"OpIndex":2,"What":"key \"none\" doesn't exist"},{"OpIndex":3,"What":"failed index check for key \"a/1\", current modify index 2 != 1"},` +
					`{"OpIndex":4,"What":"missing session"},{"OpIndex":5,"What":"failed to delete key \"a/1\", index is stale"},{"OpIndex":6,"What":"failed session check for key \"a/1\", current session \"\" != \"s\""}],"Results":null}`},
			{"GET", "kv/b", "", 404, ""},
			{"PUT", "txn", list(op("delete-tree", "a/", ""), op("get-tree", "", "")), 200, `{"Results":[],"Errors":null}`},
		})
		call(t, "PUT", door+"kv/large", strings.Repeat("x", lockapi.MaxKeyBytes)).wantStatus(t, 200)
		for _, read := range []string{op("get", "large", ""), op("get-or-empty", "large", ""), op("get-tree", "l", "")} {
			if r := call(t, "PUT", door+"txn", list(read)); r.status != 200 || len(r.body) < lockapi.MaxKeyBytes {
				t.Errorf("%s: %d, %d bytes", read, r.status, len(r.body))
			}
			if r := call(t, "PUT", door+"txn", list(read, read)); r.status != 409 || !strings.Contains(r.body, `{"OpIndex":1,"What":"get`) || !strings.Contains(r.body, "is too large") {
				t.Errorf("%s twice: %d %.300s", read, r.status, r.body)
			}
		}
		if r := call(t, "PUT", door+"txn", list(many...)); r.status != 200 || strings.Count(r.body, `"KV"`) != 64 {
			t.Errorf("64 operations: %d %s", r.status, r.body)
		}
		for body, want := range map[string]string{
			`[{"Service":{"Verb":"get"}}]`:               "the only one",
			list(op("set", "a", `,"Namespace":"other"`)): "namespace",
			"{": "Failed to parse body",
			list(strings.Split(strings.Repeat(op("get", "a", "")+"#", 129), "#")[:129]...): "too many operations",
		} {
			if r := call(t, "PUT", door+"txn", body); r.status != 400 && r.status != 413 || !strings.Contains(r.body, want) {
				t.Errorf("%.60s: %d %s, want %q", body, r.status, r.body, want)
			}
		}
	})
}

// TestConsulRefuses: what the door does not have is refused by name.
func TestConsulRefuses(t *testing.T) {
	eachDoor(t, func(t *testing.T, door string) {
		for _, x := range []exchanged{
			{"GET", "acl/tokens", "", 501, "is not part of Stout's door"},
			{"PUT", "agent/service/register", "{}", 501, "is not part of Stout's door"},
			{"POST", "kv/a", "", 501, "is not part of Stout's door"},
			{"GET", "", "", 501, "is not part of Stout's door"},
			{"GET", "kv/", "", 400, "Missing key name"},
			{"PUT", "kv/", "", 400, "Missing key name"},
			{"DELETE", "kv/", "", 400, "Missing key name"},
			{"GET", "kv/a?near=b", "", 400, `does not accept the parameter "near"`},
			{"GET", "kv/a?stale&consistent", "", 400, "Cannot specify ?stale with ?consistent"},
			{"GET", "kv/a?dc=other", "", 500, "No path to datacenter"},
			{"GET", "kv/a?ns=other", "", 400, "there is no ns"},
			{"GET", "kv/a?index=x", "", 400, "Invalid index"},
			{"GET", "kv/a?index=1&wait=x", "", 400, "Invalid wait time"},
			{"GET", "kv/a/..?recurse", "", 400, "a prefix must not end"},
			{"GET", "session/list?index=1", "", 400, `does not accept the parameter "index"`},
			{"PUT", "kv/a?cas=0&acquire=x", "", 400, "Conflicting flags"},
			{"PUT", "kv/a?cas=x", "", 400, "it must be a number"},
			{"PUT", "kv/" + strings.Repeat("x", 256), "", 400, "cannot be a path of Stout"},
			{"PUT", "kv/a", strings.Repeat("x", lockapi.MaxKeyBytes+1), 413, "too large, max size: 524288 bytes"},
			{"DELETE", "kv/a?recurse&cas=1", "", 400, "Conflicting flags"},
			{"PUT", "session/create", `{"TTL":"9s"}`, 500, "Invalid Session TTL '9000000000', must be between [10s=24h0m0s]"},
			{"PUT", "session/create", `{"Checks":["service:web"]}`, 400, `names the check "service:web"`},
			{"PUT", "session/create", `{"NodeChecks":["serfHealth","disk"]}`, 400, `names the check "disk"`},
			{"PUT", "session/create", `{"ServiceChecks":[{"ID":"x"}]}`, 400, "checks of services"},
			{"PUT", "session/create", `{"Behavior":"keep"}`, 500, "Invalid Behavior setting 'keep'"},
			{"PUT", "session/create", `{"TTL":"soon"}`, 500, "Session TTL 'soon' invalid"},
			{"PUT", "session/create", `{"Name":"` + strings.Repeat("x", 5000) + `"}`, 400, "has more than 4096 bytes"},
			{"PUT", "session/create", `{"Colour":"red"}`, 400, "Request decode failed"},
		} {
			r := call(t, x.method, door+x.path, x.body)
			if r.status != x.status || !strings.Contains(r.body, x.want) || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s %s: %d %s %q; want %d %q", x.method, x.path, r.status, r.header.Get("Content-Type"), r.body, x.status, x.want)
			}
		}
		if r := call(t, "PUT", door+"kv/a", strings.Repeat("x", lockapi.MaxKeyBytes)); r.status != 200 || r.body != "true" {
			t.Errorf("a value of 512 KiB: %d %s", r.status, r.body)
		}
	})
}

// TestConsulCell: client libraries ask for the cell on their way.
func TestConsulCell(t *testing.T) {
	_, s := startReal(t)
	door := startDoor(t, s)
	for path, want := range map[string]string{
		"status/leader":       `"`,
		"status/peers":        `["`,
		"agent/self":          `"NodeName":"r1"`,
		"agent/members":       `"Name":"r1"`,
		"catalog/nodes":       `"Node":"r1"`,
		"catalog/datacenters": `["dc1"]`,
		"health/node/any":     `"CheckID":"serfHealth"`,
	} {
		if r := call(t, "GET", door+path, ""); r.status != 200 || !strings.Contains(r.body, want) || r.header.Get("X-Consul-KnownLeader") != "true" {
			t.Errorf("%s: %d %s %v", path, r.status, r.body, r.header)
		}
	}
}

// doorAudience has the door's handler, in virtual time.
type doorAudience struct {
	*audience
	door http.Handler
}

func withDoor(t *testing.T, test func(t *testing.T, a *doorAudience)) {
	withAudience(t, 1000, func(t *testing.T, a *audience) {
		test(t, &doorAudience{a, a.server.ConsulHandler()})
	})
}

func (a *doorAudience) ask(method, path, body string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, "/v1/"+path, strings.NewReader(body))
	q.Host = "r1"
	w := httptest.NewRecorder()
	a.door.ServeHTTP(w, q)
	return w
}

// index reads a key and returns the index of the answer.
func (a *doorAudience) index(t *testing.T, path string) uint64 {
	t.Helper()
	w := a.ask("GET", path, "")
	n, err := strconv.ParseUint(w.Header().Get("X-Consul-Index"), 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s: no index: %d %v", path, w.Code, w.Header())
	}
	return n
}

// session opens a session without a lock-delay.
func (a *doorAudience) session(t *testing.T) string {
	t.Helper()
	var opened struct{ ID string }
	must(t, json.Unmarshal(a.ask("PUT", "session/create", `{"LockDelay":"0s"}`).Body.Bytes(), &opened))
	return opened.ID
}

// waits makes n blocking queries from an index and counts their answers.
func (a *doorAudience) waits(t *testing.T, n int, path string, index uint64, wait time.Duration) *atomic.Int64 {
	answered := new(atomic.Int64)
	for range n {
		go func() {
			w := a.ask("GET", fmt.Sprintf("%s&index=%d&wait=%s", path, index, wait), "")
			if at := w.Header().Get("X-Consul-Index"); w.Code != 200 && w.Code != 404 || at == "" {
				t.Errorf("%s: %d %s %v", path, w.Code, w.Body, w.Header())
			}
			answered.Add(1)
		}()
	}
	synctest.Wait()
	return answered
}

// TestConsulBlockingQueries: a change wakes the queries of its key and of its
// prefixes, and no others. A wait ends between its length and a sixteenth more.
func TestConsulBlockingQueries(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		a.ask("PUT", "kv/a/b", "1")
		a.ask("PUT", "kv/c", "1")
		at := a.index(t, "kv/a/b")
		key := a.waits(t, 500, "kv/a/b?raw", at, time.Minute)
		tree := a.waits(t, 10, "kv/a/?recurse", at, time.Minute)
		names := a.waits(t, 10, "kv/?keys", at, time.Minute)
		missing := a.waits(t, 10, "kv/a/missing?raw", at, time.Minute)
		expect := func(when string, want ...int64) {
			t.Helper()
			synctest.Wait()
			if got := []int64{key.Load(), tree.Load(), names.Load(), missing.Load()}; !slices.Equal(got, want) {
				t.Fatalf("%s: answered are %d of the key, the tree, all names and the missing key; want %d", when, got, want)
			}
		}
		expect("at first", 0, 0, 0, 0)
		a.ask("PUT", "kv/c", "2")
		expect("after a change beside", 0, 0, 10, 0)
		a.ask("PUT", "kv/a/b", "2")
		expect("after a change", 500, 10, 10, 0)
		time.Sleep(time.Minute - time.Nanosecond)
		expect("before the end", 500, 10, 10, 0)
		time.Sleep(time.Minute/16 + 2*time.Nanosecond)
		expect("after the wait", 500, 10, 10, 10)

		// Locks and deletions are changes, too. One that came before the query
		// answers it at once.
		at = a.index(t, "kv/a/b")
		held := a.waits(t, 1, "kv/a/b?raw", at, time.Minute)
		session := a.session(t)
		a.ask("PUT", "kv/a/b?acquire="+session, "2")
		if synctest.Wait(); held.Load() != 1 {
			t.Error("an acquire did not wake the query")
		}
		at = a.index(t, "kv/a/b")
		released := a.waits(t, 1, "kv/a/b?raw", at, time.Minute)
		a.ask("PUT", "session/destroy/"+session, "")
		if synctest.Wait(); released.Load() != 1 {
			t.Error("the end of the session did not wake the query")
		}
		a.ask("DELETE", "kv/a/b", "")
		if a.waits(t, 1, "kv/a/b?raw", at, time.Minute).Load() != 1 {
			t.Error("a deletion before the query did not answer it at once")
		}
	})
}

// TestConsulIndexOfAnOldKey: a query at the index of a key that has been locked for
// long waits, although the events after it are no longer kept.
func TestConsulIndexOfAnOldKey(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		busy := func() {
			for i := range 1100 { // the events of 1000 are kept
				a.ask("PUT", "kv/b", strconv.Itoa(i))
			}
		}
		session := a.session(t)
		a.ask("PUT", "kv/a?acquire="+session, "1")
		a.ask("PUT", "kv/free", "1")
		at := a.index(t, "kv/a")
		busy()
		key := a.waits(t, 1, "kv/a?raw", at, time.Minute)
		tree := a.waits(t, 1, "kv/a?recurse", at, time.Minute)
		free := a.waits(t, 1, "kv/free?raw", at, time.Minute)
		missing := a.waits(t, 1, "kv/missing?raw", at, time.Minute)
		if key.Load() != 0 || tree.Load() != 1 || free.Load() != 1 || missing.Load() != 1 {
			t.Errorf("answered are %d of the key, %d of the tree, %d of the key that nobody locked, %d of no key", key.Load(), tree.Load(), free.Load(), missing.Load())
		}
		busy()
		if synctest.Wait(); key.Load() != 0 {
			t.Error("changes beside it answered the query")
		}
		a.ask("PUT", "session/destroy/"+session, "")
		if synctest.Wait(); key.Load() != 1 {
			t.Error("the loss of the lock did not answer the query")
		}
		busy()
		a.ask("PUT", "kv/a?acquire="+a.session(t), "1")
		busy()
		if a.waits(t, 1, "kv/a?raw", at, time.Minute).Load() != 1 {
			t.Error("changes before the query did not answer it at once")
		}
	})
}

// TestConsulQueryWithoutContact: a blocking query ends when its replica has had no
// contact with a master for more than 10 s, unless it is stale.
func TestConsulQueryWithoutContact(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		a.ask("PUT", "kv/a", "1")
		at := a.index(t, "kv/a")
		a.setMaster(4, "r2", "http://r2")
		silent := func(ms int64) { a.set(func() { a.view.Own.LastContactMS = ms }) }
		silent(3)
		stale := a.waits(t, 1, "kv/a?raw&stale", at, time.Minute)
		status := make(chan int, 1)
		go func() { status <- a.ask("GET", fmt.Sprintf("kv/a?index=%d&wait=1m", at), "").Code }()
		time.Sleep(20 * time.Second)
		silent(10_000)
		time.Sleep(6 * time.Second)
		if len(status) != 0 {
			t.Errorf("a silence of 10 s ended the query with %d", <-status)
		}
		silent(10_001)
		time.Sleep(5 * time.Second)
		if synctest.Wait(); stale.Load() != 0 {
			t.Error("the stale query has ended, too")
		}
		select {
		case got := <-status:
			if got != http.StatusInternalServerError {
				t.Errorf("the query ended with %d", got)
			}
		default:
			t.Error("the query waits at a replica without contact")
		}
		time.Sleep(2 * time.Minute) // all have ended
	})
}

// TestConsulIndexOfAnotherCell: an index that the cell has not reached is
// answered at once, with the present one.
func TestConsulIndexOfAnotherCell(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		a.ask("PUT", "kv/a", "1")
		a.ask("PUT", "kv/a", "2")
		if a.index(t, "session/info/none") < a.index(t, "kv/a") {
			t.Error("the index of a missing session is below that of a key")
		}
		if a.waits(t, 1, "kv/a?raw", 1<<40, time.Hour).Load() != 1 {
			t.Error("the query waits for an index that belongs to another cell")
		}
	})
}

// TestConsulManySessions: a list of several pages takes one turn for lists, and
// gives it back.
func TestConsulManySessions(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		for range lockapi.MaxListLimit + 1 {
			a.ask("PUT", "session/create", "")
		}
		for range runtime.GOMAXPROCS(0) + 1 {
			if w := a.ask("GET", "session/list", ""); strings.Count(w.Body.String(), `"ID"`) != lockapi.MaxListLimit+1 {
				t.Fatalf("%d %.200s", w.Code, w.Body)
			}
		}
	})
}

// TestConsulSlowReaders: slow readers of a list do not stop the lists of others.
func TestConsulSlowReaders(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		a.ask("PUT", "kv/a", "1")
		slow := make(chan struct{})
		for range runtime.GOMAXPROCS(0) + 1 {
			q := httptest.NewRequest("GET", "/v1/kv/?recurse", nil)
			q.Host = "r1"
			go a.door.ServeHTTP(&listener{ResponseRecorder: httptest.NewRecorder(), stuck: slow}, q)
		}
		synctest.Wait()
		if w := a.ask("GET", "kv/?recurse", ""); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		close(slow)
	})
}

// TestConsulManyKeys: the trees of a transaction have a bound together.
func TestConsulManyKeys(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		for i := range 40 { // 5120 keys
			var sets []string
			for n := range lockapi.MaxKeyOperations {
				sets = append(sets, fmt.Sprintf(`{"KV":{"Verb":"set","Key":"t/%d/%d"}}`, i, n))
			}
			a.ask("PUT", "txn", "["+strings.Join(sets, ",")+"]")
		}
		for _, first := range []string{"get-tree", "delete-tree"} {
			trees := fmt.Sprintf(`[{"KV":{"Verb":%q,"Key":"t/"}},{"KV":{"Verb":"set","Key":"t/0/0"}},{"KV":{"Verb":"get-tree","Key":""}}]`, first)
			w, want := a.ask("PUT", "txn", trees), http.StatusConflict
			if first == "delete-tree" {
				want = http.StatusOK // the second tree has one key
			}
			if w.Code != want || want == http.StatusConflict && !strings.Contains(w.Body.String(), `{"OpIndex":2,"What":"get-tree of \"\" is too large`) {
				t.Errorf("%s: %d %.300s", first, w.Code, w.Body)
			}
		}
	})
}

// TestConsulFull: if every connection has a call under way, sessions can still
// be renewed, and nothing else looks like an answer of Consul.
func TestConsulFull(t *testing.T) {
	n := full(t)
	n.setHook(nil)
	door := startDoor(t, n.server)
	for _, x := range []exchanged{
		{"PUT", "session/renew/none", "", 404, "Session id 'none' not found"},
		{"GET", "kv/a", "", 429, "quota max-connections is used up"},
		{"GET", "kv/a?index=1", "", 429, "quota max-connections is used up"},
		{"GET", "none", "", 429, "quota max-connections is used up"},
	} {
		if r := call(t, x.method, door+x.path, ""); r.status != x.status || !strings.HasPrefix(r.body, x.want) {
			t.Errorf("%s %s: %d %s", x.method, x.path, r.status, r.body)
		}
	}
	// The API is not served at the door.
	if r := call(t, "GET", strings.TrimSuffix(door, "v1/")+"livez", ""); r.status != 429 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// wakeQueries makes blocking queries at a replica's door, and wakes them. It returns
// when all of them need the master, which has got a read.
func wakeQueries(t *testing.T, replica *node, queries int, reads *atomic.Int64) (url string, answers chan reply) {
	t.Helper()
	replica.happened("/a")
	url, answers = fmt.Sprintf("%skv/a?index=%d", startDoor(t, replica.server), replica.revision()), make(chan reply, queries)
	for range queries {
		go func() { answers <- call(t, "GET", url, "") }()
	}
	eventually(t, "all queries wait", func() bool { return gauge(t, replica, "stout_watchers") == float64(queries) })
	replica.happened("/a")
	eventually(t, "all queries need the master", func() bool { return replica.server.Forwards() == queries && reads.Load() > 0 })
	return url, answers
}

// TestConsulQueriesShareReads: the queries that one change wakes at a replica
// need few reads of the master. A query that came after a read began makes its
// own.
func TestConsulQueriesShareReads(t *testing.T) {
	const queries = 20
	master, replica := startPair(t, nil)
	master.happened("/a")
	var reads atomic.Int64
	release := make(chan struct{})
	master.setHook(func(context.Context, string) error {
		if reads.Add(1) == 1 {
			<-release
		}
		return nil
	})
	url, answers := wakeQueries(t, replica, queries, &reads)
	call(t, "GET", url, "").wantStatus(t, 200) // a query that came later
	close(release)
	for range queries {
		if r := <-answers; r.status != 200 || !strings.Contains(r.body, `"Key":"a"`) || r.header.Get("X-Consul-Index") == "" {
			t.Errorf("%d %s %v", r.status, r.body, r.header)
		}
	}
	if n := reads.Load(); n < 2 || n > queries/2 {
		t.Errorf("%d queries made %d reads", queries+1, n)
	}
}

// TestConsulQueriesShareWholeAnswers: the answer to a read breaks off. The
// queries that joined the read do not get the part that arrived.
func TestConsulQueriesShareWholeAnswers(t *testing.T) {
	const queries, whole = 5, `[{"Key":"a"}]`
	replica := startNode(t, "r2", nil)
	var reads atomic.Int64
	release := make(chan struct{})
	other := startOther(t, func(w http.ResponseWriter, _ *http.Request) {
		if reads.Add(1) > 1 {
			_, _ = io.WriteString(w, whole)
			return
		}
		_, _ = io.WriteString(w, whole[:5])
		_ = http.NewResponseController(w).Flush()
		<-release
		panic(http.ErrAbortHandler)
	})
	replica.setMaster(3, "r1", other.URL)
	_, answers := wakeQueries(t, replica, queries, &reads)
	close(release)
	for range queries {
		if r := <-answers; r.status != 200 || r.body != whole {
			t.Errorf("%d %q", r.status, r.body)
		}
	}
}

// TestConsulBesideAnOlderMaster: a replica has the door before its master does.
// The master's refusals then read as Consul's, and none looks like a missing key.
func TestConsulBesideAnOlderMaster(t *testing.T) {
	var refusal atomic.Pointer[lockapi.Error]
	master := startOther(t, func(w http.ResponseWriter, _ *http.Request) {
		e := refusal.Load()
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(e.Code.Status())
		_ = json.NewEncoder(w).Encode(e)
	})
	replica := startReplica(t, master.URL, nil)
	door := startDoor(t, replica.server)
	const without = "No cluster leader: the master runs a release without the door"
	for _, x := range []struct {
		method  string
		refusal lockapi.Code
		status  int
		want    string
	}{
		{"GET", lockapi.CodeNotFound, 500, without},
		{"PUT", lockapi.CodeNotFound, 500, without},
		{"DELETE", lockapi.CodeMethodNotAllowed, 500, without},
		{"PUT", lockapi.CodePermissionDenied, 403, "Permission denied: why"},
		{"PUT", lockapi.CodeTooMany, 429, "why"},
	} {
		refusal.Store(lockapi.Errorf(x.refusal, "why"))
		r := call(t, x.method, door+"kv/a", "")
		if r.status != x.status || !strings.HasPrefix(r.body, x.want) || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s, refused with %s: %d %s %q; want %d %q", x.method, x.refusal, r.status, r.header.Get("Content-Type"), r.body, x.status, x.want)
		}
	}
}

// TestConsulTokens: with access on the door takes tokens in each form that
// Consul's clients have, and rules at paths decide.
func TestConsulTokens(t *testing.T) {
	url, s := startReal(t)
	door := startDoor(t, s)
	var root struct{ Token string }
	if r := call(t, "POST", url+lockapi.RouteEnable, ""); json.Unmarshal([]byte(r.body), &root) != nil || root.Token == "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	asRoot := []string{"Authorization", "Bearer " + root.Token}
	var a struct{ Token string }
	if r := call(t, "POST", url+lockapi.RouteTokens, `{"principal":"user:a"}`, asRoot...); json.Unmarshal([]byte(r.body), &a) != nil || a.Token == "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	call(t, "PUT", url+lockapi.RouteRules+"/app", `{"read":["user:a"],"write":["user:a"],"lock":["user:a"]}`, asRoot...).wantStatus(t, 200)
	// A tree of a transaction is refused to a caller that may not read all of it: its
	// size would show how much is hidden.
	call(t, "PUT", door+"kv/secret/one", "hidden", asRoot...).wantStatus(t, 200)
	if r := call(t, "PUT", door+"txn", `[{"KV":{"Verb":"get-tree","Key":"secret/"}}]`, "X-Consul-Token", a.Token); r.status != 403 {
		t.Errorf("a tree that the caller may not read: %d %s", r.status, r.body)
	}
	for _, test := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{"PUT", "kv/app/x", nil, 403},
		{"PUT", "kv/app/x", []string{"X-Consul-Token", a.Token}, 200},
		{"PUT", "kv/app/x?token=" + a.Token, nil, 200},
		{"PUT", "kv/app/x", []string{"Authorization", "Bearer " + a.Token}, 200},
		{"PUT", "kv/other", []string{"X-Consul-Token", a.Token}, 403},
		{"PUT", "kv/app/x", []string{"X-Consul-Token", "nonsense"}, 403},
		{"PUT", "kv/app/x", []string{"X-Consul-Token", "nonsense", "Authorization", "Bearer " + a.Token}, 403},
		{"PUT", "kv/app/x?token=" + a.Token, []string{"X-Consul-Token", "nonsense"}, 200},
		{"DELETE", "kv/app/?recurse", []string{"X-Consul-Token", a.Token}, 200},
		{"DELETE", "kv/?recurse", []string{"X-Consul-Token", a.Token}, 403},
		{"GET", "kv/other", []string{"X-Consul-Token", a.Token}, 403},
		{"GET", "session/list", []string{"X-Consul-Token", a.Token}, 403},
		{"GET", "status/leader", nil, 403},
		{"GET", "kv/other", asRoot, 404},
		{"GET", "kv/other?index=1&wait=1ms", nil, 403},
		{"GET", "kv/other?index=1&wait=10m", []string{"X-Consul-Token", a.Token}, 403}, // at once
	} {
		if r := call(t, test.method, door+test.path, "", test.headers...); r.status != test.status || r.status == 403 && !strings.HasPrefix(r.body, "Permission denied") {
			t.Errorf("%s %s %v: %d %s, want %d", test.method, test.path, test.headers, r.status, r.body, test.status)
		}
	}
	// A rule that names anonymous opens nothing about the cell.
	call(t, "PUT", url+lockapi.RouteRules+"/open", `{"read":["anonymous"]}`, asRoot...).wantStatus(t, 200)
	call(t, "GET", door+"kv/open/x", "").wantStatus(t, 404)
	for _, path := range []string{"agent/self", "agent/members", "status/leader", "status/peers", "catalog/nodes"} {
		call(t, "GET", door+path, "").wantStatus(t, 403)
		call(t, "GET", door+path, "", "X-Consul-Token", a.Token).wantStatus(t, 200)
	}
	// A caller that may only write does not learn the holder of a lock.
	call(t, "PUT", url+lockapi.RouteRules+"/blind", `{"write":["user:a"]}`, asRoot...).wantStatus(t, 200)
	if r := call(t, "PUT", door+"txn", `[{"KV":{"Verb":"set","Key":"blind/x","Value":"eA=="}}]`, "X-Consul-Token", a.Token); r.status != 200 || r.body != `{"Results":[],"Errors":null}` {
		t.Errorf("a write without the right to read: %d %s", r.status, r.body)
	}
	call(t, "PUT", door+"kv/app/x", "v", "X-Consul-Token", a.Token)
	call(t, "PUT", door+"kv/other", "v", asRoot...)
	if r := call(t, "GET", door+"kv/?keys", "", "X-Consul-Token", a.Token); r.body != `["app/x"]` {
		t.Errorf("the keys that user:a may read: %d %s", r.status, r.body)
	}

	// A session of another principal locks nothing, and does not end.
	id := func(headers ...string) string {
		var opened struct{ ID string }
		r := call(t, "PUT", door+"session/create", "", headers...)
		if json.Unmarshal([]byte(r.body), &opened) != nil || opened.ID == "" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return opened.ID
	}
	own, others := id("X-Consul-Token", a.Token), id(asRoot...)
	for path, status := range map[string]int{"kv/app/l?acquire=" + others: 403, "session/renew/" + others: 403, "session/destroy/" + others: 403, "session/info/" + others: 403,
		"kv/app/l?acquire=" + own: 200, "session/renew/" + own: 200} {
		method := "PUT"
		if strings.Contains(path, "info") {
			method = "GET"
		}
		if r := call(t, method, door+path, "", "X-Consul-Token", a.Token); r.status != status {
			t.Errorf("%s: %d %s, want %d", path, r.status, r.body, status)
		}
	}
}

// TestConsulSeenThroughTheAPI: what is locked through the door is seen, waited
// for and fenced through the API, and the other way round.
func TestConsulSeenThroughTheAPI(t *testing.T) {
	url, s := startReal(t)
	door := startDoor(t, s)
	session := openKeys(t, door, `{"LockDelay":"0s"}`)
	call(t, "PUT", door+"kv/l?acquire="+session, "mine")
	var lock lockapi.Lock
	if r := call(t, "GET", url+"/v1/locks/l", ""); json.Unmarshal([]byte(r.body), &lock) != nil || len(lock.Holders) != 1 || lock.Holders[0].Session != session {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := call(t, "GET", url+"/v1/files/l", ""); r.body != "mine" {
		t.Errorf("%d %s", r.status, r.body)
	}
	fence := fmt.Sprintf("/v1/sequencers?value=exclusive:%d:/l", lock.Holders[0].Token)
	if r := call(t, "GET", url+fence, ""); !strings.Contains(r.body, `"valid":true`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	var waiter lockapi.Session
	if r := call(t, "POST", url+"/v1/sessions", `{}`); json.Unmarshal([]byte(r.body), &waiter) != nil {
		t.Fatal(r.body)
	}
	call(t, "PUT", url+"/v1/locks/l", fmt.Sprintf(`{"session":%q,"queue":true}`, waiter.ID)).wantStatus(t, 202)
	if r := call(t, "PUT", door+"kv/l?release="+session, "free"); r.body != "true" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := call(t, "GET", door+"kv/l", ""); !strings.Contains(r.body, `"Session":"`+waiter.ID+`"`) {
		t.Errorf("the session that waited through the API holds it: %d %s", r.status, r.body)
	}
	if r := call(t, "PUT", door+"kv/l?acquire="+session, ""); r.body != "false" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := call(t, "GET", url+fence, ""); !strings.Contains(r.body, `"valid":false`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	call(t, "PUT", url+"/v1/files/l", "by the API").wantStatus(t, 200)
	if r := call(t, "GET", door+"kv/l", ""); !strings.Contains(r.body, `"LockIndex":1,`) {
		t.Errorf("the count of locks: %d %s", r.status, r.body)
	}
}
