package master

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// heldCell is a cell of three with access on, and an item of each kind in it.
type heldCell struct {
	*fakeCell
	n             *node
	m             *Master
	holder, other string // sessions of root
	grant         lockapi.Grant
}

func (h *heldCell) transact(by Caller, body lockapi.Transaction, key string) error {
	return second(h.m.Transact(context.Background(), new(by), &lockapi.Transact{Key: key, Transaction: body}))
}

func (h *heldCell) change(by Caller, op lockapi.KeyOperation) error {
	return second(h.m.ChangeKeys(context.Background(), new(by), &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{op}}))
}

func newHeldCell(t *testing.T, c *fakeCell) *heldCell {
	t.Helper()
	c.set(func(f *fakeConf) {
		f.level = map[string]uint64{founder("r1"): state.Level, founder("r2"): state.Level, founder("r3"): state.Level}
	})
	h := &heldCell{fakeCell: c, n: c.office("r1")}
	h.m = h.n.master
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	all, ctx := root(Operate), t.Context()
	must(second(h.m.EnableAccess(ctx, new(all), &lockapi.EnableAccess{})))
	s, err := h.m.OpenSession(ctx, new(all), &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 3_600_000}, Key: "k"})
	must(err)
	h.holder, h.other = s.ID, sessionOfCaller(t, h.m, lockapi.PrincipalRoot)
	h.grant, err = h.m.AcquireLock(ctx, new(all), &lockapi.AcquireLock{Path: "/l", LockRequest: want(h.holder)})
	must(err)
	must(second(h.m.WriteFile(ctx, new(all), &lockapi.WriteFile{Path: "/f", Session: h.holder, Key: "w"})))
	must(second(h.m.PutRule(ctx, new(all), &lockapi.PutRule{Path: "/p"})))
	must(second(h.m.PutGroup(ctx, new(all), &lockapi.PutGroup{Name: "g"})))
	must(second(h.m.PutGroup(ctx, new(all), &lockapi.PutGroup{Name: "h", GroupMembers: lockapi.GroupMembers{Members: []string{"group:g"}}})))
	must(second(h.m.PutQuota(ctx, new(all), &lockapi.PutQuota{Principal: "user:q"})))
	must(second(h.m.PutCellAccess(ctx, new(all), &lockapi.PutCellAccess{})))
	return h
}

// leaving is a call, with its answer while the lease runs.
type leaving struct {
	code lockapi.Code // "" for a success
	call func(h *heldCell, by Caller) error
}

var withoutEnd = context.Background()

