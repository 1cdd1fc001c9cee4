//go:build unix

package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoutlock/stout/lockapi"
)

// cmdHung sets an environment variable to the URL of a server that takes calls
// and answers none: hung NAME.
func cmdHung(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

// cmdOutsider puts a replica in the place of r3 that has another directory than
// the member, and sets r3 to its URL and R3
// to its address; outsider gone ends that.
func cmdOutsider(ts *testscript.TestScript, neg bool, args []string) {
	s := httptest.NewServer(http.HandlerFunc(outsider))
	ts.Defer(s.Close)
	c := ts.Value(cellKey{}).(*fakeCell)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.third = s.URL; len(args) > 0 {
		c.third = ""
	}
	ts.Setenv("r3", s.URL)
	ts.Setenv("R3", strings.TrimPrefix(s.URL, "http://"))
}

// newDirectory is the directory that an outsider has.
const newDirectory = "00c0ffee00c0ffee"

// outsider answers as a replica does that is none of its cell's.
func outsider(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == lockapi.RouteReplica {
		_ = json.NewEncoder(w).Encode(lockapi.Replica{ID: "r3", Directory: newDirectory, Role: lockapi.RoleNonvoter})
		return
	}
	writeError(w, &lockapi.Error{
		Code: lockapi.CodeNoMaster, Directory: newDirectory, Command: "stout member replace r3",
		Detail: "this replica is r3 by name, and its data directory " + newDirectory +
			" is not the one of member r3; it was wiped or replaced, and does nothing until it is admitted",
	})
}
