package master

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// securely runs f on a single replica in office, with access on. There is a
// rule at /p: user:a has all permissions, user:b may lock, user:c may read.
func securely(t *testing.T, f func(t *testing.T, m *Master, n *node, c *fakeCell)) {
	t.Helper()
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		rule := lockapi.AccessLists{Read: []string{"user:a", "user:c"}, Lock: []string{"user:a", "user:b"}, Write: []string{"user:a"}, Admin: []string{"user:a"}}
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: rule})))
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		f(t, m, n, c)
	})
}

// by returns a caller with a proved principal (empty for an unknown one) that
// needs a right.
func by(principal string, right Right, path ...string) Caller {
	ask := Ask{Right: right}
	if len(path) > 0 {
		ask.Path = path[0]
	}
	return Caller{Principal: principal, Ask: ask}
}

func root(right Right) Caller { return by(lockapi.PrincipalRoot, right) }

// using adds the session that a call acts for.
func using(c Caller, session string) Caller {
	c.For = Ask{Right: NoCaller, Session: session, Uses: true}
	return c
}

func sessionOfCaller(t *testing.T, m *Master, who string) string {
	t.Helper()
	s, err := m.OpenSession(t.Context(), new(by(who, AnyCaller)), &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 3_600_000}})
	must(t, err)
	return s.ID
}

// request asks for a lock for a caller.
type request struct {
	by Caller
	lockapi.AcquireLock
}

func ask(ctx context.Context, m *Master, r request) (lockapi.Grant, error) {
	return m.AcquireLock(ctx, new(r.by), &r.AcquireLock)
}

func locking(who, session string, change ...func(*lockapi.LockRequest)) request {
	return request{using(by(who, LockAt, "/p/l"), session), lockapi.AcquireLock{Path: "/p/l", LockRequest: want(session, change...)}}
}

// TestAccessWaitsForItsLevel: access can't be enabled while one member does not
// know its level. After that the first request succeeds without a retry.
func TestAccessWaitsForItsLevel(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		code(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})), lockapi.CodeConflict)
		know(c)
		if _, err := m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{}); err != nil || n.State().Level != state.Level {
			t.Errorf("at level %d: %v", n.State().Level, err)
		}
	})
}

