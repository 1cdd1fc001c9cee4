package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// bound enables access and sets the quotas of principals and groups. The
// limits that the policy has for a few principals are checked from then on.
func (c *cell) bound(quotas map[string]map[access.Resource]int64) {
	c.Helper()
	for of, limits := range quotas {
		c.commit(1, &state.PutQuota{Quota: access.Quota{Of: of, Limits: limits}})
	}
	c.commit(1, &state.PutRule{Rule: access.Rule{Path: "/", Lists: map[access.Permission][]string{access.Lock: {"*"}}}})
	if !c.state.AccessOn {
		c.commit(1, &state.EnableAccess{Token: state.Token{ID: "root", Sum: make([]byte, 32), Principal: access.Root}})
	}
	c.limits = map[string]access.Limits{}
	for _, principal := range []string{"", "user:a", "user:b", "user:c", access.Root} {
		c.limits[principal] = c.state.Policy().LimitsOf((&owner{key: principal}).principal())
	}
}

// refusedOf checks that a principal's call was refused because of its quota.
func (c *cell) refusedOf(by string, op state.Operation, quota string, used, limit int64) {
	c.Helper()
	_, err := c.admitAs(by, op)
	var e *lockapi.Error
	who := (&owner{key: by}).principal()
	if !errors.As(err, &e) || e.Code != lockapi.CodeTooMany || e.Quota != quota || e.Principal != who || e.Used != used || e.Limit != limit || e.RetryAfter <= 0 ||
		!strings.HasPrefix(e.Detail, "quota "+quota+" of "+who+" is used up: ") || !strings.Contains(e.Detail, "or have the quota raised") {
		c.Errorf("%v, want a refusal by %s of %s with %d of %d: %+v", err, quota, who, used, limit, e)
	}
}

func (c *cell) mustAs(by string, op state.Operation) {
	c.Helper()
	if err := c.callAs(by, op); err != nil {
		c.Fatal(err)
	}
}

func open(id string) *state.OpenSession { return &state.OpenSession{Session: id, TTLMS: 1000} }

func acquire(session, path string, wait state.WaitFor) *state.Acquire {
	return &state.Acquire{Session: session, Path: path, Mode: state.Exclusive, Wait: wait}
}

type limits = map[access.Resource]int64

func TestSessionsOfPrincipals(t *testing.T) {
	c := newCell(t, Quotas{})
	c.mustAs("user:a", open("s1"))
	c.mustAs("user:a", open("s2"))
	c.bound(map[string]limits{"*": {access.Sessions: 1}})
	c.refusedOf("user:a", open("s3"), "sessions", 2, 1) // what exists stays
	c.mustAs("user:b", open("s3"))
	c.refusedOf("user:b", open("s4"), "sessions", 1, 1)
	c.mustAs(access.Root, open("s4"))
	c.mustAs(access.Root, open("s5"))
	c.commit(1, &state.CloseSession{Session: "s1"})
	c.refusedOf("user:a", open("s6"), "sessions", 1, 1)
	c.commit(1, &state.CloseSession{Session: "s2"})
	under := c.underAs("user:a", open("s6"))
	c.refusedOf("user:a", open("s7"), "sessions", 1, 1)
	c.ledger.Release(under.reserved) // it has failed
	c.mustAs("user:a", open("s7"))
	c.bound(map[string]limits{"user:a": {access.Sessions: 2}})
	c.mustAs("user:a", open("s8"))
	c.commit(1, &state.DisableAccess{})
	c.mustAs("user:a", open("s9"))
}

// underAs begins a principal's call and leaves it under way.
func (c *cell) underAs(by string, op state.Operation) *underway {
	c.Helper()
	u, err := c.admitAs(by, op)
	if err != nil {
		c.Fatal(err)
	}
	return u
}