// calls are the methods of a Master with an answer about the cell, with each
// way to answer them from memory.
var calls = map[string][]leaving{
	"OpenSession": {
		{"", func(h *heldCell, by Caller) error { return h.open(by, 3_600_000) }},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error { return h.open(by, 1_800_000) }},
		{"", func(h *heldCell, by Caller) error { // a session of its own, under a key that another principal also uses
			by.Principal, by.Ask = "user:"+by.Principal[5:]+"x", Ask{Right: AnyCaller}
			return h.open(by, 3_600_000)
		}},
	},
	"EndSession": {
		{"", func(h *heldCell, by Caller) error {
			return h.m.EndSession(withoutEnd, new(by), &lockapi.EndSession{Session: "none"})
		}},
		{"", func(h *heldCell, by Caller) error {
			return h.m.EndSession(withoutEnd, new(by), &lockapi.EndSession{Session: h.holder})
		}},
	},
	"ChangeKeys": {
		{"", func(h *heldCell, by Caller) error {
			return h.change(by, lockapi.KeyOperation{Verb: lockapi.KeyGet, Path: "/none"})
		}},
		{"", func(h *heldCell, by Caller) error {
			return h.change(by, lockapi.KeyOperation{Verb: lockapi.KeySet, Path: "/k", Content: []byte("x")})
		}},
		{"", func(h *heldCell, by Caller) error {
			return h.change(by, lockapi.KeyOperation{Verb: lockapi.KeyLock, Path: "/k", Session: h.holder})
		}},
	},
	"GetKey": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetKey(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetKey{Path: "/f"}))
	}}},
	"ListKeys": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListKeys(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListKeys{Prefix: "/"}))
	}}},
	"CloseSession": {
		{"", func(h *heldCell, by Caller) error {
			return h.m.CloseSession(withoutEnd, new(by), &lockapi.CloseSession{Session: "none"})
		}},
		{"", func(h *heldCell, by Caller) error {
			return h.m.CloseSession(withoutEnd, new(by), &lockapi.CloseSession{Session: h.holder})
		}},
	},
	"KeepAlive": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.KeepAlive(withoutEnd, new(by), &lockapi.KeepAlive{Session: h.holder}))
		}},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error {
			return second(h.m.KeepAlive(withoutEnd, new(by), &lockapi.KeepAlive{Session: "none"}))
		}},
	},
	"KeepAliveAll": {
		{"", func(h *heldCell, by Caller) error {
			return second(keepAll(withoutEnd, h.m, new(by), 0, h.holder, "none"))
		}},
		{"", func(h *heldCell, by Caller) error { return second(keepAll(withoutEnd, h.m, new(by), 0, "none")) }},
	},
	"AcquireLock": {
		{"", func(h *heldCell, by Caller) error { return h.acquire(by, "/l", want(h.holder)) }},
		{"", func(h *heldCell, by Caller) error { return h.acquire(by, "/new", want(h.holder)) }},
		{lockapi.CodeLockHeld, func(h *heldCell, by Caller) error { return h.acquire(by, "/l", want(h.other)) }},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error { return h.acquire(by, "/l", want(h.holder, shared(2))) }},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error { return h.acquire(by, "/l", want("none")) }},
		{"", func(h *heldCell, by Caller) error { // the right was revoked, and the hold stays
			by.Principal, by.Ask = lockapi.PrincipalRoot, Ask{Right: NoCaller}
			return h.acquire(by, "/l", want(h.holder))
		}},
	},
	"ReleaseLock": {
		{"", func(h *heldCell, by Caller) error { return h.release(by, h.other) }},
		{"", func(h *heldCell, by Caller) error { return h.release(by, h.holder) }},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error { return h.release(by, "none") }},
	},
	"Transact": {
		{"", func(h *heldCell, by Caller) error {
			return h.transact(by, lockapi.Transaction{Then: []lockapi.Operation{{Get: &lockapi.FileOperation{Path: "/f"}}}}, "")
		}},
		{lockapi.CodePrecondition, func(h *heldCell, by Caller) error {
			return h.transact(by, lockapi.Transaction{Then: []lockapi.Operation{{Create: &lockapi.WriteOperation{Path: "/f"}}}}, "")
		}},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error { return h.transact(by, lockapi.Transaction{Session: "none"}, "") }},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error { return h.transact(by, lockapi.Transaction{Session: h.holder}, "w") }},
	},
	"WriteFile": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/f", Session: h.holder, Key: "w"}))
		}},
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/g"}))
		}},
		{lockapi.CodePrecondition, func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/f", IfAbsent: true}))
		}},
		{lockapi.CodeNotHeld, func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/f", Sequencers: []lockapi.Sequencer{{Mode: lockapi.Exclusive, Token: 1, Path: "/x"}}}))
		}},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/g", Session: h.holder, Key: "w"}))
		}},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error {
			return second(h.m.WriteFile(withoutEnd, new(by), &lockapi.WriteFile{Path: "/f", Session: "none"}))
		}},
	},
	"DeleteFiles": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.DeleteFiles(withoutEnd, new(by), &lockapi.DeleteFiles{Path: "/none"}))
	}}},

	"PutRule": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.PutRule(withoutEnd, new(by), &lockapi.PutRule{Path: "/p"}))
	}}},
	"DeleteRulesBelow": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.DeleteRulesBelow(withoutEnd, new(by), &lockapi.DeleteRulesBelow{Prefix: "/"}))
	}}},
	"DeleteRule": {{"", func(h *heldCell, by Caller) error {
		return h.m.DeleteRule(withoutEnd, new(by), &lockapi.DeleteRule{Path: "/q"})
	}}},
	"DeleteGroup": {{"", func(h *heldCell, by Caller) error {
		return h.m.DeleteGroup(withoutEnd, new(by), &lockapi.DeleteGroup{Name: "x"})
	}}},
	"RevokeToken": {{"", func(h *heldCell, by Caller) error {
		return h.m.RevokeToken(withoutEnd, new(by), &lockapi.RevokeToken{ID: "T"})
	}}},
	"DisableAccess": {{"", func(h *heldCell, by Caller) error {
		return h.m.DisableAccess(withoutEnd, new(by), &lockapi.DisableAccess{})
	}}},
	"PutCellAccess": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.PutCellAccess(withoutEnd, new(by), &lockapi.PutCellAccess{}))
	}}},
	"CreateToken": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.CreateToken(withoutEnd, new(by), &lockapi.CreateToken{TokenRequest: lockapi.TokenRequest{Principal: "user:a"}}))
	}}},
	"EnableAccess": {{lockapi.CodeConflict, func(h *heldCell, by Caller) error {
		return second(h.m.EnableAccess(withoutEnd, new(by), &lockapi.EnableAccess{}))
	}}},
	"PutGroup": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.PutGroup(withoutEnd, new(by), &lockapi.PutGroup{Name: "g"}))
		}},
		{lockapi.CodeInvalidArgument, func(h *heldCell, by Caller) error {
			return second(h.m.PutGroup(withoutEnd, new(by), &lockapi.PutGroup{Name: "g", GroupMembers: lockapi.GroupMembers{Members: []string{"group:h"}}}))
		}},
	},

	"AddMember": {
		{"", func(h *heldCell, by Caller) error { return h.add(by, "r2", founder("r2")) }},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error { return h.add(by, "r2", founder("r9")) }},
	},
	"RemoveMember": {{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
		return second(h.m.RemoveMember(withoutEnd, new(by), &lockapi.RemoveMember{ID: "r9"}))
	}}},
	"SetMember": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.SetMember(withoutEnd, new(by), &lockapi.SetMember{ID: "r2", SetMemberRequest: lockapi.SetMemberRequest{URL: new("http://r2")}}))
		}},
		{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
			return second(h.m.SetMember(withoutEnd, new(by), &lockapi.SetMember{ID: "r9", SetMemberRequest: lockapi.SetMemberRequest{URL: new("http://r9")}}))
		}},
	},
	"ReplaceMember": {
		{lockapi.CodeNotFound, func(h *heldCell, by Caller) error { return h.replace(by, "r9", founder("r9")) }},
		{lockapi.CodeConflict, func(h *heldCell, by Caller) error { return h.replace(by, "r2", founder("r3")) }},
		{"", func(h *heldCell, by Caller) error { return h.replace(by, "r2", founder("r2")) }},
	},
	"TransferMastership": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.TransferMastership(withoutEnd, new(by), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r1"}}))
		}},
		{lockapi.CodeInvalidArgument, func(h *heldCell, by Caller) error {
			return second(h.m.TransferMastership(withoutEnd, new(by), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r9"}}))
		}},
	},

	"GetSession": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.GetSession(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetSession{Session: h.holder}))
		}},
		{lockapi.CodeSessionNotFound, func(h *heldCell, by Caller) error {
			return second(h.m.GetSession(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetSession{Session: "none"}))
		}},
	},
	"GetFile": {{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
		return second(h.m.GetFile(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetFile{Path: "/none"}))
	}}},
	"GetRule": {{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
		return second(h.m.GetRule(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetRule{Path: "/q"}))
	}}},
	"GetGroup": {{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
		return second(h.m.GetGroup(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetGroup{Name: "x"}))
	}}},
	"CheckSequencer": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.CheckSequencer(withoutEnd, &Read{Caller: new(by)}, &lockapi.CheckSequencer{Sequencer: lockapi.Sequencer{Mode: lockapi.Exclusive, Token: h.grant.Token, Path: "/l"}}))
	}}},
	"ListSessions": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListSessions(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListSessions{Limit: 9}))
	}}},
	"GetLock": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetLock(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetLock{Path: "/l"}))
	}}},
	"ListLocks": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListLocks(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListLocks{Limit: 9}))
	}}},
	"ListFiles": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListFiles(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListFiles{Limit: 9}))
	}}},
	"ListRules": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListRules(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListRules{Limit: 9}))
	}}},
	"ListTokens": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListTokens(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListTokens{Limit: 9}))
	}}},
	"CheckAccess": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.CheckAccess(withoutEnd, &Read{Caller: new(by)}, &lockapi.CheckAccess{Path: "/p"}))
	}}},
	"ListGroups": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListGroups(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListGroups{}))
	}}},
	"ListQuotas": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListQuotas(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListQuotas{Limit: 9}))
	}}},
	"GetQuota": {
		{"", func(h *heldCell, by Caller) error {
			return second(h.m.GetQuota(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetQuota{Principal: "user:q"}))
		}},
		{lockapi.CodeNotFound, func(h *heldCell, by Caller) error {
			return second(h.m.GetQuota(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetQuota{Principal: "*"}))
		}},
	},
	"PutQuota": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.PutQuota(withoutEnd, new(by), &lockapi.PutQuota{Principal: "user:q"}))
	}}},
	"DeleteQuota": {{"", func(h *heldCell, by Caller) error {
		return h.m.DeleteQuota(withoutEnd, new(by), &lockapi.DeleteQuota{Principal: "*"})
	}}},
	"GetCellAccess": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetCellAccess(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetCellAccess{}))
	}}},
	"GetWhoAmI": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetWhoAmI(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetWhoAmI{}))
	}}},
	"ListMembers": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.ListMembers(withoutEnd, &Read{Caller: new(by)}, &lockapi.ListMembers{}))
	}}},
	"GetURLs": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetURLs(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetURLs{}))
	}}},
	"GetRevision": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetRevision(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetRevision{}))
	}}},
	"FindDeadlocks": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.FindDeadlocks(withoutEnd, &Read{Caller: new(by)}, &lockapi.FindDeadlocks{}))
	}}},
	"GetBackup": {{"", func(h *heldCell, by Caller) error {
		return second(h.m.GetBackup(withoutEnd, &Read{Caller: new(by)}, &lockapi.GetBackup{}))
	}}},
}