// TestFoundedWithAccess: calls are refused until access is on, which needs all
// members. An existing cell, or one in which access was disabled, ignores the
// setting.
func TestFoundedWithAccess(t *testing.T) {
	sum := sha256.Sum256([]byte("stout_root"))
	bearer := Caller{Secret: &sum, Ask: Ask{Right: Operate}}
	inCell(t, 3, Options{Drift: drift, FoundToken: &sum}, func(t *testing.T, c *fakeCell) {
		c.set(func(f *fakeConf) { f.level = map[string]uint64{founder("r1"): state.Level, founder("r2"): state.Level} })
		first := c.office("r1")
		pass(time.Minute)
		_, err := first.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		code(t, err, lockapi.CodeNoMaster)
		code(t, second(first.master.ListLocks(t.Context(), &Read{}, &lockapi.ListLocks{Limit: 1})), lockapi.CodeNoMaster)
		code(t, second(first.master.ListLocks(t.Context(), &Read{Stale: true}, &lockapi.ListLocks{Limit: 1})), lockapi.CodeNoMaster)
		for _, n := range []*node{first, c.node("r2")} {
			code(t, n.master.Ready(), lockapi.CodeNoMaster)
			code(t, n.master.Authorize(&Caller{Ask: Ask{Right: Observe}}), lockapi.CodeNoMaster)
			must(t, n.master.Authorize(&Caller{Ask: Ask{Right: Nothing}}))
		}
		next := c.office("r2")
		c.set(func(f *fakeConf) { f.level[founder("r3")] = state.Level })
		pass(time.Second)
		if s := next.State(); !s.AccessOn || s.TokenCount() != 1 {
			t.Fatalf("access is on: %v, with %d tokens", s.AccessOn, s.TokenCount())
		}
		_, err = next.master.OpenSession(t.Context(), new(by("", Known)), &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		code(t, err, lockapi.CodeUnauthenticated)
		must(t, next.master.DisableAccess(t.Context(), new(bearer), &lockapi.DisableAccess{}))
		last := c.office("r3")
		pass(time.Minute)
		if s := last.State(); s.AccessOn {
			t.Error("access that was disabled is on again")
		}
		newSession(t, last.master, time.Minute)
	})
	// A master that was founded with access, and has lost its token since,
	// refuses all calls; it does not admit everybody.
	inCell(t, 1, Options{Drift: drift, FoundedWithAccess: true}, func(t *testing.T, c *fakeCell) {
		first := c.office("r1")
		pass(time.Minute)
		_, err := first.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		code(t, err, lockapi.CodeNoMaster)
		code(t, second(first.master.EnableAccess(t.Context(), new(by("", Operate)), &lockapi.EnableAccess{})), lockapi.CodeNoMaster)
	})
	inCell(t, 1, Options{Drift: drift, FoundToken: &sum}, func(t *testing.T, c *fakeCell) {
		know(c)
		n := c.node("r1")
		n.change(func(s *state.State) { s.Revision = 7 }) // the state is not empty
		c.office("r1")
		pass(time.Minute)
		if s := n.State(); s.AccessOn {
			t.Error("access was enabled in a cell that was there already")
		}
	})
}

// TestTokens: a token names its principal until it expires or is revoked,
// whether access is on or off.
func TestTokens(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		made := map[string]lockapi.Token{}
		for name, ttl := range map[string]int64{"lasts": 0, "expires": 60_000} {
			token, err := m.CreateToken(t.Context(), new(root(Operate)), &lockapi.CreateToken{TokenRequest: lockapi.TokenRequest{Principal: "user:a", TTLMS: ttl}})
			if err != nil || len(token.Secret) < len(lockapi.SecretPrefix)+lockapi.MinSecret || (token.ExpiresAt != nil) != (ttl > 0) {
				t.Fatalf("%+v, %v", token, err)
			}
			made[name] = token
		}
		who := func(name string) (lockapi.WhoAmI, error) {
			sum := sha256.Sum256([]byte(made[name].Secret))
			return m.GetWhoAmI(t.Context(), &Read{Caller: &Caller{Secret: &sum, Ask: Ask{Right: AnyCaller}}}, &lockapi.GetWhoAmI{})
		}
		for name := range made {
			if got, err := who(name); err != nil || got != (lockapi.WhoAmI{Principal: "user:a", How: "token"}) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		pass(time.Minute)
		code(t, second(who("expires")), lockapi.CodeUnauthenticated)
		must(t, m.DisableAccess(t.Context(), new(root(Operate)), &lockapi.DisableAccess{}))
		code(t, second(who("expires")), lockapi.CodeUnauthenticated)
		must(t, m.RevokeToken(t.Context(), new(by("", Operate)), &lockapi.RevokeToken{ID: made["lasts"].ID}))
		code(t, second(who("lasts")), lockapi.CodeUnauthenticated)
		if list, err := m.ListTokens(t.Context(), &Read{}, &lockapi.ListTokens{Limit: 10}); err != nil || len(list.Tokens) != 2 || slices.ContainsFunc(list.Tokens, func(v lockapi.Token) bool { return v.Secret != "" }) {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestProofsThatEnd: a JWT or a certificate counts until its expiry, to the
// nanosecond: for calls, for waiting calls when rights change, and for watchers
// before further events. Calls check it while access is off, too.
func TestProofsThatEnd(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := sessionOfCaller(t, m, "user:a")
		by := Caller{Principal: "user:a", How: lockapi.HowJWT, Ends: time.Now().Add(time.Minute), Ask: Ask{Right: AnyCaller}}
		who := func() error {
			got, err := m.GetWhoAmI(t.Context(), &Read{Caller: new(by)}, &lockapi.GetWhoAmI{})
			if err == nil && got != (lockapi.WhoAmI{Principal: "user:a", How: lockapi.HowJWT}) {
				t.Errorf("%+v", got)
			}
			return err
		}
		called := make(chan error)
		go func() { called <- keepWaiting(m, by, s) }()
		filter, _ := NewEventFilter(nil, nil, nil, false)
		watch := watching(t, m, filter.For(by))
		defer watch.Close()
		pass(time.Minute - time.Nanosecond)
		if err := who(); err != nil {
			t.Errorf("before its end: %v", err)
		}
		if _, _, err := watch.Read(m.log.State().Revision, 10, 1000); err != nil {
			t.Errorf("a watcher before its end: %v", err)
		}
		pass(time.Nanosecond)
		code(t, who(), lockapi.CodeUnauthenticated)
		_, _, err := watch.Read(m.log.State().Revision, 10, 1000)
		code(t, err, lockapi.CodeUnauthenticated)
		must(t, second(m.PutRule(t.Context(), new(root(AdminAt)), &lockapi.PutRule{Path: "/q", AccessLists: lockapi.AccessLists{Read: []string{}}})))
		code(t, soon(t, called), lockapi.CodeUnauthenticated)
		must(t, m.DisableAccess(t.Context(), new(root(Operate)), &lockapi.DisableAccess{}))
		code(t, who(), lockapi.CodeUnauthenticated)
		if err := m.Authorize(&by); err == nil {
			t.Error("a replica takes it for its own answers")
		}
	})
}

// TestForgottenAsksAreDenied to all but operators.
func TestForgottenAsksAreDenied(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		_, err := m.GetLock(t.Context(), &Read{Caller: &Caller{Principal: "user:a"}}, &lockapi.GetLock{Path: "/p"})
		code(t, err, lockapi.CodePermissionDenied)
		must(t, second(m.GetLock(t.Context(), &Read{Caller: &Caller{Principal: "user:root"}}, &lockapi.GetLock{Path: "/p"})))
		code(t, second(m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/p"})), lockapi.CodeUnauthenticated)
		stale := Read{Caller: new(by("user:b", ReadAt, "/p")), Stale: true}
		code(t, second(m.GetLock(t.Context(), &stale, &lockapi.GetLock{Path: "/p"})), lockapi.CodePermissionDenied)
	})
}

// TestSessionsAreTheirOpeners: a session belongs to its opener. A session
// without a principal belongs from then on to the first caller that uses it, if
// that caller may lock wherever it holds or waits. Idempotency keys of sessions
// belong to their principals, too.
func TestSessionsAreTheirOpeners(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := sessionOfCaller(t, m, "user:a")
		if e := code(t, second(ask(t.Context(), m, locking("user:b", s))), lockapi.CodePermissionDenied); e.Principal != "user:b" {
			t.Errorf("%+v", e)
		}
		must(t, second(ask(t.Context(), m, locking("user:a", s))))
		nobodys := sessionOfCaller(t, m, "")
		code(t, second(ask(t.Context(), m, locking("user:c", nobodys))), lockapi.CodePermissionDenied) // user:c may not lock
		if v, _ := n.State().Session(nobodys); v.Principal != "" {
			t.Errorf("a call that was refused has given the session to %s", v.Principal)
		}
		code(t, second(ask(t.Context(), m, locking("user:b", nobodys))), lockapi.CodeLockHeld)
		if v, _ := n.State().Session(nobodys); v.Principal != "user:b" {
			t.Errorf("the session is %q's", v.Principal)
		}
		code(t, second(ask(t.Context(), m, locking("user:a", nobodys))), lockapi.CodePermissionDenied)

		caller, keyed := by("user:a", Known), lockapi.OpenSession{Key: "k", SessionRequest: lockapi.NewSessionRequest()}
		first, err := m.OpenSession(t.Context(), new(caller), &keyed)
		must(t, err)
		caller = by("user:b", Known)
		keyed.Name = "another body"
		others, err := m.OpenSession(t.Context(), new(caller), &keyed)
		if err != nil || others.ID == first.ID || others.Principal != "user:b" {
			t.Errorf("under a key of user:a's user:b gets %+v, %v", others, err)
		}
		keyed.Name = ""
		code(t, second(m.OpenSession(t.Context(), new(caller), &keyed)), lockapi.CodeConflict)
	})
}

