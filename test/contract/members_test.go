package contract_test

import (
	"net/http"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// members: each replica returns the members.
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
