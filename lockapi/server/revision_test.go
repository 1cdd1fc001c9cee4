package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestReadsTellTheirRevision: every answer to a read of files, locks and
// sessions has the revision of its state, with any status and from any replica;
// other answers have none.
func TestReadsTellTheirRevision(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	call(t, "PUT", master.url+"/v1/files/a", "x").wantStatus(t, 201)
	for range 7 {
		replica.happened("/b")
	}
	for _, c := range []struct {
		call   string
		status int
	}{
		{"GET /v1/files/a", 200},
		{"HEAD /v1/files/a", 200},
		{"GET /v1/files/a?as=json", 200},
		{"GET /v1/files/none", 404},
		{"HEAD /v1/files/none", 404},
		{"GET /v1/files", 200},
		{"GET /v1/locks/a", 200},
		{"HEAD /v1/locks/a", 200},
		{"GET /v1/locks", 200},
		{"GET /v1/sessions", 200},
		{"GET /v1/sessions/s1", 200},
		{"GET /v1/sessions/none", 404},
		{"GET /v1/sequencers?value=shared:1:/a", 200},
	} {
		method, target, _ := strings.Cut(c.call, " ")
		for _, n := range []*node{master, replica} {
			got := call(t, method, n.url+target, "")
			got.wantStatus(t, c.status)
			if r := got.header.Values(lockapi.HeaderRevision); len(r) != 1 || r[0] != "2" {
				t.Errorf("%s by %s has revisions %q, want 2", c.call, n.id, r)
			}
		}
	}
	for _, n := range []*node{master, replica} {
		got := call(t, "GET", n.url+"/v1/files/a", "", "If-None-Match", `"3", W/"2"`)
		if got.wantStatus(t, 304); got.header.Get(lockapi.HeaderRevision) != "2" || got.header.Get("ETag") != `"2"` {
			t.Errorf("304 by %s: %v", n.id, got.header)
		}
	}
	if got := call(t, "GET", replica.url+"/v1/files/a?consistency=stale", ""); got.header.Get(lockapi.HeaderRevision) != "8" || got.status != 404 {
		t.Errorf("stale: %d %v", got.status, got.header)
	}
	for _, without := range []string{"GET /v1/cell", "GET /v1/replica", "GET /v1/files/a?limit=1", "PUT /v1/files/b", "DELETE /v1/files/b"} {
		method, target, _ := strings.Cut(without, " ")
		if got := call(t, method, master.url+target, ""); got.header.Get(lockapi.HeaderRevision) != "" {
			t.Errorf("%s: %v", without, got.header)
		}
	}
	master.setMaster(3, "", "")
	if got := call(t, "GET", master.url+"/v1/files/a", ""); got.header.Get(lockapi.HeaderRevision) != "" {
		t.Errorf("without a master: %v", got.header)
	}
}

// TestReplayed: a repeated answer is marked as such, with any status, also
// through a replica.
func TestReplayed(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	for _, n := range []*node{master, replica} {
		for i, c := range []struct{ method, target string }{
			{"PUT", "/v1/files/a?session=s1"}, {"POST", "/v1/files/a?session=s1"}, {"DELETE", "/v1/files/a?session=s1"}, {"DELETE", "/v1/files?prefix=/a/&session=s1"},
		} {
			key := fmt.Sprint(n.id, i)
			for _, want := range []string{"", "true"} {
				if got := call(t, c.method, n.url+c.target, "", "Idempotency-Key", key); got.header.Get(lockapi.HeaderReplayed) != want || got.status >= 300 {
					t.Errorf("%s %s: %d %v", c.method, c.target, got.status, got.header)
				}
			}
		}
	}
}
