package apicheck_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/apicheck"
	"github.com/stoutlock/stout/lockapi"
)

// canned answers every request with the same reply.
type canned struct {
	status              int
	contentType, body   string
	withoutEpoch, stale bool
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {c.contentType}, "Stout-Epoch": {"3"}, "Stout-Revision": {"57"}}
	if c.withoutEpoch {
		h.Del("Stout-Epoch")
	}
	if c.stale {
		h.Set("Stout-Stale", "yes")
	}
	return &http.Response{StatusCode: c.status, Header: h, Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
}

func load(t *testing.T) *apicheck.Document {
	t.Helper()
	doc, err := apicheck.Load(lockapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

const (
	problem = `{"type":"about:blank","title":"Locked","status":423,"code":"lock_held","detail":"x"}`
	ptype   = "application/problem+json"
	jtype   = "application/json"
	free    = `{"path":"/a","state":"free","limit":0,"holders":[],"waiters":0,"delay_remaining_ms":0}`
	queued  = `{"path":"/a","state":"queued","session":"s","handle":"","mode":"shared","position":1}`
)

func TestCheckerSeesWhatIsNotAsDocumented(t *testing.T) {
	for _, c := range []struct {
		name, call, body string
		reply            canned
		fault            string // part of the error, or ""
	}{
		{"a read", "GET /v1/locks/a/b", "", canned{status: 200, contentType: jtype, body: free}, ""},
		{"a queued grant", "PUT /v1/locks/a", `{"session":"s"}`, canned{status: 202, contentType: jtype, body: queued}, ""},
		{"an error", "PUT /v1/locks/a", `{"session":"s"}`, canned{status: 423, contentType: ptype, body: problem}, ""},
		{"no route", "GET /v1/nothing", "", canned{}, "no operation"},
		{"no method", "PATCH /v1/locks/a", "", canned{}, "no operation"},
		{"a bad request", "PUT /v1/locks/a", `{"session":"s","mode":"x"}`, canned{}, "request"},
		{"an unknown field in a request", "PUT /v1/locks/a", `{"session":"s","x":1}`, canned{}, "request"},
		{"a missing parameter", "DELETE /v1/locks/a", "", canned{}, "request"},
		{"a status that is not documented", "GET /v1/locks/a", "", canned{status: 201, contentType: jtype, body: free}, "reply 201"},
		{"another media type", "GET /v1/locks/a", "", canned{status: 200, contentType: "text/plain", body: free}, "reply 200"},
		{"a missing field", "GET /v1/locks/a", "", canned{status: 200, contentType: jtype, body: `{"path":"/a"}`}, "reply 200"},
		{"a field too many", "GET /v1/locks/a", "", canned{status: 200, contentType: jtype, body: strings.Replace(free, "{", `{"x":1,`, 1)}, "reply 200"},
		{"null for a list", "GET /v1/locks/a", "", canned{status: 200, contentType: jtype, body: strings.Replace(free, "[]", "null", 1)}, "reply 200"},
		{"a token on a queued grant", "PUT /v1/locks/a", `{"session":"s"}`, canned{status: 202, contentType: jtype, body: strings.Replace(queued, "{", `{"token":0,`, 1)}, "reply 202"},
		{"an unknown code", "GET /v1/locks/a", "", canned{status: 400, contentType: ptype, body: strings.Replace(problem, "lock_held", "held", 1)}, "reply 400"},
		{"a missing header", "GET /v1/locks/a", "", canned{status: 200, contentType: jtype, body: free, withoutEpoch: true}, "reply 200"},
		{"events", "GET /v1/events", "", canned{status: 200, contentType: jtype, body: `{"revision":7,"events":[` + master + `]}`}, ""},
		{"an event with a field of another", "GET /v1/events", "", canned{status: 200, contentType: jtype, body: `{"revision":7,"events":[` + strings.Replace(master, "}", `,"mode":"shared"}`, 1) + `]}`}, "reply 200"},
		{"a bad header", "GET /v1/locks/a", "", canned{status: 200, contentType: jtype, body: free, stale: true}, "reply 200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			method, path, _ := strings.Cut(c.call, " ")
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			if c.body != "" {
				r.Header.Set("Content-Type", jtype)
			}
			_, err = apicheck.NewChecker(load(t), c.reply).RoundTrip(r)
			switch {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("error %v, want one with %q", err, c.fault)
			}
		})
	}
}

const (
	bookmark = "id: 7\nevent: bookmark\ndata: {\"revision\":7,\"cell\":\"c\"}\n\n"
	acquired = `{"revision":7,"type":"lock_acquired","path":"/a","session":"s","session_name":"","handle":"","mode":"shared","token":3}`
	master   = `{"revision":7,"type":"master_changed","epoch":3,"master":"r1"}`
)

func event(name, data string) string { return "id: 7\nevent: " + name + "\ndata: " + data + "\n\n" }

// TestCheckerReadsStreams: the events of a stream, and of a list, have exactly the fields
// of their type.
func TestCheckerReadsStreams(t *testing.T) {
	for _, c := range []struct{ name, body, fault string }{
		{"a bookmark", bookmark, ""},
		{"a grant", event("lock_acquired", acquired), ""},
		{"compacted", event("compacted", `{"oldest":3,"revision":7}`), ""},
		{"what is behind the first event is not read", bookmark + "nonsense", ""},
		{"no empty line", strings.TrimSuffix(bookmark, "\n"), "empty line"},
		{"no data", "id: 7\nevent: bookmark\n\n", "revision"},
		{"another id", strings.Replace(bookmark, "id: 7", "id: 8", 1), "revision"},
		{"another name", event("lock_released", acquired), "its type"},
		{"an unknown name", event("moved", `{"revision":7}`), "reply 200"},
		{"a comment", ": x\n" + bookmark, "reply 200"},
		{"a field twice", "id: 7\n" + bookmark, "line"},
		{"no JSON", event("bookmark", `{"revision":7`), "data of event"},
		{"a grant without its token", event("lock_acquired", strings.Replace(acquired, `,"token":3`, "", 1)), "reply 200"},
		{"a grant with a reason", event("lock_acquired", strings.Replace(acquired, "}", `,"reason":"forced"}`, 1)), "reply 200"},
		{"a master with a path", event("master_changed", strings.Replace(master, "}", `,"path":"/a"}`, 1)), "reply 200"},
		{"a bookmark with more", event("bookmark", `{"revision":7,"cell":"c","oldest":1}`), "reply 200"},
		{"a bookmark of no cell", event("bookmark", `{"revision":7}`), "reply 200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://x/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = apicheck.NewChecker(load(t), canned{status: 200, contentType: "text/event-stream", body: c.body}).RoundTrip(r)
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("error %v, want one with %q", err, c.fault)
			}
		})
	}
}

func TestMissingNamesWhatWasNotSeen(t *testing.T) {
	c := apicheck.NewChecker(load(t), canned{status: 202, contentType: jtype, body: queued})
	r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://x/v1/locks/a", strings.NewReader(`{"session":"s"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", jtype)
	if _, err := c.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	missing := c.Missing()
	if slices.Contains(missing, "acquire 202") || !slices.Contains(missing, "acquire 200") || !slices.Contains(missing, "closeSession 204") {
		t.Errorf("missing %q", missing)
	}
}

func TestLoadRefusesWhatIsNoDocument(t *testing.T) {
	for _, bad := range []string{"", "openapi: 3.1.0", "openapi: 3.1.0\ninfo: {title: x, version: '1'}\npaths: {/x: {get: {responses: {'200': {}}}}}"} {
		if _, err := apicheck.Load([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