// slowTurn takes a second to come.
type slowTurn struct{}

func (slowTurn) AwaitTurn(context.Context) error {
	pass(time.Second)
	return nil
}

// TestDeniedCallersWaitForNothing: neither for a turn nor for the answers of members.
func TestDeniedCallersWaitForNothing(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		know(c)
		m := c.office("r1").master
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		c.set(func(f *fakeConf) { f.hangs = map[string]bool{"r2": true} })
		for _, call := range []lockapi.Call{&lockapi.ListMembers{}, &lockapi.ListSessions{}, &lockapi.ListTokens{}, &lockapi.GetLock{Path: "/p", Waiters: lockapi.MaxListLimit}} {
			for _, stale := range []bool{false, true} {
				began := time.Now()
				_, _, err := m.Do(t.Context(), &Caller{Principal: "user:a", Turns: slowTurn{}}, stale, call)
				code(t, err, lockapi.CodePermissionDenied)
				if waited := time.Since(began); waited > 0 {
					t.Errorf("%T, stale %v: denied after %v", call, stale, waited)
				}
			}
		}
	})
}

// TestAdoption: a session held or waited before access was enabled. A principal
// that may lock at each of those paths adopts it. For other callers it does not
// exist, unless they may make the call for any session. The adoption is
// announced and reported.
func TestAdoption(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		old := newSession(t, m, time.Hour)
		for _, path := range []string{"/p/l", "/q/l"} {
			must(t, second(acquireLock(t, m, path, want(old))))
		}
		for path, who := range map[string][]string{"/p": {"user:a", "user:b"}, "/q": {"user:b"}} {
			rule := &lockapi.PutRule{Path: path, AccessLists: lockapi.AccessLists{Lock: who, Admin: []string{"user:a"}}}
			must(t, second(m.PutRule(t.Context(), new(root(Operate)), rule)))
		}
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		owner := func() string {
			v, _ := n.State().Session(old)
			return v.Principal
		}
		keep := func(who string, told *Checked, announce func(Checked) error) error {
			caller := by(who, NoCaller)
			caller.Ask.Session, caller.Ask.Uses = old, true
			caller.Told, caller.Adopts = told, announce
			_, err := m.KeepAlive(t.Context(), new(caller), &lockapi.KeepAlive{Session: old})
			return err
		}
		code(t, keep("", nil, nil), lockapi.CodeUnauthenticated)
		for _, who := range []string{"user:a", "user:c"} {
			code(t, keep(who, nil, nil), lockapi.CodeSessionNotFound)
		}
		code(t, second(m.AcquireLock(t.Context(), new(using(by("user:a", LockAt, "/p/x"), old)), &lockapi.AcquireLock{Path: "/p/x", LockRequest: want(old)})), lockapi.CodeSessionNotFound)
		forced := by("user:a", AdminAt, "/p/l")
		forced.Ask.Session, forced.Ask.Uses = old, true
		if _, err := m.ReleaseLock(t.Context(), new(forced), &lockapi.ReleaseLock{Path: "/p/l", Session: old, Forced: true}); err != nil {
			t.Errorf("an administrator of the path may release: %v", err)
		}
		refusal := errors.New("no line")
		if err := keep("user:b", &Checked{}, func(Checked) error { return refusal }); err != refusal || owner() != "" {
			t.Errorf("without its line: %v, and the session is %q's", err, owner())
		}
		told := Checked{}
		announced := 0
		err := keep("user:b", &told, func(Checked) error { announced++; return nil })
		if err != nil || owner() != "user:b" || told.Adopted != old || announced != 1 {
			t.Errorf("%v, the session is %q's, reported %+v, announced %d times", err, owner(), told, announced)
		}
		told = Checked{}
		if err := keep("user:b", &told, nil); err != nil || told.Adopted != "" {
			t.Errorf("the next call: %v, reported %+v", err, told)
		}
		code(t, keep("user:a", nil, nil), lockapi.CodePermissionDenied)
	})
}

