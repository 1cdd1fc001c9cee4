package contract_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// object is a JSON object with the contract's field names.
type object = map[string]any

// call makes a call that must be answered with the given status, and returns
// the answer. Numbers in it are float64.
func call(t *testing.T, r *cell.Replica, status int, method, route, body string, headers ...string) (object, http.Header) {
	t.Helper()
	got := exchange(t, r, method, route, body, headers...)
	if got.status != status {
		t.Fatalf("%s %s %.200s at %s: %d, want %d: %.400s", method, route, body, r.ID, got.status, status, got.body)
	}
	var o object
	if got.body != "" {
		if err := json.Unmarshal([]byte(got.body), &o); err != nil {
			t.Fatalf("%s %s: %v in %.400s", method, route, err, got.body)
		}
	}
	return o, got.header
}

// open opens a session that is closed with the test, and returns its id.
func open(t *testing.T, r *cell.Replica, body string) string {
	t.Helper()
	s, _ := call(t, r, http.StatusCreated, "POST", "/v1/sessions", body)
	id := s["id"].(string)
	t.Cleanup(func() { exchange(t, r, "DELETE", "/v1/sessions/"+id, "") })
	return id
}

// has reports the fields that differ from want. A wanted nil means that the
// field must exist with any value.
func has(got object, want object) error {
	for name, value := range want {
		switch is, there := got[name]; {
		case !there:
			return fmt.Errorf("no %q in %v", name, got)
		case value != nil && fmt.Sprint(is) != fmt.Sprint(value):
			return fmt.Errorf("%q is %v, want %v, in %v", name, is, value, got)
		}
	}
	return nil
}

func list(t *testing.T, o object, name string) []object {
	t.Helper()
	items, ok := o[name].([]any)
	if !ok {
		t.Fatalf("no list %q in %v", name, o)
	}
	out := make([]object, len(items))
	for i, item := range items {
		out[i] = item.(object)
	}
	return out
}

// TestOneCell tests the answers of an undisturbed cell.
func TestOneCell(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "--allow-origin=https://ops.example:8443", "--api-host=stout.example")
	t.Run("replies", func(t *testing.T) { replies(t, c) })
	t.Run("members", func(t *testing.T) { members(t, c) })
	t.Run("answers name the cell", func(t *testing.T) { answersNameTheCell(t, c) })
	t.Run("browsers", func(t *testing.T) { browsers(t, c) })
}

// answersNameTheCell: every answer of a member, also a refusal, carries the
// cell's id.
func answersNameTheCell(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	members, _ := call(t, master, http.StatusOK, "GET", lockapi.RouteMembers, "")
	id, _ := members["cell_id"].(string)
	if id == "" {
		t.Fatalf("no cell_id in %v", members)
	}
	for _, r := range c.Replicas() {
		for route, status := range map[string]int{
			"/v1/cell": 200, "/v1/replica": 200, "/v1/locks/a": 200, "/v1/locks": 200, "/v1/sessions/nobody": 404, "/v1/nowhere": 404,
			"/v1/locks?limit=0": 400, "/v1/members": 200, "/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/openapi.yaml": 200,
		} {
			got := exchange(t, r, "GET", route, "")
			if got.status != status || got.header.Get("Stout-Cell") != id {
				t.Errorf("GET %s at %s: %d with Stout-Cell %q, want %d with %q", route, r.ID, got.status, got.header.Get("Stout-Cell"), status, id)
			}
		}
	}
}

// browsers: a page of another site cannot change the cell. A page with a host
// name that it made resolve to this machine cannot read from it.
func browsers(t *testing.T, c *cell.Cell) {
	for _, r := range c.Replicas() {
		own := strings.TrimPrefix(r.URL, "http://")
		for _, test := range []struct {
			host, origin string
			status       int
		}{
			{own, "https://ops.example:8443", http.StatusCreated}, {own, "http://evil.example", http.StatusForbidden},
			{"stout.example", "http://stout.example", http.StatusCreated}, {"evil.example", "http://evil.example", http.StatusForbidden},
		} {
			got := exchange(t, r, "POST", "/v1/sessions", `{"ttl_ms":1000}`, "Host: "+test.host, "Origin: "+test.origin)
			if got.status != test.status || (got.problem.Code == lockapi.CodeCrossOrigin) != (test.status == http.StatusForbidden) {
				t.Errorf("a page of %s at %s: %d %s", test.origin, test.host, got.status, got.body)
			}
		}
	}
}
