package contract_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// members: each replica tells who the members are.
func members(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	for _, r := range c.Replicas() {
		got, _ := call(t, r, http.StatusOK, "GET", "/v1/members", "")
		if err := has(got, object{"cell_id": nil, "tolerates": 1}); err != nil {
			t.Error(err)
		}
		all := list(t, got, "members")
		if len(all) != len(c.Replicas()) {
			t.Fatalf("at %s: %v", r.ID, got)
		}
		for i, m := range all {
			of := c.Replicas()[i]
			role := "replica"
			if of == master {
				role = "master"
			}
			self, _ := call(t, of, http.StatusOK, "GET", "/v1/replica", "")
			if err := has(m, object{
				"id": of.ID, "directory": self["directory"], "raft_addr": of.RaftAddr, "url": of.URL, "suffrage": "voter", "role": role,
				"healthy": true, "applied_index": nil, "behind": nil, "version": nil, "since": nil,
			}); err != nil {
				t.Errorf("at %s: %v", r.ID, err)
			}
		}
	}
	call(t, master, http.StatusNotFound, "POST", "/v1/members/r9/replace", `{"directory":"0123456789abcdef"}`)
	call(t, master, http.StatusBadRequest, "POST", "/v1/members/r1/replace", `{}`)
}

// TestWipedReplica: a replica whose directory is not the member's does nothing
// but say so, until it is put in the place of the old one.
func TestWipedReplica(t *testing.T) {
	t.Parallel()
	c, master, wiped := start(t)
	session := open(t, master, `{"ttl_ms":600000}`)
	grant, _ := call(t, master, http.StatusOK, "PUT", "/v1/locks/kept", fmt.Sprintf(`{"session":%q}`, session))
	must(t, wiped.Terminate(cell.Bounded(t)))
	must(t, os.RemoveAll(wiped.DataDir))
	must(t, wiped.Start())

	stranger, err := wiped.Stranger(cell.Bounded(t))
	must(t, err)
	if want := "stout member replace " + wiped.ID; !strings.HasPrefix(stranger.Command, want) {
		t.Errorf("/readyz tells the command %q, want %q", stranger.Command, want)
	}
	self, _ := call(t, wiped, http.StatusOK, "GET", "/v1/replica", "")
	if stranger.Directory == "" || self["directory"] != stranger.Directory {
		t.Errorf("/readyz tells directory %q, /v1/replica %v", stranger.Directory, self)
	}
	call(t, wiped, http.StatusOK, "GET", "/livez", "")
	for _, route := range []string{"/v1/locks/kept?consistency=stale", "/v1/members", "/v1/cell", "/metrics", "/v1/nowhere"} {
		call(t, wiped, http.StatusServiceUnavailable, "GET", route, "")
	}

	must(t, c.Admit(cell.Bounded(t), wiped))
	replace := fmt.Sprintf("/v1/members/%s/replace", wiped.ID)
	call(t, wiped, http.StatusAccepted, "POST", replace, fmt.Sprintf(`{"directory":%q}`, stranger.Directory)) // again: nothing to do
	lock, _ := call(t, wiped, http.StatusOK, "GET", "/v1/locks/kept?consistency=stale", "")
	if holders := list(t, lock, "holders"); len(holders) != 1 || holders[0]["token"] != grant["token"] {
		t.Errorf("the new directory has %v, and the grant was %v", lock, grant)
	}
}