// TestAdoptionOfSeveral: a call for several sessions adopts each of them.
func TestAdoptionOfSeveral(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		var all []string
		keys := &lockapi.ChangeKeys{}
		for _, path := range []string{"/p/1", "/p/2", "/p/3"} {
			all = append(all, newSession(t, m, time.Hour))
			op := lockapi.KeyOperation{Verb: lockapi.KeyLock, Path: path, Session: all[len(all)-1]}
			keys.Operations = append(keys.Operations, op, op)
		}
		rule := &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: []string{"user:a"}, Lock: []string{"user:a"}}}
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), rule)))
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		told, announced := Checked{}, ""
		caller := &Caller{Principal: "user:a", Told: &told, Adopts: func(c Checked) error { announced = c.Adopted; return nil }}
		answer, out, err := m.Do(t.Context(), caller, false, keys)
		must(t, err)
		if got := answer.(lockapi.KeysChanged); len(got.Results) != len(keys.Operations) {
			t.Errorf("%+v", got)
		}
		for _, id := range all {
			if v, _ := n.State().Session(id); v.Principal != "user:a" {
				t.Errorf("a session is %q's", v.Principal)
			}
		}
		if want := strings.Join(all, " "); out.Adopted != want || announced != want {
			t.Errorf("announced %q, reported %q; want %q", announced, out.Adopted, want)
		}
	})
}

// TestAdoptionOfFiles: a session with an ephemeral file is adopted by a
// principal that may write that file. Other callers cannot end the session, and
// so cannot delete the file that way.
func TestAdoptionOfFiles(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		old := newSession(t, m, time.Hour)
		must(t, second(m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/p/f", Session: old, Ephemeral: new(true)})))
		rule := &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: []string{"user:a"}, Lock: []string{"user:b"}}}
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), rule)))
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		keep := func(who string) error {
			caller := by(who, NoCaller)
			caller.Ask.Session, caller.Ask.Uses = old, true
			_, err := m.KeepAlive(t.Context(), new(caller), &lockapi.KeepAlive{Session: old})
			return err
		}
		code(t, keep("user:b"), lockapi.CodeSessionNotFound)
		closing := by("user:b", Operate)
		closing.Ask.Session = old
		code(t, m.CloseSession(t.Context(), new(closing), &lockapi.CloseSession{Session: old}), lockapi.CodeSessionNotFound)
		if _, ok := n.State().File("/p/f"); !ok {
			t.Error("the file is gone")
		}
		must(t, keep("user:a"))
	})
}

// TestAdoptionOfAKey: a session with a hold that deletes its key at the end is adopted
// only by a principal that may also write the key.
func TestAdoptionOfAKey(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		req := lockapi.NewSessionRequest()
		req.Meta = map[string]string{lockapi.MetaKeyBehavior: lockapi.KeysDeleted}
		opened, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: req})
		must(t, err)
		must(t, second(m.ChangeKeys(t.Context(), &Caller{}, &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{{Verb: lockapi.KeyLock, Path: "/p/k", Session: opened.ID}}})))
		rule := &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: []string{"user:a"}, Lock: []string{"user:a", "user:b"}}}
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), rule)))
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		for _, who := range []string{"user:b", "user:a"} {
			closing := by(who, NoCaller)
			closing.Ask.Session, closing.Ask.Uses = opened.ID, true
			err := m.CloseSession(t.Context(), new(closing), &lockapi.CloseSession{Session: opened.ID})
			if _, there := n.State().File("/p/k"); there != (who == "user:b") || (err == nil) != (who == "user:a") {
				t.Errorf("%s: the key is there: %t, %v", who, there, err)
			}
		}
	})
}

