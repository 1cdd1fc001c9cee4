package master

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// heldCell is a cell of three with access on, and an item of each kind in it.
type heldCell struct {
	*fakeCell
	n             *node
	m             *Master
	holder, other string // sessions of root
	grant         lockapi.Grant
}

func newHeldCell(t *testing.T, c *fakeCell) *heldCell {
	t.Helper()
	know(c)
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
	call func(h *heldCell) lockapi.Call
	as   func(by Caller) Caller // if set, changes the caller
}

// leave is a call that names no session of the cell.
func leave(code lockapi.Code, c lockapi.Call) leaving {
	return leaving{code: code, call: func(*heldCell) lockapi.Call { return c }}
}

// leaveWith is a call with parts of the cell.
func leaveWith(code lockapi.Code, call func(h *heldCell) lockapi.Call) leaving {
	return leaving{code: code, call: call}
}

func opening(ttl int64) *lockapi.OpenSession {
	return &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl}, Key: "k"}
}

func acquiringAt(path string, r lockapi.LockRequest) *lockapi.AcquireLock {
	return &lockapi.AcquireLock{Path: path, LockRequest: r}
}

func changing(op lockapi.KeyOperation) *lockapi.ChangeKeys {
	return &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{op}}
}

func keepingAlive(ids ...string) *lockapi.KeepAliveAll {
	c := new(lockapi.KeepAliveAll)
	for _, id := range ids {
		c.Sessions = append(c.Sessions, lockapi.SessionAck{ID: id})
	}
	return c
}

func joining(id, directory string) *lockapi.AddMember {
	r := lockapi.AddMemberRequest{ID: id, Directory: directory, RaftAddr: id + ":7201", URL: "http://" + id}
	return &lockapi.AddMember{AddMemberRequest: r}
}

func replacement(id, directory string) *lockapi.ReplaceMember {
	return &lockapi.ReplaceMember{ID: id, ReplaceMemberRequest: replaceBy(directory)}
}

func moving(id string) *lockapi.SetMember {
	return &lockapi.SetMember{ID: id, SetMemberRequest: lockapi.SetMemberRequest{URL: new("http://" + id)}}
}

func transferring(to string) *lockapi.TransferMastership {
	return &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: to}}
}

