package apicheck

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Step is one call. In its path, body and header values, ${name} is replaced by
// a value that an earlier step saved.
type Step struct {
	Name   string
	Method string
	Path   string // including the query
	Body   string
	Header map[string]string
	Events int               // for a stream: the number of events to read; 0 means one
	Status int               // expected status
	Code   string            // expected error code
	Save   map[string]string // variable → field of the reply
}

// Steps are calls that exercise each operation of Stout's API with each of its
// successes, and with the errors of valid calls. They run in this order on any
// server with a master, and clean up after themselves.
var Steps = []Step{
	{Name: "open a session with defaults", Method: "POST", Path: "/v1/sessions", Status: 201, Save: map[string]string{"a": "id"}},
	{Name: "open a session with everything", Method: "POST", Path: "/v1/sessions", Status: 201, Save: map[string]string{"b": "id"},
		Body: `{"ttl_ms":20000,"name":"apicheck <&> é","meta":{"pid":"811"}}`, Header: map[string]string{"Idempotency-Key": "apicheck ${a}"}},
	{Name: "keepalive", Method: "POST", Path: "/v1/sessions/${a}/keepalive", Body: `{"wait_ms":0,"ack":0}`, Status: 200},
	{Name: "keepalive of an unknown session", Method: "POST", Path: "/v1/sessions/nobody/keepalive", Status: 404, Code: "session_not_found"},
	{Name: "keepalive of all", Method: "POST", Path: "/v1/keepalives", Body: `{"sessions":[{"id":"${a}"},{"id":"${b}","ack":0},{"id":"nobody"}]}`, Status: 200},
	{Name: "acquire", Method: "PUT", Path: "/v1/locks/apicheck/a%20b", Body: `{"session":"${a}","lock_delay_ms":1}`, Status: 200,
		Save: map[string]string{"token": "token", "sequencer": "sequencer"}},
	{Name: "acquire what is held", Method: "PUT", Path: "/v1/locks/apicheck/a%20b", Body: `{"session":"${b}"}`, Status: 423, Code: "lock_held"},
	{Name: "queue", Method: "PUT", Path: "/v1/locks/apicheck/a%20b", Body: `{"session":"${b}","handle":"h","queue":true}`, Status: 202},
	{Name: "acquire in another mode", Method: "PUT", Path: "/v1/locks/apicheck/a%20b", Body: `{"session":"${a}","mode":"shared"}`, Status: 409, Code: "conflict"},
	{Name: "acquire for an unknown session", Method: "PUT", Path: "/v1/locks/apicheck/c", Body: `{"session":"nobody"}`, Status: 404, Code: "session_not_found"},
	{Name: "read a held lock", Method: "GET", Path: "/v1/locks/apicheck/a%20b", Status: 200},
	{Name: "read the queue", Method: "GET", Path: "/v1/locks/apicheck/a%20b?waiters=5", Status: 200},
	{Name: "read an empty queue", Method: "GET", Path: "/v1/locks/apicheck/free?waiters=1000", Status: 200},
	{Name: "read a free lock", Method: "GET", Path: "/v1/locks/apicheck/free", Status: 200},
	{Name: "read a lock, stale", Method: "GET", Path: "/v1/locks/apicheck/a%20b?consistency=stale", Status: 200},
	{Name: "list locks", Method: "GET", Path: "/v1/locks?prefix=/apicheck/&limit=10&after=/apicheck", Status: 200},
	{Name: "check a sequencer", Method: "GET", Path: "/v1/sequencers?value=${sequencer}", Status: 200},
	{Name: "check an unknown sequencer", Method: "GET", Path: "/v1/sequencers?value=shared:1:/apicheck/free", Status: 200},
	{Name: "read the holder", Method: "GET", Path: "/v1/sessions/${a}", Status: 200},
	{Name: "read the waiter", Method: "GET", Path: "/v1/sessions/${b}?consistency=linearizable", Status: 200},
	{Name: "read an unknown session", Method: "GET", Path: "/v1/sessions/nobody", Status: 404, Code: "session_not_found"},
	{Name: "list sessions", Method: "GET", Path: "/v1/sessions?limit=1", Status: 200},
	{Name: "list sessions, stale", Method: "GET", Path: "/v1/sessions?consistency=stale", Status: 200},
	{Name: "acquire a lock for the first session to wait for", Method: "PUT", Path: "/v1/locks/apicheck/w", Body: `{"session":"${b}"}`, Status: 200},
	{Name: "queue the first session", Method: "PUT", Path: "/v1/locks/apicheck/w", Body: `{"session":"${a}","queue":true}`, Status: 202},
	{Name: "deadlocks", Method: "GET", Path: "/v1/deadlocks", Status: 200},
	{Name: "deadlocks, stale", Method: "GET", Path: "/v1/deadlocks?consistency=stale", Status: 200},
	{Name: "release", Method: "DELETE", Path: "/v1/locks/apicheck/a%20b?session=${a}&handle=&token=${token}", Status: 200},
	{Name: "release again", Method: "DELETE", Path: "/v1/locks/apicheck/a%20b?session=${a}", Status: 200},
	{Name: "release by force", Method: "DELETE", Path: "/v1/locks/apicheck/w?session=${b}&by_force=true", Status: 200},
	{Name: "release for an unknown session", Method: "DELETE", Path: "/v1/locks/apicheck/a%20b?session=nobody", Status: 404, Code: "session_not_found"},
	{Name: "create a file", Method: "PUT", Path: "/v1/files/apicheck/f", Body: "x=1", Header: map[string]string{"If-None-Match": "*"}, Status: 201,
		Save: map[string]string{"revision": "revision"}},
	{Name: "create what is there", Method: "PUT", Path: "/v1/files/apicheck/f", Header: map[string]string{"If-None-Match": "*"}, Status: 412, Code: "precondition_failed"},
	{Name: "change a file", Method: "PUT", Path: "/v1/files/apicheck/f?session=${a}&ephemeral=false", Body: "x=2",
		Header: map[string]string{"If-Match": `"${revision}"`, "Idempotency-Key": "k1"}, Status: 200, Save: map[string]string{"now": "revision"}},
	{Name: "change what has changed", Method: "PUT", Path: "/v1/files/apicheck/f", Header: map[string]string{"If-Match": `"${revision}"`}, Status: 412, Code: "precondition_failed"},
	{Name: "change what has changed, and get the content", Method: "PUT", Path: "/v1/files/apicheck/f?as=json&content=true", Header: map[string]string{"If-Match": `"${revision}"`}, Status: 412, Code: "precondition_failed"},
	{Name: "write for an unknown session", Method: "PUT", Path: "/v1/files/apicheck/f?session=nobody", Status: 404, Code: "session_not_found"},
	{Name: "a numbered file", Method: "POST", Path: "/v1/files/apicheck/q/?session=${a}&ephemeral=true", Body: "\xff", Status: 201},
	{Name: "read a file", Method: "GET", Path: "/v1/files/apicheck/f", Status: 200},
	{Name: "read a file again", Method: "GET", Path: "/v1/files/apicheck/f", Header: map[string]string{"If-None-Match": `"${now}"`}, Status: 304},
	{Name: "read a file as JSON", Method: "GET", Path: "/v1/files/apicheck/f?as=json&consistency=linearizable", Status: 200},
	{Name: "read no file", Method: "GET", Path: "/v1/files/apicheck/none", Status: 404, Code: "not_found"},
	{Name: "list files", Method: "GET", Path: "/v1/files?prefix=/apicheck/&delimiter=/&content=true&limit=10", Status: 200},
	{Name: "list files, stale", Method: "GET", Path: "/v1/files?prefix=/apicheck/&content=true&consistency=stale", Status: 200},
	{Name: "delete a file", Method: "DELETE", Path: "/v1/files/apicheck/f", Header: map[string]string{"If-Match": `"${now}"`}, Status: 200},
	{Name: "delete no file", Method: "DELETE", Path: "/v1/files/apicheck/f", Status: 200},
	{Name: "a transaction", Method: "POST", Path: "/v1/transactions", Header: map[string]string{"Idempotency-Key": "k2"}, Status: 200,
		Body: `{"session":"${a}","if":[{"file":"/apicheck/f","exists":false},{"session":"${a}"}],"then":[{"put":{"path":"/apicheck/g","content":"x"}},{"get":{"path":"/apicheck/g"}},` +
			`{"get":{"path":"/apicheck/none"}},{"acquire":{"path":"/apicheck/t","mode":"shared","limit":2}},{"release":{"path":"/apicheck/t"}},{"delete":{"path":"/apicheck/g"}}],"else":[]}`},
	{Name: "a transaction for an unknown session", Method: "POST", Path: "/v1/transactions", Body: `{"session":"nobody"}`, Status: 404, Code: "session_not_found"},
	{Name: "events", Method: "GET", Path: "/v1/events?after=${revision}&prefix=/apicheck/&path=/apicheck/f&content=true&limit=1000", Status: 200},
	{Name: "events from now on", Method: "GET", Path: "/v1/events?types=file_created,lock_acquired&wait_ms=1", Status: 200},
	{Name: "a stream from now on", Method: "GET", Path: "/v1/events?types=master_changed", Header: map[string]string{"Accept": "text/event-stream"}, Status: 200},
	{Name: "history of a lock", Method: "GET", Path: "/v1/history?path=/apicheck/a%20b", Status: 200},
	{Name: "history of a file", Method: "GET", Path: "/v1/history?path=/apicheck/f&limit=2", Status: 200},
	{Name: "history of nothing", Method: "GET", Path: "/v1/history?path=/apicheck/none", Status: 200},
	{Name: "delete what is below", Method: "DELETE", Path: "/v1/files?prefix=/apicheck/", Status: 200},
	{Name: "the grant as an event", Method: "POST", Path: "/v1/sessions/${b}/keepalive", Body: `{"wait_ms":5000}`, Status: 200},
	{Name: "close the waiter", Method: "DELETE", Path: "/v1/sessions/${b}", Status: 204},
	{Name: "close the holder", Method: "DELETE", Path: "/v1/sessions/${a}", Status: 204},
	{Name: "close again", Method: "DELETE", Path: "/v1/sessions/${a}", Status: 204},
	{Name: "a rule", Method: "PUT", Path: "/v1/access/rules/apicheck", Body: `{"read":["*"],"lock":["user:a","group:apicheck"],"write":[]}`, Status: 200},
	{Name: "a malformed rule", Method: "PUT", Path: "/v1/access/rules/apicheck", Body: `{"read":["nobody"]}`, Status: 400, Code: "invalid_argument"},
	{Name: "read a rule", Method: "GET", Path: "/v1/access/rules/apicheck", Status: 200},
	{Name: "read no rule", Method: "GET", Path: "/v1/access/rules/apicheck/none", Status: 404, Code: "not_found"},
	{Name: "list rules", Method: "GET", Path: "/v1/access/rules?prefix=/apicheck&limit=10", Status: 200},
	{Name: "a group", Method: "PUT", Path: "/v1/access/groups/apicheck", Body: `{"members":["user:b"]}`, Status: 200},
	{Name: "read a group", Method: "GET", Path: "/v1/access/groups/apicheck", Status: 200},
	{Name: "read no group", Method: "GET", Path: "/v1/access/groups/none", Status: 404, Code: "not_found"},
	{Name: "list groups", Method: "GET", Path: "/v1/access/groups?consistency=stale", Status: 200},
	{Name: "a quota", Method: "PUT", Path: "/v1/access/quotas/user:spiffe%3A%2F%2Fapicheck/b", Body: `{"files":3,"calls_per_second":100,"burst":1000}`, Status: 200},
	{Name: "a malformed quota", Method: "PUT", Path: "/v1/access/quotas/*", Body: `{"burst":3}`, Status: 400, Code: "invalid_argument"},
	{Name: "read a quota", Method: "GET", Path: "/v1/access/quotas/user:spiffe://apicheck/b", Status: 200},
	{Name: "read no quota", Method: "GET", Path: "/v1/access/quotas/group:none", Status: 404, Code: "not_found"},
	{Name: "list quotas", Method: "GET", Path: "/v1/access/quotas?after=*&limit=1", Status: 200},
	{Name: "list quotas, stale", Method: "GET", Path: "/v1/access/quotas?consistency=stale", Status: 200},
	{Name: "remove a quota", Method: "DELETE", Path: "/v1/access/quotas/user:spiffe:%2f%2fapicheck/b", Status: 204},
	{Name: "the lists of the cell", Method: "PUT", Path: "/v1/access/cell", Body: `{"observe":["*"],"operate":["group:ops"]}`, Status: 200},
	{Name: "read the lists of the cell", Method: "GET", Path: "/v1/access/cell", Status: 200},
	{Name: "check", Method: "GET", Path: "/v1/access/check?path=/apicheck/a&principal=user:b", Status: 200},
	{Name: "a token", Method: "POST", Path: "/v1/access/tokens", Body: `{"principal":"user:b","ttl_ms":60000,"note":"apicheck"}`, Status: 201, Save: map[string]string{"tokenid": "id"}},
	{Name: "a token for anonymous", Method: "POST", Path: "/v1/access/tokens", Body: `{"principal":"anonymous"}`, Status: 400, Code: "invalid_argument"},
	{Name: "list tokens", Method: "GET", Path: "/v1/access/tokens?limit=1", Status: 200},
	{Name: "end a token", Method: "DELETE", Path: "/v1/access/tokens/${tokenid}", Status: 204},
	{Name: "enable", Method: "POST", Path: "/v1/access/enable", Status: 201, Save: map[string]string{"root": "token", "tokenid": "id"}},
	{Name: "own principal", Method: "GET", Path: "/v1/access/whoami", Header: map[string]string{"Authorization": "Bearer ${root}"}, Status: 200},
	{Name: "a bad credential", Method: "GET", Path: "/v1/access/whoami", Header: map[string]string{"Authorization": "Bearer x"}, Status: 401, Code: "unauthenticated"},
	{Name: "enable again", Method: "POST", Path: "/v1/access/enable", Header: map[string]string{"Authorization": "Bearer ${root}"}, Status: 409, Code: "conflict"},
	{Name: "disable", Method: "POST", Path: "/v1/access/disable", Header: map[string]string{"Authorization": "Bearer ${root}"}, Status: 204},
	{Name: "end the root's token", Method: "DELETE", Path: "/v1/access/tokens/${tokenid}", Status: 204},
	{Name: "clear the lists of the cell", Method: "PUT", Path: "/v1/access/cell", Body: `{"observe":[],"operate":[]}`, Status: 200},
	{Name: "remove a group", Method: "DELETE", Path: "/v1/access/groups/apicheck", Status: 204},
	{Name: "remove the rules below a path", Method: "DELETE", Path: "/v1/access/rules?prefix=/apicheck/", Status: 200},
	{Name: "remove rules below nothing", Method: "DELETE", Path: "/v1/access/rules?prefix=/apicheck", Status: 400, Code: "invalid_argument"},
	{Name: "remove a rule", Method: "DELETE", Path: "/v1/access/rules/apicheck", Status: 204},
	{Name: "cell", Method: "GET", Path: "/v1/cell", Status: 200, Save: map[string]string{"master": "master.id", "cell": "cell"}},
	{Name: "cell, own view", Method: "GET", Path: "/v1/cell", Header: map[string]string{"Stout-Forward": "never"}, Status: 200},
	{Name: "transfer to the master", Method: "POST", Path: "/v1/cell/transfer", Body: `{"to":"${master}"}`, Status: 200},
	{Name: "backup", Method: "GET", Path: "/v1/backup", Status: 200},
	{Name: "replica", Method: "GET", Path: "/v1/replica", Status: 200, Save: map[string]string{"self": "id", "directory": "directory"}},
	{Name: "URLs", Method: "GET", Path: "/v1/cell/urls", Status: 200},
	{Name: "URLs, own view", Method: "GET", Path: "/v1/cell/urls?consistency=stale", Status: 200},
	{Name: "members", Method: "GET", Path: "/v1/members", Status: 200},
	{Name: "members, own view", Method: "GET", Path: "/v1/members?consistency=stale", Status: 200},
	{Name: "a member that stays without a vote", Method: "POST", Path: "/v1/members",
		Body: `{"id":"apicheck","directory":"00000000000a91c8","raft_addr":"127.0.0.1:9","url":"http://127.0.0.1:9","suffrage":"nonvoter"}`, Status: 202},
	{Name: "it moves", Method: "PATCH", Path: "/v1/members/apicheck", Body: `{"url":"http://127.0.0.1:8"}`, Status: 200},
	{Name: "it is removed by another directory", Method: "DELETE", Path: "/v1/members/apicheck?directory=0123456789abcdef", Status: 409, Code: "conflict"},
	{Name: "it is removed", Method: "DELETE", Path: "/v1/members/apicheck?directory=00000000000a91c8", Status: 200},
	{Name: "remove an unknown member", Method: "DELETE", Path: "/v1/members/nobody", Status: 404, Code: "not_found"},
	{Name: "join", Method: "GET", Path: "/v1/join?cell=${cell}", Status: 200},
	{Name: "join another cell", Method: "GET", Path: "/v1/join?cell=another-one", Status: 404, Code: "not_found"},
	{Name: "replace a directory by itself", Method: "POST", Path: "/v1/members/${self}/replace?force=true", Body: `{"directory":"${directory}"}`, Status: 202},
	{Name: "replace another directory", Method: "POST", Path: "/v1/members/${self}/replace", Body: `{"directory":"00000000000a91c8","in_place_of":"0123456789abcdef"}`, Status: 409, Code: "conflict"},
	{Name: "replace nobody", Method: "POST", Path: "/v1/members/nobody/replace", Body: `{"directory":"${directory}"}`, Status: 404, Code: "not_found"},
	{Name: "document", Method: "GET", Path: "/v1/openapi.yaml", Status: 200},
	{Name: "a file of the page", Method: "GET", Path: "/ui/page.js", Status: 200},
	{Name: "live", Method: "GET", Path: "/livez", Status: 200},
	{Name: "ready", Method: "GET", Path: "/readyz", Status: 200},
	{Name: "metrics", Method: "GET", Path: "/metrics", Status: 200},
}

