package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

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