// ofTheReplica are the calls that a replica answers for itself, as master or
// not, and Do, which makes the others.
var ofTheReplica = map[string]bool{"AdmitCall": true, "RefuseWatch": true, "Authorize": true, "Close": true, "Do": true, "Hangs": true, "GetHistory": true, "Locate": true, "OwnBackup": true, "Ready": true, "WatchEvents": true}

func (h *heldCell) open(by Caller, ttl int64) error {
	return second(h.m.OpenSession(withoutEnd, new(by), &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl}, Key: "k"}))
}

func (h *heldCell) acquire(by Caller, path string, r lockapi.LockRequest) error {
	return second(h.m.AcquireLock(withoutEnd, new(by), &lockapi.AcquireLock{Path: path, LockRequest: r}))
}

func (h *heldCell) release(by Caller, session string) error {
	return second(h.m.ReleaseLock(withoutEnd, new(by), &lockapi.ReleaseLock{Path: "/l", Session: session}))
}

func (h *heldCell) add(by Caller, id, directory string) error {
	return second(h.m.AddMember(withoutEnd, new(by), &lockapi.AddMember{AddMemberRequest: lockapi.AddMemberRequest{ID: id, Directory: directory, RaftAddr: id + ":7201", URL: "http://" + id}}))
}

func (h *heldCell) replace(by Caller, id, directory string) error {
	return second(h.m.ReplaceMember(withoutEnd, new(by), &lockapi.ReplaceMember{ID: id, ReplaceMemberRequest: lockapi.ReplaceMemberRequest{Directory: directory}}))
}