// TestHiddenKeysAreNotMeasured: a caller that may not read a tree does not learn
// from the size of a transaction's answer whether the tree has keys.
func TestHiddenKeysAreNotMeasured(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		put := func(path string, size int) {
			op := lockapi.KeyOperation{Verb: lockapi.KeySet, Path: path, Content: make([]byte, size)}
			_, _, err := m.Do(t.Context(), new(root(Operate)), false, &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{op}})
			must(t, err)
		}
		read := func(who, tree string) string {
			own := lockapi.KeyOperation{Verb: lockapi.KeyGet, Path: "/p/own"}
			answer, _, err := m.Do(t.Context(), &Caller{Principal: who}, false, &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{own, own, {Verb: lockapi.KeyGetTree, Path: tree}}})
			done, _ := answer.(lockapi.KeysChanged)
			return fmt.Sprint(done.Failures, err)
		}
		put("/p/own", state.MaxResults/2-len("/p/own"))
		before := read("user:c", "/q/")
		put("/q/hidden", 1)
		if after := read("user:c", "/q/"); after != before {
			t.Errorf("before there was a hidden key: %s; now: %s", before, after)
		}
		if got := read("user:c", "/p/"); !strings.Contains(got, fmt.Sprint(obstacles[state.TooLong])) || strings.Contains(got, "denied") {
			t.Errorf("a tree that the caller may read: %s", got)
		}
	})
}

// TestNamesOfSequentialFilesAreJudged: the right to write is checked at the
// final name, as it is when the call takes effect.
func TestNamesOfSequentialFilesAreJudged(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		next := func(prefix string, ahead uint64) string {
			return fmt.Sprintf("%s%0*d", prefix, state.SequenceDigits, n.State().Revision+ahead)
		}
		rule := func(path string, write ...string) {
			t.Helper()
			must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: path, AccessLists: lockapi.AccessLists{Write: write}})))
		}
		create := func(who, prefix string) (FileWritten, error) {
			return m.WriteFile(t.Context(), new(by(who, NameAt, next(prefix, 1))), &lockapi.WriteFile{Path: prefix, Sequential: true})
		}
		transact := func(who, prefix string) error {
			caller := by(who, KnownCaller)
			caller.Also = []Ask{{Right: NameAt, Path: next(prefix, 1)}}
			content := "x"
			_, err := m.Transact(t.Context(), new(caller), &lockapi.Transact{Transaction: lockapi.Transaction{
				Then: []lockapi.Operation{{CreateSequential: &lockapi.WriteOperation{Path: prefix, Content: &content}}}}})
			return err
		}
		denied := next("/p/q-", 1)
		rule(denied, "user:b")
		rule(next("/p/q-", 3), "user:b")
		for range 2 {
			if e := code(t, second(create("user:a", "/p/q-")), lockapi.CodePermissionDenied); e.Path != denied || e.Permission != lockapi.PermissionWrite {
				t.Errorf("%+v", e)
			}
			code(t, transact("user:a", "/p/q-"), lockapi.CodePermissionDenied)
		}
		if done, err := create("user:b", "/p/q-"); err != nil || done.Stat.Path != denied {
			t.Errorf("%+v, %v", done, err)
		}
		if _, err := create("user:a", "/p/q-"); err != nil {
			t.Errorf("at a name without a rule: %v", err)
		}
		code(t, transact("user:a", "/p/q-"), lockapi.CodePermissionDenied)
		code(t, second(create("user:c", "/p/r-")), lockapi.CodePermissionDenied)
		code(t, second(create("", "/p/r-")), lockapi.CodeUnauthenticated)
	})
}

// TestWhatMayNotBeReadIsLeftOut of lists, refusals and events.
func TestWhatMayNotBeReadIsLeftOut(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		must(t, second(m.WriteFile(t.Context(), new(by("user:a", WriteAt, "/p/f")), &lockapi.WriteFile{Path: "/p/f", Content: []byte("secret")})))
		if e := code(t, second(ask(t.Context(), m, locking("user:b", b))), lockapi.CodeLockHeld); e.Holders != nil || e.MoreHolders != 0 {
			t.Errorf("%+v", e)
		}
		writer, write := by("user:root", WriteAt, "/p/f"), lockapi.WriteFile{Path: "/p/f", IfAbsent: true, Tell: true}
		if e := code(t, second(m.WriteFile(t.Context(), new(writer), &write)), lockapi.CodePrecondition); e.Current == nil {
			t.Errorf("%+v", e)
		}
		must(t, m.changeRule(t, lockapi.AccessLists{Read: []string{"user:c"}, Write: []string{"user:a"}}))
		writer = by("user:a", WriteAt, "/p/f")
		if e := code(t, second(m.WriteFile(t.Context(), new(writer), &write)), lockapi.CodePrecondition); e.Current != nil {
			t.Errorf("%+v", e)
		}
		// A refused write looks the same whether the file exists or
		// not.
		other := uint64(lockapi.MaxToken)
		unlike := lockapi.WriteFile{Path: "/p/f", IfRevision: &other}
		there := answered(t, code(t, second(m.WriteFile(t.Context(), new(writer), &unlike)), lockapi.CodePrecondition))
		unlike.Path, writer = "/p/g", by("user:a", WriteAt, "/p/g")
		absent := answered(t, code(t, second(m.WriteFile(t.Context(), new(writer), &unlike)), lockapi.CodePrecondition))
		if there != strings.ReplaceAll(absent, "/p/g", "/p/f") || strings.Contains(there, "current") {
			t.Errorf("an unreadable file: %s; a missing one: %s", there, absent)
		}
		for who, sees := range map[string]int{"user:c": 1, "user:b": 0, "": 0, "user:root": 1} {
			read := Read{Caller: new(by(who, AnyCaller))}
			locks, err := m.ListLocks(t.Context(), new(read), &lockapi.ListLocks{Limit: 10})
			files, err2 := m.ListFiles(t.Context(), new(read), &lockapi.ListFiles{Delimiter: true, Prefix: "/", Limit: 10})
			if err != nil || err2 != nil || len(locks.Locks) != sees || len(files.Dirs) != sees {
				t.Errorf("%q sees %v and %v; %v, %v", who, locks, files, err, err2)
			}
			filter, _ := NewEventFilter(nil, nil, nil, false)
			watch := watching(t, m, filter.For(by(who, AnyCaller)))
			found, upTo, err := watch.Read(1, 1, 1<<20)
			watch.Close()
			if err != nil || len(found) != sees || sees == 0 && upTo != m.log.State().Revision {
				t.Errorf("%q gets %v up to %d; %v", who, found, upTo, err)
			}
		}
	})
}

