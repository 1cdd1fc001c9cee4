package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// refused lists calls for files with one violation of the contract each, and
// the field that the error names.
var refused = []struct{ call, headers, field string }{
	// Paths.
	{"PUT /v1/files/", "", "path"},
	{"PUT /v1/files/a/", "", "path"},
	{"PUT /v1/files//a", "", "path"},
	{"PUT /v1/files/a%2F", "", "path"},
	{"PUT /v1/files/a/..", "", "path"},
	{"PUT /v1/files/a%0Ab", "", "path"},
	{"PUT /v1/files/a%FF", "", "path"},
	{"PUT /v1/files/" + strings.Repeat("x", 256), "", "path"},
	{"PUT /v1/files" + strings.Repeat("/s", 33), "", "path"},
	{"GET /v1/files/", "", "path"},
	{"DELETE /v1/files/a/", "", "path"},
	{"POST /v1/files//", "", "path"},
	{"POST /v1/files/a//", "", "path"},
	{"POST /v1/files/a%2F%2F", "", "path"},
	{"POST /v1/files/" + strings.Repeat("x", 240), "", "path"},
	{"POST /v1/files" + strings.Repeat("/s", 32) + "/", "", "path"},

	// Parameters.
	{"PUT /v1/files/a?sesion=s1", "", "sesion"},
	{"PUT /v1/files/a?consistency=stale", "", "consistency"},
	{"PUT /v1/files/a?revision=1", "", "revision"},
	{"PUT /v1/files/a?as=xml", "", "as"},
	{"PUT /v1/files/a?as=", "", "as"},
	{"PUT /v1/files/a?content=1", "", "content"},
	{"PUT /v1/files/a?content=", "", "content"},
	{"PUT /v1/files/a?content=true&content=true", "", "content"},
	{"POST /v1/files/a?as=json", "", "as"},
	{"POST /v1/files/a?content=true", "", "content"},
	{"DELETE /v1/files/a?content=true", "", "content"},
	{"PUT /v1/files/a?session=s1&session=s1", "", "session"},
	{"PUT /v1/files/a?session=", "", "session"},
	{"PUT /v1/files/a?ephemeral=true", "", "ephemeral"},
	{"PUT /v1/files/a?ephemeral=true&session=", "", "session"},
	{"PUT /v1/files/a?ephemeral=", "", "ephemeral"},
	{"PUT /v1/files/a?ephemeral=1&session=s1", "", "ephemeral"},
	{"PUT /v1/files/a?ephemeral=True&session=s1", "", "ephemeral"},
	{"PUT /v1/files/a?ephemeral=true&ephemeral=false&session=s1", "", "ephemeral"},
	{"PUT /v1/files/a?sequencer=", "", "sequencer"},
	{"PUT /v1/files/a?sequencer=42", "", "sequencer"},
	{"PUT /v1/files/a?sequencer=exclusive:0:/l", "", "sequencer"},
	{"PUT /v1/files/a?sequencer=exclusive:1:/l&sequencer=all:1:/l", "", "sequencer"},
	{"PUT /v1/files/a?sequencer=exclusive:1:/l%00exclusive:2:/l", "", "sequencer"},
	{"PUT /v1/files/a?" + strings.Repeat("sequencer=exclusive:1:/l&", 9), "", "sequencer"},
	{"POST /v1/files/a?ephemeral=true", "", "ephemeral"},
	{"POST /v1/files/a?sequential=true", "", "sequential"},
	{"GET /v1/files/a?as=", "", "as"},
	{"GET /v1/files/a?as=xml", "", "as"},
	{"GET /v1/files/a?session=s1", "", "session"},
	{"GET /v1/files/a?prefix=/", "", "prefix"},
	{"GET /v1/files/a?consistency=best", "", "consistency"},
	{"GET /v1/files/a?content=yes&as=json", "", "content"},
	{"GET /v1/files?delimiter=", "", "delimiter"},
	{"GET /v1/files?delimiter=%2D", "", "delimiter"},
	{"GET /v1/files?delimiter=//", "", "delimiter"},
	{"GET /v1/files?content=1", "", "content"},
	{"GET /v1/files?limit=0", "", "limit"},
	{"GET /v1/files?limit=1001", "", "limit"},
	{"GET /v1/files?as=json", "", "as"},
	{"GET /v1/files?prefix=foo", "", "prefix"},
	{"GET /v1/files?prefix=foo/&content=true", "", "prefix"},
	{"GET /v1/files?prefix=%20/a", "", "prefix"},
	{"GET /v1/files?prefix=/a&prefix=/b", "", "prefix"},
	{"DELETE /v1/files/a?ephemeral=false", "", "ephemeral"},
	{"DELETE /v1/files/a?prefix=/a/", "", "prefix"},
	{"DELETE /v1/files/a?sequencer=x", "", "sequencer"},
	{"DELETE /v1/files/a?session=", "", "session"},
	{"DELETE /v1/files", "", "prefix"},
	{"DELETE /v1/files?prefix=", "", "prefix"},
	{"DELETE /v1/files?prefix=/", "", "prefix"},
	{"DELETE /v1/files?prefix=//", "", "prefix"},
	{"DELETE /v1/files?prefix=/app", "", "prefix"},
	{"DELETE /v1/files?prefix=app/", "", "prefix"},
	{"DELETE /v1/files?prefix=/a/../", "", "prefix"},
	{"DELETE /v1/files?prefix=/a/&prefix=/b/", "", "prefix"},
	{"DELETE /v1/files?prefix=/a/&limit=5", "", "limit"},

	// Headers.
	{"PUT /v1/files/a", `If-Match: 57`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "x"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: ""`, "If-Match"},
	{"PUT /v1/files/a", `If-Match:`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: *`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "-1"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "0"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "057"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: W/"57"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "57", "58"`, "If-Match"},
	{"PUT /v1/files/a", `If-Match: "9007199254740992"`, "If-Match"},
	{"PUT /v1/files/a", "If-Match: \"57\"\r\nIf-Match: \"57\"", "If-Match"},
	{"PUT /v1/files/a", `If-None-Match: "57"`, "If-None-Match"},
	{"PUT /v1/files/a", `If-None-Match:`, "If-None-Match"},
	{"PUT /v1/files/a", "If-None-Match: *\r\nIf-None-Match: *", "If-None-Match"},
	{"PUT /v1/files/a", "If-Match: \"57\"\r\nIf-None-Match: *", "If-None-Match"},
	{"PUT /v1/files/a", "Idempotency-Key: k", "Idempotency-Key"},
	{"PUT /v1/files/a?session=s1", "Idempotency-Key: " + strings.Repeat("k", 129), "Idempotency-Key"},
	{"PUT /v1/files/a?session=s1", "Idempotency-Key: k\r\nIdempotency-Key: k", "Idempotency-Key"},
	{"PUT /v1/files/a?session=s1", "Idempotency-Key:", "Idempotency-Key"},
	{"PUT /v1/files/a", "Stout-Forward: always", "Stout-Forward"},
	{"POST /v1/files/a", `If-Match: "57"`, "If-Match"},
	{"POST /v1/files/a", `If-Match: x`, "If-Match"},
	{"POST /v1/files/a", "If-None-Match: *", "If-None-Match"},
	{"POST /v1/files/a", "Idempotency-Key: k", "Idempotency-Key"},
	{"GET /v1/files/a", `If-Match: "57"`, "If-Match"},
	{"GET /v1/files", `If-Match: "57"`, "If-Match"},
	{"DELETE /v1/files/a", `If-Match: 57`, "If-Match"},
	{"DELETE /v1/files/a", "If-None-Match: *", "If-None-Match"},
	{"DELETE /v1/files/a", "Idempotency-Key: k", "Idempotency-Key"},
	{"DELETE /v1/files?prefix=/a/", `If-Match: "57"`, "If-Match"},
	{"DELETE /v1/files?prefix=/a/", "If-None-Match: *", "If-None-Match"},
	{"DELETE /v1/files?prefix=/a/", "Idempotency-Key: k", "Idempotency-Key"},
	{"POST /v1/transactions", `If-Match: "57"`, "If-Match"},
	{"POST /v1/transactions", "If-None-Match: *", "If-None-Match"},
}

// TestRefusedFileCalls: each gets 400 with the field, from the master and from
// a replica, without an effect.
func TestRefusedFileCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, c := range refused {
		method, target, _ := strings.Cut(c.call, " ")
		headers := c.headers
		if headers != "" {
			headers += "\r\n"
		}
		for _, n := range []*node{master, replica} {
			got := raw(t, n, method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n%s\r\nx", method, target, headers))
			if got.status < 400 {
				t.Errorf("%s of %s with %q is taken: %d", clip(c.call), n.id, c.headers, got.status)
				continue
			}
			if e := got.problem(t); e.Code != lockapi.CodeInvalidArgument || e.Field != c.field {
				t.Errorf("%s of %s with %q: %d, field %q, want %q: %s", clip(c.call), n.id, c.headers, got.status, e.Field, c.field, got.body)
			}
		}
	}
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("calls went on to the master: %q", calls)
	}
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