// TestNoAnswerLeavesWithoutTheLease: no method of a Master returns an answer,
// good or bad, if the lease ends at any of the call's reads of the state. The
// exception is that the log has accepted an entry since the call began.
func TestNoAnswerLeavesWithoutTheLease(t *testing.T) {
	testrun.Sequential(t)
	methods := reflect.TypeFor[*Master]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		out := m.Type.NumOut()
		if out == 0 || m.Type.Out(out-1) != reflect.TypeFor[error]() || ofTheReplica[m.Name] {
			continue
		}
		if len(calls[m.Name]) == 0 {
			t.Errorf("%s is a call that the table calls of this file does not have: add each way to answer it", m.Name)
		}
		for n, one := range calls[m.Name] {
			t.Run(m.Name, func(t *testing.T) {
				one.without(t, root(Operate))
				if n == 0 {
					(&leaving{lockapi.CodePermissionDenied, one.call}).without(t, by("user:nobody", Operate))
				}
			})
		}
	}
}

// make returns call as a function with a name, for onStack.
func (l *leaving) make(h *heldCell, by Caller) error { return l.call(h, by) }

// without makes the call again and again. The lease ends before it, at its
// first read of the state, its second, and so on, until the call makes fewer
// reads.
func (l *leaving) without(t *testing.T, by Caller) {
	for at, lapsed := 0, true; lapsed; at++ {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			h := newHeldCell(t, c)
			began, applied := h.n.Applied(), 0
			lapsed = false
			lapse := func() {
				lapsed, applied = true, h.n.Applied()
				c.cutOff("r1", true)
				h.n.Sleep(leaseTerm)
			}
			if looks := 0; at == 0 {
				lapse()
			} else {
				h.n.OnState(func() {
					if !onStack("(*leaving).make(") {
						return // the office itself reads the state
					}
					if looks++; looks == at {
						lapse()
					}
				})
			}
			told := make(chan error, 1)
			go func() { told <- l.make(h, by) }()
			pass(time.Second)
			h.n.OnState(nil)
			c.depose("r1")
			err := <-told
			switch {
			case !lapsed && !isCode(err, l.code):
				t.Errorf("all is well: %v, want %q", err, l.code)
			case lapsed && applied == began && !unanswered(err):
				t.Errorf("without the lease from look %d on: %v", at, err)
			}
		})
		if at == 50 {
			t.Fatal("it looks at the state again and again")
		}
	}
}

// isCode reports whether err has the code, or is nil for an empty code.
func isCode(err error, code lockapi.Code) bool {
	e, ok := err.(*lockapi.Error)
	return err == nil && code == "" || ok && e.Code == code
}

// onStack reports whether the goroutine is within a function of that name.
func onStack(name string) bool {
	stack := make([]byte, 16<<10)
	return strings.Contains(string(stack[:runtime.Stack(stack, false)]), name)
}