// soon returns an item that arrives within a minute.
func soon[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}

// changeRule replaces the rule at /p.
func (m *Master) changeRule(t *testing.T, lists lockapi.AccessLists) error {
	t.Helper()
	_, err := m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lists})
	return err
}

// TestRightsThatAreTakenAway: waiting calls are checked again, holds stay.
func TestRightsThatAreTakenAway(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		if g, err := ask(t.Context(), m, locking("user:b", b, queueing)); err != nil || g.State != lockapi.StateQueued {
			t.Fatalf("%+v, %v", g, err)
		}
		waits := make(chan error, 3)
		go func() {
			waits <- second(ask(context.Background(), m, locking("user:b", b, handle("w"), waiting(time.Hour))))
		}()
		go func() {
			waits <- second(ask(context.Background(), m, locking("user:b", b, handle("both"), waiting(time.Hour), queueing)))
		}()
		pass(time.Second)
		if s := n.State(); s.WaitCount() != 3 {
			t.Fatalf("%d wait", s.WaitCount())
		}
		must(t, m.changeRule(t, lockapi.AccessLists{Lock: []string{}}))
		for range 2 {
			code(t, soon(t, waits), lockapi.CodePermissionDenied)
		}
		pass(time.Second)
		if s := n.State(); s.WaitCount() != 0 || s.HoldCount() != 1 {
			t.Errorf("%d wait and %d hold", s.WaitCount(), s.HoldCount())
		}
		k, err := m.KeepAlive(t.Context(), new(by("user:b", Known)), &lockapi.KeepAlive{Session: b})
		if err != nil || len(k.Events) != 2 {
			t.Fatalf("%+v, %v", k, err)
		}
		for _, e := range k.Events {
			if e.Type != lockapi.EventLockWithdrawn || e.Path != "/p/l" || e.Reason != lockapi.ReasonDenied || e.Seq == 0 || e.Handle == "w" {
				t.Errorf("%+v", e)
			}
		}
		k, err = m.KeepAlive(t.Context(), new(by("user:b", Known)), &lockapi.KeepAlive{Session: b, KeepaliveRequest: lockapi.KeepaliveRequest{Ack: k.Events[1].Seq}})
		if err != nil || len(k.Events) != 0 {
			t.Errorf("acknowledged, they come again: %+v, %v", k, err)
		}
	})
}

// TestHoldsStayWhenTheRightIsTakenAway: a caller that missed its grant because
// of a change of master can still claim it. It cannot get another grant that
// way.
func TestHoldsStayWhenTheRightIsTakenAway(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		called := make(chan error)
		go func() {
			called <- second(ask(context.Background(), m, locking("user:b", b, waiting(time.Hour))))
		}()
		pass(time.Second)
		c.elect("r1")
		code(t, soon(t, called), lockapi.CodeOutcomeUnknown)
		c.inOffice(n, time.Minute)
		release := lockapi.ReleaseLock{Path: "/p/l", Session: a}
		if r, err := m.ReleaseLock(t.Context(), new(root(AdminAt)), &release); err != nil || !r.Released {
			t.Fatalf("%+v, %v", r, err)
		}
		pass(time.Second)
		must(t, m.changeRule(t, lockapi.AccessLists{Lock: []string{}}))
		denied := func(when string, req request) {
			t.Helper()
			if e := code(t, second(ask(t.Context(), m, req)), lockapi.CodePermissionDenied); e.Holders != nil {
				t.Errorf("%s: %+v", when, e)
			}
		}
		denied("by another principal", locking("user:a", b))
		denied("by another session", locking("user:a", a))
		denied("by another handle", locking("user:b", b, handle("other")))
		g, err := ask(t.Context(), m, locking("user:b", b))
		if err != nil || g.State != lockapi.StateHeld {
			t.Fatalf("%+v, %v", g, err)
		}
		pass(2 * orphanGrace)
		if again, err := ask(t.Context(), m, locking("user:b", b)); err != nil || again.Token != g.Token {
			t.Errorf("%+v, %v; want the grant %+v", again, err, g)
		}
		release.Session = b
		if r, err := m.ReleaseLock(t.Context(), new(root(AdminAt)), &release); err != nil || !r.Released {
			t.Fatalf("%+v, %v", r, err)
		}
		denied("released", locking("user:b", b))
		if s := n.State(); s.HoldCount() != 0 || s.WaitCount() != 0 {
			t.Errorf("%d hold and %d wait", s.HoldCount(), s.WaitCount())
		}
	})
}