func TestHandlesOfPrincipals(t *testing.T) {
	c := newCell(t, Quotas{})
	for _, id := range []string{"a1", "a2", "b1"} {
		c.mustAs("user:"+id[:1], open(id))
	}
	c.bound(map[string]limits{"user:a": {access.Holds: 3, access.Waiters: 1}})
	c.mustAs("user:b", acquire("b1", "/b", state.NoWait))
	c.mustAs("user:b", acquire("b1", "/bb", state.NoWait))
	c.mustAs("user:a", acquire("a1", "/a", state.NoWait))
	c.mustAs("user:a", acquire("a1", "/b", state.Persistent))
	c.refusedOf("user:a", acquire("a2", "/bb", state.Persistent), "waiters", 1, 1)
	c.mustAs("user:a", acquire("a2", "/c", state.Persistent)) // it need not wait
	c.refusedOf("user:a", acquire("a1", "/d", state.NoWait), "holds", 3, 3)
	c.mustAs("user:a", acquire("a1", "/a", state.NoWait)) // it has it
	c.refusedOf("user:a", &state.Transaction{Session: "a2", Then: []state.Step{&state.Take{Path: "/d", Mode: state.Exclusive}}}, "holds", 3, 3)
	c.commit(1, &state.Release{Session: "b1", Path: "/b"}) // the position becomes a hold
	c.refusedOf("user:a", acquire("a2", "/bb", state.Persistent), "holds", 3, 3)
	c.commit(1, &state.Release{Session: "a1", Path: "/b"})
	c.mustAs("user:a", acquire("a2", "/bb", state.Persistent))
	c.commit(1, &state.ExpireSession{Session: "a1"})
	c.mustAs("user:a", acquire("a2", "/d", state.NoWait))
}

func TestFilesOfPrincipals(t *testing.T) {
	c := newCell(t, Quotas{})
	c.bound(map[string]limits{"user:a": {access.Files: 2}, "user:b": {access.Files: 1}})
	c.mustAs("user:a", puts(put("/1", 1), put("/2", 1)))
	c.refusedOf("user:a", puts(put("/3", 1)), "files", 2, 2)
	c.refusedOf("user:a", puts(sequential("/q-")), "files", 2, 2)
	c.mustAs("user:a", puts(put("/1", 100)))
	c.mustAs("user:b", puts(put("/1", 1))) // now it is b's
	c.refusedOf("user:b", puts(put("/2", 1)), "files", 1, 1)
	c.refusedOf("user:b", puts(put("/1", 1), put("/3", 1)), "files", 1, 1)
	c.mustAs("user:a", puts(put("/3", 1)))
	c.refusedOf("user:a", puts(put("/1", 1)), "files", 2, 2)
	c.mustAs("user:c", puts(put("/4", 1)))
	c.mustAs("user:a", remove("/4"))
	c.commit(1, &state.Transaction{Then: []state.Step{&state.Delete{Path: "/3"}}})

	// A call under way counts in full, though it may take another's file.
	under := c.underAs("user:a", puts(put("/1", 1)))
	c.refusedOf("user:a", puts(put("/5", 1)), "files", 2, 2)
	c.refusedOf("user:b", puts(put("/5", 1)), "files", 1, 1)
	c.commitAs("user:a", 1, under.op)
	c.ledger.Release(under.reserved)
	c.mustAs("user:b", puts(put("/5", 1)))
}

func TestBytesOfPrincipals(t *testing.T) {
	one := open("s1").Bytes()
	file := state.BytesOfFile("/1", 100)
	c := newCell(t, Quotas{})
	c.bound(map[string]limits{"user:a": {access.Bytes: one + file}})
	c.mustAs("user:a", open("s1"))
	c.refusedOf("user:a", puts(put("/1", 101)), "bytes", one, one+file)
	c.mustAs("user:a", puts(put("/1", 100)))
	c.refusedOf("user:a", open("s2"), "bytes", one+file, one+file)
	c.refusedOf("user:a", acquire("s1", "/a", state.NoWait), "bytes", one+file, one+file)
	c.refusedOf("user:a", &state.Transaction{Session: "s1", Key: "k", Digest: []byte("k"), Then: []state.Step{put("/1", 1)}}, "bytes", one+file, one+file)
	c.mustAs("user:a", puts(put("/1", 50)))
	c.refusedOf("user:a", puts(put("/1", 101)), "bytes", one+file-50, one+file)
	c.mustAs("user:b", puts(put("/1", 500)))
	c.mustAs("user:a", acquire("s1", "/a", state.NoWait))
}