// StreamSteps read the events of Steps and of their own calls, on a cell that
// publishes events.
var StreamSteps = []Step{
	{Name: "open a session", Method: "POST", Path: "/v1/sessions", Status: 201, Save: map[string]string{"a": "id"}},
	{Name: "create", Method: "PUT", Path: "/v1/files/apicheck/s?ephemeral=true&session=${a}", Body: "data: x\n\nid: 1\n", Status: 201, Save: map[string]string{"revision": "revision"}},
	{Name: "change", Method: "PUT", Path: "/v1/files/apicheck/s", Body: "\xff\n\n", Status: 200},
	{Name: "acquire", Method: "PUT", Path: "/v1/locks/apicheck/s", Body: `{"session":"${a}"}`, Status: 200},
	{Name: "queue", Method: "PUT", Path: "/v1/locks/apicheck/s", Body: `{"session":"${a}","handle":"h","queue":true}`, Status: 202},
	{Name: "close", Method: "DELETE", Path: "/v1/sessions/${a}", Status: 204},
	{Name: "every change", Method: "GET", Path: "/v1/events?after=0&content=true", Header: map[string]string{"Accept": "text/event-stream"}, Events: 20, Status: 200},
	{Name: "go on", Method: "GET", Path: "/v1/events?after=9007199254740991&prefix=/apicheck/&content=true",
		Header: map[string]string{"Accept": "text/event-stream", "Last-Event-ID": "${revision}"}, Events: 4, Status: 200},
	{Name: "the same as JSON", Method: "GET", Path: "/v1/events?after=${revision}&prefix=/apicheck/&content=true&wait_ms=5000", Status: 200},
}