// TestPlacesOutliveCredentials: a JWT or a token may expire while a call waits.
// The call then returns its kept position, which the next call finds again.
func TestPlacesOutliveCredentials(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		_, sum := tokenFor(t, m, "user:b", time.Minute)
		for i, proof := range []Caller{{Principal: "user:b", Ends: time.Now().Add(time.Minute)}, {Secret: sum}} {
			req := locking("user:b", b, queueing, waiting(time.Hour), handle(fmt.Sprint(i)))
			req.by.Principal, req.by.Ends, req.by.Secret = proof.Principal, proof.Ends, proof.Secret
			called := make(chan error, 1)
			go func() {
				g, err := ask(context.Background(), m, req)
				if err == nil && (g.State != lockapi.StateQueued || g.Position != i+1) {
					err = fmt.Errorf("%+v", g)
				}
				called <- err
			}()
			defer func() {
				if err := soon(t, called); err != nil {
					t.Errorf("when its credential ends, call %d returns %v", i, err)
				}
				if g, err := ask(t.Context(), m, locking("user:b", b, queueing, handle(fmt.Sprint(i)))); err != nil || g.Position != i+1 {
					t.Errorf("%+v, %v; want place %d", g, err, i+1)
				}
			}()
			pass(time.Second)
		}
		pass(time.Minute)
		if s := n.State(); s.WaitCount() != 2 {
			t.Errorf("%d wait", s.WaitCount())
		}
	})
}

// TestNextOfficeJudgesWaits: the office in which rights changed may have ended
// before it had checked all queues.
func TestNextOfficeJudgesWaits(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		for i := range 2*expelledAtOnce + 1 {
			if g, err := ask(t.Context(), m, locking("user:b", b, queueing, handle(fmt.Sprint(i)))); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		n.change(func(s *state.State) { s.AccessOn = false }) // so that this office does not check the waits
		must(t, m.changeRule(t, lockapi.AccessLists{Lock: []string{}}))
		pass(time.Second)
		n.change(func(s *state.State) { s.AccessOn = true })
		pass(time.Second)
		if s := n.State(); s.WaitCount() == 0 {
			t.Fatal("this office has already checked the waits")
		}
		c.office("r1")
		pass(10 * time.Second)
		if s := n.State(); s.WaitCount() != 0 || s.HoldCount() != 1 {
			t.Errorf("%d wait and %d hold", s.WaitCount(), s.HoldCount())
		}
	})
}

// TestRefusedWaitIsOver when its caller gets the refusal, even for a kept
// position: a refused call has no effect later. Here a token is revoked, which
// ends waiting keepalives and watches, too.
func TestRefusedWaitIsOver(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		idle := sessionOfCaller(t, m, "user:b") // the end of a wait wakes no keepalive of it
		must(t, second(ask(t.Context(), m, locking("user:a", a))))
		token, sum := tokenFor(t, m, "user:b", 0)
		over := make(chan error, 3)
		for name, change := range map[string]func(*lockapi.LockRequest){"kept": queueing, "not kept": waiting(time.Hour)} {
			req := locking("user:b", b, waiting(time.Hour), change, handle(name))
			req.by.Principal, req.by.Secret = "", sum
			go func() {
				_, err := ask(context.Background(), m, req)
				if _, wait := n.State().HoldOrWait(b, "/p/l", name); wait != nil {
					t.Errorf("refused with %v, a place that is %s is left: %+v", err, name, wait)
				}
				over <- err
			}()
		}
		go func() { over <- keepWaiting(m, Caller{Secret: sum}, idle) }()
		pass(time.Second)
		filter, _ := NewEventFilter(nil, nil, nil, false)
		watch := watching(t, m, filter.For(Caller{Secret: sum, Ask: Ask{Right: AnyCaller}}))
		defer watch.Close()
		if found, _, err := watch.Read(m.log.State().Revision, 10, 1000); err != nil || len(found) > 0 || len(watch.Ready()) > 0 {
			t.Fatalf("%v, %v: there is nothing to look for", found, err)
		}
		must(t, m.RevokeToken(t.Context(), new(root(Operate)), &lockapi.RevokeToken{ID: token}))
		for range cap(over) {
			code(t, soon(t, over), lockapi.CodeUnauthenticated)
		}
		soon(t, watch.Ready())
		code(t, third(watch.Read(1, 10, 1000)), lockapi.CodeUnauthenticated)
	})
}

// tokenFor creates a token. It returns the token's id and the digest of its
// secret.
func tokenFor(t *testing.T, m *Master, principal string, ttl time.Duration) (id string, sum *[32]byte) {
	t.Helper()
	request := lockapi.TokenRequest{Principal: principal, TTLMS: ttl.Milliseconds()}
	token, err := m.CreateToken(t.Context(), new(root(Operate)), &lockapi.CreateToken{TokenRequest: request})
	must(t, err)
	return token.ID, new(sha256.Sum256([]byte(token.Secret)))
}

