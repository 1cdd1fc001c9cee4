package master

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestHappenings: the beginning and end of each office are reported, with its
// epoch.
func TestHappenings(t *testing.T) {
	var mu sync.Mutex
	var told []string
	o := Options{Drift: drift, Happened: func(h Notification) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(h.Event, " ", h.Member, " ", h.Epoch))
	}}
	inCell(t, 3, o, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		pass(time.Minute)
		c.office("r2")
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(told)
		if got := strings.Join(told, ", "); got != "master_elected r1 1, master_elected r2 2, master_ended r1 1" {
			t.Error(got)
		}
	})
}

// TestAdmitted: a permitted change is announced before it has any effect; a
// denied one is not. A refused change has no effect. The announcement has the
// caller's principal.
func TestAdmitted(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		refusal := errors.New("no line")
		asked := 0
		caller := func(by Caller, told *Checked, err error) Caller {
			by.Told = told
			by.Admitted = func(Checked) error {
				asked++
				return err
			}
			return by
		}
		before := n.State()
		for _, change := range []func(Caller) error{
			func(by Caller) error {
				_, err := m.PutRule(t.Context(), new(by), &lockapi.PutRule{Path: "/refused"})
				return err
			},
			func(by Caller) error {
				_, err := m.OpenSession(t.Context(), new(by), &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
				return err
			},
			func(by Caller) error {
				_, err := m.WriteFile(t.Context(), new(by), &lockapi.WriteFile{Path: "/a"})
				return err
			},
			func(by Caller) error {
				return m.CloseSession(t.Context(), new(by), &lockapi.CloseSession{Session: "s"})
			},
			func(by Caller) error { return m.DisableAccess(t.Context(), new(by), &lockapi.DisableAccess{}) },
			func(by Caller) error {
				_, err := m.TransferMastership(t.Context(), new(by), &lockapi.TransferMastership{})
				return err
			},
			func(by Caller) error {
				_, err := m.Transact(t.Context(), new(by), &lockapi.Transact{})
				return err
			},
			func(by Caller) error {
				_, err := m.ReleaseLock(t.Context(), new(by), &lockapi.ReleaseLock{Session: "s", Path: "/a"})
				return err
			},
			func(by Caller) error {
				_, err := m.AcquireLock(t.Context(), new(by), &lockapi.AcquireLock{Path: "/a", LockRequest: lockapi.NewLockRequest("s")})
				return err
			},
			func(by Caller) error { return second(m.ReplaceMember(t.Context(), new(by), &lockapi.ReplaceMember{})) },
		} {
			var told Checked
			asked = 0
			if err := change(caller(root(Operate), &told, refusal)); !errors.Is(err, refusal) || asked != 1 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			if told.Principal != lockapi.PrincipalRoot {
				t.Errorf("%+v", told)
			}
			asked = 0
			if err := change(caller(Caller{Ask: Ask{Right: Operate}}, &told, nil)); !errors.Is(err, lockapi.CodeUnauthenticated) || asked != 0 {
				t.Errorf("%v, asked %d times about what is denied", err, asked)
			}
		}
		if s := n.State(); s.Revision != before.Revision || !s.AccessOn || s.SessionCount() != before.SessionCount() || s.Policy().RuleCount() != before.Policy().RuleCount() {
			t.Error("what was refused had an effect")
		}
	})
}

// TestRightsEndWhileTheCallIsAnnounced: the audit log may take long to write
// the line before a change. Rights that are revoked in that time count.
func TestRightsEndWhileTheCallIsAnnounced(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		sum := sha256.Sum256([]byte("stout_a"))
		token, err := m.CreateToken(t.Context(), new(root(Operate)), &lockapi.CreateToken{TokenRequest: lockapi.TokenRequest{Principal: "user:a", TokenSHA256: hex.EncodeToString(sum[:])}})
		must(t, err)
		rule := func(lists lockapi.AccessLists) {
			if _, err := m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lists}); err != nil {
				t.Error(err)
			}
		}
		write := func(announced func()) error {
			by := Caller{Secret: &sum, Ask: Ask{Right: WriteAt, Path: "/p/f"}}
			by.Admitted = func(Checked) error { announced(); return nil }
			_, err := m.WriteFile(t.Context(), new(by), &lockapi.WriteFile{Path: "/p/f"})
			return err
		}
		must(t, write(func() {}))
		before := n.State().Revision
		code(t, write(func() { rule(lockapi.AccessLists{}) }), lockapi.CodePermissionDenied)
		rule(lockapi.AccessLists{Write: []string{"user:a"}})
		code(t, write(func() {
			if err := m.RevokeToken(t.Context(), new(root(Operate)), &lockapi.RevokeToken{ID: token.ID}); err != nil {
				t.Error(err)
			}
		}), lockapi.CodeUnauthenticated)
		if f, _ := n.State().File("/p/f"); f == nil || f.Revision > before {
			t.Errorf("%+v: what was denied had an effect", f)
		}
	})
}