// Run executes the steps against the server at base, through the checker.
func Run(t *testing.T, c *Checker, base string, steps []Step) {
	t.Helper()
	saved := map[string]string{}
	for _, s := range steps {
		t.Run(s.Name, func(t *testing.T) {
			if err := s.run(t.Context(), c, base, saved); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s Step) run(ctx context.Context, c *Checker, base string, saved map[string]string) error {
	fill := func(text string) string { return os.Expand(text, func(name string) string { return saved[name] }) }
	var body io.Reader
	if s.Body != "" {
		body = strings.NewReader(fill(s.Body))
	}
	if s.Events > 0 {
		ctx = WithEvents(ctx, s.Events)
	}
	req, err := http.NewRequestWithContext(ctx, s.Method, base+strings.ReplaceAll(fill(s.Path), " ", "%20"), body)
	if err != nil {
		return err
	}
	if s.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range s.Header {
		req.Header.Set(name, fill(value))
	}
	resp, err := (&http.Client{Transport: c}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != s.Status {
		return fmt.Errorf("status %d, want %d: %s", resp.StatusCode, s.Status, got)
	}
	return s.keep(got, saved)
}

// keep checks the reply's code and saves the fields for later steps.
func (s Step) keep(reply []byte, saved map[string]string) error {
	if s.Code == "" && len(s.Save) == 0 {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(reply, &fields); err != nil {
		return err
	}
	if s.Code != "" && fields["code"] != s.Code {
		return fmt.Errorf("code %v, want %s", fields["code"], s.Code)
	}
	for name, path := range s.Save {
		value := any(fields)
		for part := range strings.SplitSeq(path, ".") {
			object, _ := value.(map[string]any)
			value = object[part]
		}
		if value == nil {
			return fmt.Errorf("the reply has no field %s: %s", path, reply)
		}
		if n, ok := value.(float64); ok {
			value = int64(n)
		}
		saved[name] = fmt.Sprint(value)
	}
	return nil
}