// leavings are the calls with an answer about the cell, with each way to answer
// them from memory.
var leavings = []leaving{
	leave("", opening(3_600_000)),
	leave(lockapi.CodeConflict, opening(1_800_000)),
	{call: func(*heldCell) lockapi.Call { return opening(3_600_000) }, as: func(by Caller) Caller {
		by.Principal, by.Ask = "user:"+by.Principal[5:]+"x", Ask{Right: AnyCaller}
		return by // a session of its own, under a key that another principal also uses
	}},
	leave("", &lockapi.EndSession{Session: "none"}),
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.EndSession{Session: h.holder} }),
	leave("", changing(lockapi.KeyOperation{Verb: lockapi.KeyGet, Path: "/none"})),
	leave("", changing(lockapi.KeyOperation{Verb: lockapi.KeySet, Path: "/k", Content: []byte("x")})),
	leaveWith("", func(h *heldCell) lockapi.Call {
		return changing(lockapi.KeyOperation{Verb: lockapi.KeyLock, Path: "/k", Session: h.holder})
	}),
	leave("", &lockapi.GetKey{Path: "/f"}),
	leave("", &lockapi.ListKeys{Prefix: "/"}),
	leave("", &lockapi.CloseSession{Session: "none"}),
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.CloseSession{Session: h.holder} }),
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.KeepAlive{Session: h.holder} }),
	leave(lockapi.CodeSessionNotFound, &lockapi.KeepAlive{Session: "none"}),
	leaveWith("", func(h *heldCell) lockapi.Call { return keepingAlive(h.holder, "none") }),
	leave("", keepingAlive("none")),
	leaveWith("", func(h *heldCell) lockapi.Call { return acquiringAt("/l", want(h.holder)) }),
	leaveWith("", func(h *heldCell) lockapi.Call { return acquiringAt("/new", want(h.holder)) }),
	leaveWith(lockapi.CodeLockHeld, func(h *heldCell) lockapi.Call { return acquiringAt("/l", want(h.other)) }),
	leaveWith(lockapi.CodeConflict, func(h *heldCell) lockapi.Call { return acquiringAt("/l", want(h.holder, shared(2))) }),
	leave(lockapi.CodeSessionNotFound, acquiringAt("/l", want("none"))),
	{call: func(h *heldCell) lockapi.Call { return acquiringAt("/l", want(h.holder)) }, as: func(by Caller) Caller {
		by.Principal, by.Ask = lockapi.PrincipalRoot, Ask{Right: NoCaller}
		return by // the right was revoked, and the hold stays
	}},
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.ReleaseLock{Path: "/l", Session: h.other} }),
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.ReleaseLock{Path: "/l", Session: h.holder} }),
	leave(lockapi.CodeSessionNotFound, &lockapi.ReleaseLock{Path: "/l", Session: "none"}),
	leave("", &lockapi.Transact{Transaction: lockapi.Transaction{
		Then: []lockapi.Operation{{Get: &lockapi.FileOperation{Path: "/f"}}}}}),
	leave(lockapi.CodePrecondition, &lockapi.Transact{Transaction: lockapi.Transaction{
		Then: []lockapi.Operation{{Create: &lockapi.WriteOperation{Path: "/f"}}}}}),
	leave(lockapi.CodeSessionNotFound, &lockapi.Transact{Transaction: lockapi.Transaction{Session: "none"}}),
	leaveWith(lockapi.CodeConflict, func(h *heldCell) lockapi.Call {
		return &lockapi.Transact{Transaction: lockapi.Transaction{Session: h.holder}, Key: "w"}
	}),
	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.WriteFile{Path: "/f", Session: h.holder, Key: "w"} }),
	leave("", &lockapi.WriteFile{Path: "/g"}),
	leave(lockapi.CodePrecondition, &lockapi.WriteFile{Path: "/f", IfAbsent: true}),
	leave(lockapi.CodeNotHeld, &lockapi.WriteFile{Path: "/f",
		Sequencers: []lockapi.Sequencer{{Mode: lockapi.Exclusive, Token: 1, Path: "/x"}}}),
	leaveWith(lockapi.CodeConflict, func(h *heldCell) lockapi.Call {
		return &lockapi.WriteFile{Path: "/g", Session: h.holder, Key: "w"}
	}),
	leave(lockapi.CodeSessionNotFound, &lockapi.WriteFile{Path: "/f", Session: "none"}),
	leave("", &lockapi.DeleteFiles{Path: "/none"}),

	leave("", &lockapi.PutRule{Path: "/p"}),
	leave("", &lockapi.DeleteRulesBelow{Prefix: "/"}),
	leave("", &lockapi.DeleteRule{Path: "/q"}),
	leave("", &lockapi.DeleteGroup{Name: "x"}),
	leave("", &lockapi.RevokeToken{ID: "T"}),
	leave("", &lockapi.DisableAccess{}),
	leave("", &lockapi.PutCellAccess{}),
	leave("", &lockapi.CreateToken{TokenRequest: lockapi.TokenRequest{Principal: "user:a"}}),
	leave(lockapi.CodeConflict, &lockapi.EnableAccess{}),
	leave("", &lockapi.PutGroup{Name: "g"}),
	leave(lockapi.CodeInvalidArgument, &lockapi.PutGroup{Name: "g",
		GroupMembers: lockapi.GroupMembers{Members: []string{"group:h"}}}),
	leave("", &lockapi.PutQuota{Principal: "user:q"}),
	leave("", &lockapi.DeleteQuota{Principal: "*"}),

	leave("", joining("r2", founder("r2"))),
	leave(lockapi.CodeConflict, joining("r2", founder("r9"))),
	leave(lockapi.CodeNotFound, &lockapi.RemoveMember{ID: "r9"}),
	leave("", moving("r2")),
	leave(lockapi.CodeNotFound, moving("r9")),
	leave(lockapi.CodeNotFound, replacement("r9", founder("r9"))),
	leave(lockapi.CodeConflict, replacement("r2", founder("r3"))),
	leave("", replacement("r2", founder("r2"))),
	leave("", transferring("r1")),
	leave(lockapi.CodeInvalidArgument, transferring("r9")),

	leaveWith("", func(h *heldCell) lockapi.Call { return &lockapi.GetSession{Session: h.holder} }),
	leave(lockapi.CodeSessionNotFound, &lockapi.GetSession{Session: "none"}),
	leave(lockapi.CodeNotFound, &lockapi.GetFile{Path: "/none"}),
	leave(lockapi.CodeNotFound, &lockapi.GetRule{Path: "/q"}),
	leave(lockapi.CodeNotFound, &lockapi.GetGroup{Name: "x"}),
	leave("", &lockapi.GetQuota{Principal: "user:q"}),
	leave(lockapi.CodeNotFound, &lockapi.GetQuota{Principal: "*"}),
	leaveWith("", func(h *heldCell) lockapi.Call {
		q := lockapi.Sequencer{Mode: lockapi.Exclusive, Token: h.grant.Token, Path: "/l"}
		return &lockapi.CheckSequencer{Sequencer: q}
	}),
	leave("", &lockapi.GetLock{Path: "/l"}),
	leave("", &lockapi.ListSessions{Limit: 9}),
	leave("", &lockapi.ListLocks{Limit: 9}),
	leave("", &lockapi.ListFiles{Limit: 9}),
	leave("", &lockapi.ListRules{Limit: 9}),
	leave("", &lockapi.ListTokens{Limit: 9}),
	leave("", &lockapi.ListQuotas{Limit: 9}),
	leave("", &lockapi.ListGroups{}),
	leave("", &lockapi.ListMembers{}),
	leave("", &lockapi.CheckAccess{Path: "/p"}),
	leave("", &lockapi.GetCellAccess{}),
	leave("", &lockapi.GetWhoAmI{}),
	leave("", &lockapi.GetURLs{}),
	leave("", &lockapi.GetRevision{}),
	leave("", &lockapi.FindDeadlocks{}),
	leave("", &lockapi.GetBackup{}),
}