// keepWaiting makes a keepalive of the caller's session that waits for long.
func keepWaiting(m *Master, by Caller, session string) error {
	by.Ask = Ask{Right: NoCaller, Session: session}
	wait := lockapi.KeepaliveRequest{WaitMS: 600_000}
	return second(m.KeepAlive(context.Background(), &by, &lockapi.KeepAlive{Session: session, KeepaliveRequest: wait}))
}

// answered returns a refusal as it is sent.
func answered(t *testing.T, e *lockapi.Error) string {
	t.Helper()
	b, err := json.Marshal(e)
	must(t, err)
	return string(b)
}

// TestCredentialsThatEndEndWhatWaits at the moment of expiry: an expired
// credential gets no lock and extends no session.
func TestCredentialsThatEndEndWhatWaits(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		const ttl = 5 * time.Second
		_, sum := tokenFor(t, m, "user:a", ttl)
		must(t, second(ask(t.Context(), m, locking("user:a", sessionOfCaller(t, m, "user:a")))))
		called, watched := make(chan error, 4), make(chan error, 2)
		all, err := NewEventFilter(nil, []string{"/q/"}, nil, false)
		must(t, err)
		for _, proof := range []Caller{{Secret: sum}, {Principal: "user:a", Ends: time.Now().Add(ttl)}} {
			watcher := proof
			watcher.Ask = Ask{Right: AnyCaller}
			go func() {
				watch := watching(t, m, all.For(watcher))
				defer watch.Close()
				for after := uint64(0); ; <-watch.Ready() {
					var err error
					if _, after, err = watch.Read(after, 10, 1000); err != nil {
						watched <- err
						return
					}
				}
			}()
			s := sessionOfCaller(t, m, "user:a")
			req := locking("user:a", s, waiting(time.Hour))
			req.by.Secret, req.by.Ends = proof.Secret, proof.Ends
			go func() { called <- second(ask(context.Background(), m, req)) }()
			go func() { called <- keepWaiting(m, proof, s) }()
		}
		pass(ttl - time.Second)
		if len(called)+len(watched) > 0 {
			t.Fatalf("%d calls and %d watches have ended, while the credential counted", len(called), len(watched))
		}
		pass(2 * time.Second)
		for range 4 {
			code(t, soon(t, called), lockapi.CodeUnauthenticated)
		}
		for range 2 {
			code(t, soon(t, watched), lockapi.CodeUnauthenticated)
		}
		if s := n.State(); s.WaitCount() != 0 {
			t.Errorf("%d wait", s.WaitCount())
		}
	})
}

// TestEnablingIsForWhatWaits, too: also for a call from the time when every
// caller was allowed everything.
func TestEnablingIsForWhatWaits(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		know(c)
		s := sessionOfCaller(t, m, "")
		called := make(chan error, 2)
		go func() { called <- keepWaiting(m, Caller{}, s) }()
		mustHold(t, m, "/p/l", want(sessionOfCaller(t, m, "")))
		go func() { called <- second(ask(context.Background(), m, locking("", s, waiting(time.Hour)))) }()
		pass(time.Second)
		if m.Cell().Access {
			t.Error("the cell says that access is on")
		}
		must(t, second(m.EnableAccess(t.Context(), new(by("", Operate)), &lockapi.EnableAccess{})))
		if !m.Cell().Access {
			t.Error("the cell says that access is off")
		}
		for range 2 {
			code(t, soon(t, called), lockapi.CodeUnauthenticated)
		}
	})
}

// TestCallsBehindARevocationHaveNoEffect: many callers run beside changes of a
// rule. A call that began after a change was acknowledged is checked by the new
// rule.
func TestCallsBehindARevocationHaveNoEffect(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for i := range 20 {
			must(t, m.changeRule(t, lockapi.AccessLists{Write: []string{"user:a"}}))
			path, stop := fmt.Sprintf("/p/%d", i), make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = m.WriteFile(context.Background(), new(by("user:a", WriteAt, path)), &lockapi.WriteFile{Path: path})
						pass(time.Millisecond)
					}
				}
			}()
			pass(time.Duration(i) * 7 * time.Millisecond)
			must(t, m.changeRule(t, lockapi.AccessLists{Write: []string{}}))
			began := time.Now()
			_, err := m.WriteFile(t.Context(), new(by("user:a", WriteAt, path)), &lockapi.WriteFile{Path: path})
			if !errors.Is(err, lockapi.CodePermissionDenied) {
				t.Fatalf("a write behind the change came to %v", err)
			}
			close(stop)
			<-done
			if f, ok := m.log.State().File(path); ok && time.Unix(0, f.ModifiedAt).After(began.Add(2*fakeDelay)) {
				t.Fatalf("a write was made at %v, and the right was gone at %v", time.Unix(0, f.ModifiedAt), began)
			}
		}
	})
}
