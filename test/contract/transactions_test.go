package contract_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

func sortedStrings(all []string) []string { slices.Sort(all); return all }

// transactions: their results, and that they are atomic.
func transactions(t *testing.T, c *cell.Cell) {
	for _, r := range c.Replicas() {
		at := "/tx/" + r.ID
		session := open(t, r, `{"ttl_ms":600000,"name":"tx"}`)
		transact := func(status int, body string) object {
			t.Helper()
			got, _ := call(t, r, status, "POST", "/v1/transactions", strings.NewReplacer("$P", at, "$S", session).Replace(body))
			return got
		}
		got := transact(200, `{"session":"$S","if":[{"file":"$P/a","exists":false},{"session":"$S"},{"lock":"$P/l","state":"free"}],"then":[`+
			`{"put":{"path":"$P/a","content":"x"}},{"put":{"path":"$P/a","content_base64":"/w=="}},{"get":{"path":"$P/a"}},{"delete":{"path":"$P/a"}},`+
			`{"create_sequential":{"path":"$P/q/"}},{"get":{"path":"$P/a"}},{"delete":{"path":"$P/a"}},{"acquire":{"path":"$P/l"}},{"release":{"path":"$P/m"}}]}`)
		results := got["results"].([]any)
		first := results[0].(object)["revision"].(float64)
		for i, want := range []object{
			{"generation": 1}, {"generation": 2, "revision": first + 1, "size": 1}, {"content_base64": "/w=="}, {"deleted": true, "revision": first + 2},
			{"revision": first + 3, "path": fmt.Sprintf("%s/q/%016.0f", at, first+3)}, nil, {"deleted": false}, {"state": "held", "session": session}, {"released": false},
		} {
			if want == nil {
				if results[i] != nil {
					t.Errorf("operation %d at %s: %v", i, r.ID, results[i])
				}
			} else if err := has(results[i].(object), want); err != nil {
				t.Errorf("operation %d at %s: %v", i, r.ID, err)
			}
		}
		if err := has(got, object{"succeeded": true, "revision": first + 4}); err != nil {
			t.Error(err)
		}
		failed := transact(412, `{"then":[{"put":{"path":"$P/b"}},{"create":{"path":"`+results[4].(object)["path"].(string)+`"}}]}`)
		if err := has(failed, object{"code": "precondition_failed", "operation": 1, "current": nil}); err != nil {
			t.Error(err)
		}
		other := open(t, r, `{"ttl_ms":600000}`)
		failed = transact(412, `{"session":"`+other+`","then":[{"put":{"path":"$P/b"}},{"acquire":{"path":"$P/l"}}]}`)
		if err := has(failed, object{"code": "precondition_failed", "operation": 1}); err != nil || list(t, failed, "holders")[0]["session"] != session {
			t.Errorf("%v %v", err, failed)
		}
		call(t, r, http.StatusNotFound, "GET", "/v1/files"+at+"/b", "")
		got = transact(200, `{"if":[{"file":"$P/b","exists":true}],"then":[{"put":{"path":"$P/b"}}],"else":[{"get":{"path":"$P/b"}}]}`)
		if err := has(got, object{"succeeded": false, "results": "[<nil>]"}); err != nil {
			t.Error(err)
		}
		big := transact(413, `{"then":[{"put":{"path":"$P/b","content":"`+strings.Repeat("x", 512<<10)+`"}}]}`)
		if err := has(big, object{"code": "too_large"}); err != nil {
			t.Error(err)
		}
	}
}

// exactlyOnce: a keyed call gets the same answer at any replica, even after its
// file has changed and after a change of master.
func exactlyOnce(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	session := open(t, master, `{"ttl_ms":600000}`)
	route := "/v1/files/once/a?session=" + session
	type answer struct {
		status int
		body   string
	}
	first := map[string]answer{}
	for round, r := range append(c.Replicas(), c.Replicas()...) {
		for name, c := range map[string]struct{ method, route, body, header string }{
			"write":   {"PUT", route, "x", ""},
			"refused": {"PUT", route, "x", `If-Match: "1"`},
			"number":  {"POST", "/v1/files/once/q-?session=" + session, "x", ""},
			"delete":  {"DELETE", "/v1/files/once/none?session=" + session, "", ""},
			"tx":      {"POST", "/v1/transactions", fmt.Sprintf(`{"session":%q,"then":[{"create":{"path":"/once/t"}}]}`, session), ""},
		} {
			headers := []string{"Idempotency-Key: " + name}
			if c.header != "" {
				headers = append(headers, c.header)
			}
			got := exchange(t, r, c.method, c.route, c.body, headers...)
			if again := got.header.Get("Stout-Replayed"); again != map[bool]string{true: "true"}[round > 0] {
				t.Errorf("%s, round %d at %s: Stout-Replayed is %q", name, round, r.ID, again)
			}
			if round == 0 {
				first[name] = answer{got.status, got.body}
			} else if want := first[name]; got.status != want.status || got.body != want.body {
				t.Errorf("%s, round %d at %s: %d %s, want %d %s", name, round, r.ID, got.status, got.body, want.status, want.body)
			}
		}
		conflict, _ := call(t, r, http.StatusConflict, "PUT", route, "y", "Idempotency-Key: write")
		if err := has(conflict, object{"code": "conflict"}); err != nil {
			t.Error(err)
		}
		call(t, r, http.StatusOK, "PUT", "/v1/files/once/a", fmt.Sprint(round))
		if round == 2 {
			call(t, r, http.StatusOK, "POST", "/v1/cell/transfer", "{}")
			c.Ready(t)
		}
	}
}
