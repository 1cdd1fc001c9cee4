package server_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// hiddenCalls are calls about a path: ${path} is the path, ${key} the same for
// Consul's door, ${own} a session of the caller, and ${other} one of another
// principal. The last fills the answer of a transaction, so that one more byte
// does not fit.
var hiddenCalls = []string{
	"GET /v1/files${path}", "GET /v1/files${path}?as=json&consistency=stale", "HEAD /v1/files${path}", "PUT /v1/files${path} x", "POST /v1/files${path} x", "DELETE /v1/files${path}",
	"GET /v1/files?prefix=${path}", "GET /v1/files?prefix=${path}/&content=true", "GET /v1/files?prefix=${path}&limit=1&consistency=stale", "GET /v1/files?delimiter=/&after=${path}", "DELETE /v1/files?prefix=${path}/",
	"GET /v1/locks${path}?waiters=9", "GET /v1/locks${path}?consistency=stale", `PUT /v1/locks${path} {"session":"${own}"}`, `PUT /v1/locks${path} {"session":"${other}","wait_ms":1}`,
	"DELETE /v1/locks${path}?session=${own}", "DELETE /v1/locks${path}?session=${other}", "GET /v1/locks?prefix=${path}", "GET /v1/locks?limit=1&after=${path}",
	"GET /v1/sequencers?value=exclusive:1:${path}", "GET /v1/history?path=${path}", "GET /v1/events?after=1&path=${path}", "GET /v1/events?after=1&limit=1&content=true&prefix=${path}",
	"GET /v1/deadlocks", "GET /v1/sessions/${other}", "GET /v1/access/check?path=${path}", "GET /v1/access/rules?prefix=${path}", "DELETE /v1/access/rules?prefix=${path}/",
	`POST /v1/transactions {"if":[{"file":"${path}","exists":true}]}`, `POST /v1/transactions {"if":[{"lock":"${path}","state":"free"}]}`, `POST /v1/transactions {"else":[{"get":{"path":"${path}"}}]}`,
	`POST /v1/transactions {"session":"${own}","then":[{"acquire":{"path":"${path}"}}]}`, `POST /v1/transactions {"then":[{"create":{"path":"${path}","content":"x"}}]}`,
	"GET /kv/${key}", "GET /kv/${key}?keys&separator=/", "GET /kv/${key}?recurse&stale", "PUT /kv/${key}?cas=0 x", "PUT /kv/${key}?acquire=${own} x", "DELETE /kv/${key}?recurse",
	`PUT /txn [{"KV":{"Verb":"check-not-exists","Key":"${key}"}}]`, `PUT /txn [{"KV":{"Verb":"get-or-empty","Key":"${key}"}}]`, `PUT /txn [{"KV":{"Verb":"check-session","Key":"${key}"}}]`,
	"PUT /txn [" + strings.Repeat(`{"KV":{"Verb":"get","Key":"p/large"}},`, 4) + `{"KV":{"Verb":"get-tree","Key":"${key}"}}]`,
}

// TestHiddenNodesChangeNoAnswer: the answers to a caller do not depend on the
// files, locks, queues and deadlocks at paths that it may not read, change or
// lock. Only revisions and times differ.
func TestHiddenNodesChangeNoAnswer(t *testing.T) {
	s := startSecured(t)
	door := strings.TrimSuffix(startDoor(t, s.server), "/")
	put := func(path, body string) {
		if r := s.call(t, "root", "PUT", path, body); r.status > 201 {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
	}
	put("/v1/access/rules/p/no", `{"read":[]}`)
	put("/v1/files/p/large", strings.Repeat("x", lockapi.MaxFileBytes-len("/p/large")))
	own, other, holds, waits := s.session(t, "reader"), s.session(t, "other"), s.session(t, "operator"), s.session(t, "operator")
	number := regexp.MustCompile(`[0-9]+`)
	answers := func() map[string]string {
		all := map[string]string{}
		for _, path := range []string{"/q", "/q/f", "/p/no", "/p/no/f", "/pp"} {
			fill := strings.NewReplacer("${path}", path, "${key}", path[1:], "${own}", own, "${other}", other)
			for _, c := range hiddenCalls {
				method, rest, _ := strings.Cut(fill.Replace(c), " ")
				target, body, _ := strings.Cut(rest, " ")
				if s.through = s.url; !strings.HasPrefix(target, "/v1/") {
					s.through = door
				}
				got := s.call(t, "reader", method, target, body)
				text := fmt.Sprint(got.status, slices.Sorted(maps.Keys(got.header)), got.body)
				all[path+": "+c] = number.ReplaceAllString(text, "N")
			}
		}
		s.through = s.url
		return all
	}
	before := answers()
	for _, path := range []string{"/q/f", "/q/g", "/p/no/f", "/p/no/g", "/pp"} {
		put("/v1/files"+path, "hidden")
		for _, c := range [][2]string{{path, holds}, {path + "-2", waits}, {path, waits}, {path + "-2", holds}} { // a deadlock
			s.call(t, "operator", "PUT", "/v1/locks"+c[0], `{"session":"`+c[1]+`","queue":true}`)
		}
	}
	if r := s.call(t, "operator", "GET", "/v1/deadlocks", ""); !strings.Contains(r.body, `"links"`) {
		t.Errorf("no deadlock: %s", r.body)
	}
	for c, now := range answers() {
		if now != before[c] {
			t.Errorf("%s\nbefore: %s\nnow:    %s", c, before[c], now)
		}
	}
}