func TestAnonymousHasAQuota(t *testing.T) {
	c := newCell(t, Quotas{})
	c.mustAs("", puts(put("/1", 1)))
	c.bound(map[string]limits{"anonymous": {access.Files: 1}, "*": {access.Files: 0}})
	c.refusedOf("", puts(put("/2", 1)), "files", 1, 1)
	c.refusedOf("user:a", puts(put("/1", 1)), "files", 0, 0)
}

// TestSessionsAreAdopted: a session without a principal, and what its calls
// under way add, counts for the principal that adopts it.
func TestSessionsAreAdopted(t *testing.T) {
	c := newCell(t, Quotas{})
	c.must(open("s1"))
	c.must(acquire("s1", "/a", state.NoWait))
	under := c.under(acquire("s1", "/b", state.NoWait))
	c.bound(map[string]limits{"user:a": {access.Sessions: 0, access.Holds: 0}})
	c.commit(1, &state.AdoptSession{Session: "s1", Principal: "user:a"})
	if got := c.ledger.UsedBy("user:a"); got.Sessions != 1 || got.Holds != 2 {
		t.Errorf("user:a has %+v", got)
	}
	c.refusedOf("user:a", acquire("s1", "/c", state.NoWait), "holds", 2, 0)
	c.commit(1, under.op)
	c.ledger.Release(under.reserved)
	c.limits = nil // it exceeds its quota
	c.check()
	if got := c.ledger.UsedBy(access.Anonymous); got != (Sums{}) {
		t.Errorf("anonymous has %+v", got)
	}
}

// ownerOf returns the principal of the session that an operation uses; empty if
// any principal may make it.
func (w walk) ownerOf(op state.Operation) string {
	session := ""
	switch op := op.(type) {
	case *state.Acquire:
		session = op.Session
	case *state.Transaction:
		session = op.Session
	}
	v, _ := w.state.Session(session)
	if v == nil {
		return ""
	}
	return v.Principal
}

// TestPrincipalsNeverExceed is TestNeverExceeded for the quotas of principals:
// files move from one to the other, and sessions of all end.
func TestPrincipalsNeverExceed(t *testing.T) {
	for i, of := range []map[string]limits{
		{"*": {access.Sessions: 2, access.Holds: 3, access.Waiters: 1, access.Files: 2}},
		{"user:a": {access.Files: 1, access.Sessions: 1, access.Holds: 2, access.Waiters: 1}, "user:b": {access.Files: 2, access.Holds: 3}, "group:g": {access.Files: 3}},
		{"*": {access.Bytes: 3000}, "user:b": {access.Bytes: 2000}},
	} {
		for _, seed := range testrun.Sample(t, 2, 20) {
			t.Run(fmt.Sprint(i, "/", seed), func(t *testing.T) {
				w := walk{newCell(t, Quotas{}), rand.New(rand.NewPCG(uint64(i), uint64(seed))), []string{"user:a", "user:b", "user:c"}}
				w.commit(1, &state.PutGroup{Group: access.Members{Group: "g", Members: []string{"user:c"}}})
				w.bound(of)
				for range 3000 {
					w.step()
					w.check()
				}
				for k := PrincipalSessions; k <= PrincipalBytes; k++ {
					for _, limits := range of {
						if _, bounded := limits[k.Resource()]; bounded && w.refused[k].Load() == 0 {
							t.Errorf("%s was never used up", k.Name())
						}
					}
				}
			})
		}
	}
}