// ofTheReplica are the calls that a replica answers for itself, as master or
// not, and Do, which makes the others.
var ofTheReplica = map[string]bool{"AdmitCall": true, "RefuseWatch": true, "Authorize": true, "Close": true, "Do": true, "Hangs": true, "GetHistory": true, "Locate": true, "OwnBackup": true, "Ready": true, "WatchEvents": true}

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
		first := true
		for _, l := range leavings {
			if reflect.TypeOf(l.call(&heldCell{})).Elem().Name() != m.Name {
				continue
			}
			denied := first
			first = false
			t.Run(m.Name, func(t *testing.T) {
				l.without(t, root(Operate))
				if denied {
					l.code = lockapi.CodePermissionDenied
					l.without(t, by("user:nobody", Operate))
				}
			})
		}
		if first {
			t.Errorf("%s is a call that the table leavings does not have: add each way to answer it", m.Name)
		}
	}
}

// make makes the call, without the right that its row asks for. It has a name for
// onStack.
func (l *leaving) make(h *heldCell, by Caller) error {
	if l.as != nil {
		by = l.as(by)
	}
	c := l.call(h)
	return second(rows[reflect.TypeOf(c)].serve(context.Background(), h.m, &Read{Caller: &by}, c))
}

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

// unanswered checks that the call's only answer was that mastership was lost.
func unanswered(err error) bool {
	return errors.Is(err, lockapi.CodeNoMaster) || errors.Is(err, lockapi.CodeOutcomeUnknown)
}
