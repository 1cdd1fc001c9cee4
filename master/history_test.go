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

// historyText returns what a replica remembers of a path, one event a line.
func historyText(t *testing.T, m *Master, path string, limit int) (string, lockapi.History) {
	t.Helper()
	h, err := m.GetHistory(t.Context(), &Read{Caller: new(root(ReadAt))}, &lockapi.GetHistory{Path: path, Limit: limit})
	must(t, err)
	var lines []string
	for _, e := range h.Events {
		line := fmt.Sprintf("%s %s", e.Type, e.Reason)
		for name, ms := range map[string]*int64{"waited": e.WaitedMS, "silent": e.SilentMS} {
			if ms != nil {
				line += fmt.Sprintf(" %s %s", name, (time.Duration(*ms) * time.Millisecond).Round(time.Second))
			}
		}
		lines = append(lines, strings.Join(strings.Fields(line+" "+e.SessionName+" "+e.Master), " "))
	}
	return strings.Join(lines, "\n"), h
}

func lasting(t *testing.T, m *Master, name string, ttl time.Duration) string {
	t.Helper()
	s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl.Milliseconds(), Name: name}})
	must(t, err)
	return s.ID
}

// TestHistory: the holders of a lock, the times of its waits, the reason of
// each end, and the masters between; newest first, and the same on each
// replica.
func TestHistory(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		know(c)
		_, err := n.master.PutGroup(t.Context(), &Caller{}, &lockapi.PutGroup{Name: "g"}) // raises the level to one with times of silence in events
		must(t, err)
		a, b := lasting(t, n.master, "a", time.Hour), lasting(t, n.master, "b", 12*time.Second)
		held := mustHold(t, n.master, "/l", want(a))
		mustHold(t, n.master, "/other", want(a))
		call := begin(t.Context(), n.master, "/l", want(b, waiting(time.Minute)))
		pass(5 * time.Second)
		must(t, second(n.master.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/l", Session: a})))
		<-call.done
		must(t, call.err)
		alive(n, b, time.Minute) // b then expires
		n = c.office("r2")
		mustHold(t, n.master, "/l", want(a))
		must(t, n.master.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: a}))
		pass(time.Second) // until the other replicas have it
		const all = "lock_released session_closed a\nlock_acquired a\nmaster_changed r2\nlock_released session_expired silent 12s b\n" +
			"lock_acquired waited 5s b\nlock_released released a\nlock_contended b\nlock_acquired a\nmaster_changed r1"
		for _, n := range c.nodes {
			got, h := historyText(t, n.master, "/l", 20)
			if got != all || h.More || h.Oldest != 0 || h.Since == nil || h.Path != "/l" {
				t.Errorf("%s: %+v\n%s", n.id, h, got)
			}
			if first, last := h.Events[0], h.Events[7]; last.Token != held.Token || last.Session != a || !last.At.Equal(*held.GrantedAt) ||
				last.TTLMS != 3_600_000 || first.HeldMS == nil || last.HeldMS != nil || h.Revision != first.Revision+1 { // the end of /other is the last change
				t.Errorf("%s: %+v ... %+v", n.id, first, last)
			}
		}
		if got, h := historyText(t, n.master, "/l", 2); got != "lock_released session_closed a\nlock_acquired a" || !h.More {
			t.Errorf("%+v\n%s", h, got)
		}
		if got, h := historyText(t, n.master, "/none", 1); got != "master_changed r2" || h.More {
			t.Errorf("%+v\n%s", h, got)
		}
	})
}

// TestHistoryNamesWhoForced: an event names the principal that forced a release
// or ended another principal's session.
func TestHistoryNamesWhoForced(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		for i := range 2 {
			s, err := m.OpenSession(t.Context(), new(by("user:a", AnyCaller)), &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000}})
			must(t, err)
			must(t, second(m.AcquireLock(t.Context(), new(using(by("user:a", LockAt, "/p/l"), s.ID)), &lockapi.AcquireLock{Path: "/p/l", LockRequest: want(s.ID)})))
			if i == 0 {
				_, err = m.ReleaseLock(t.Context(), new(root(AdminAt)), &lockapi.ReleaseLock{Path: "/p/l", Session: s.ID})
			} else {
				err = m.CloseSession(t.Context(), new(root(Operate)), &lockapi.CloseSession{Session: s.ID})
			}
			must(t, err)
		}
		_, h := historyText(t, m, "/p/l", 20)
		closed, forced := h.Events[0], h.Events[2]
		if forced.Reason != lockapi.ReasonForced || forced.By != "user:root" || forced.Principal != "user:a" {
			t.Errorf("%+v", forced)
		}
		if closed.Reason != lockapi.ReasonSessionClosed || closed.By != "user:root" || closed.Principal != "user:a" {
			t.Errorf("%+v", closed)
		}
	})
}

// TestHistoryOfFiles: the principals that wrote and deleted a file.
func TestHistoryOfFiles(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		must(t, putSized(t, m, "/f", 100))
		must(t, putSized(t, m, "/f", 10))
		must(t, second(m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/f"})))
		got, h := historyText(t, m, "/f", 20)
		if got != "file_deleted deleted\nfile_changed\nfile_created\nmaster_changed r1" || h.Events[1].Size != 10 || h.Events[1].Generation != 2 {
			t.Errorf("%+v\n%s", h, got)
		}
	})
}

// eventsOf reads the events after a revision.
func eventsOf(t *testing.T, m *Master, after uint64, bytes int, content bool, types ...lockapi.EventType) ([]lockapi.CellEvent, uint64) {
	t.Helper()
	f, err := NewEventFilter(nil, nil, types, content)
	must(t, err)
	w := watching(t, m, f)
	defer w.Close()
	all, upTo, err := w.Read(after, 100, bytes)
	must(t, err)
	return all, upTo
}

// TestEventsOfLocks have the grant, its holder's name, and why it ended; a waiter
// has no token.
func TestEventsOfLocks(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000, Name: "worker"}})
		must(t, err)
		must(t, second(acquireLock(t, m, "/l", want(s.ID, handle("a")))))
		must(t, second(acquireLock(t, m, "/l", want(s.ID, handle("b"), queueing))))
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: s.ID}))
		all, _ := eventsOf(t, m, 0, 1<<20, false, lockapi.EventLockAcquired, lockapi.EventLockReleased, lockapi.EventLockContended)
		var got []string
		for _, e := range all {
			got = append(got, string(e.Type)+" "+e.Reason)
			if h := e.Hold; e.Type != lockapi.EventMasterChanged && (e.Path != "/l" || h == nil || h.Session != s.ID || h.SessionName != "worker" ||
				(h.Token == 0) != (e.Type == lockapi.EventLockContended) || h.Mode != lockapi.Exclusive) {
				t.Errorf("%+v %+v", e, h)
			}
		}
		if text := strings.Join(got, ", "); text != "master_changed , lock_acquired , lock_contended , lock_released session_closed" {
			t.Error(text)
		}
	})
}

// TestContentOfEvents is the content of the event, as long as the file has it;
// one read has a limited amount.
func TestContentOfEvents(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		for range 2 {
			for _, path := range []string{"/a", "/b", "/c"} {
				must(t, putSized(t, m, path, 100))
			}
		}
		all, upTo := eventsOf(t, m, 1, 1<<20, true)
		for i, e := range all {
			if has := e.File.Content != nil; has != (i >= 3) {
				t.Errorf("revision %d has its content: %v", e.Revision, has)
			}
		}
		// Each byte of putSized is \u0000 in JSON.
		if part, reached := eventsOf(t, m, upTo-3, 1500, true); len(part) != 2 || reached != upTo-1 {
			t.Errorf("%d events, up to %d of %d", len(part), reached, upTo)
		}
		if part, reached := eventsOf(t, m, upTo-3, 1, true); len(part) != 1 || reached != upTo-2 {
			t.Errorf("%d events, up to %d of %d", len(part), reached, upTo)
		}
	})
}

// TestUnknownTypesOfEvents are refused.
func TestUnknownTypesOfEvents(t *testing.T) {
	_, err := NewEventFilter(nil, nil, []lockapi.EventType{"file_moved"}, false)
	if e := code(t, err, lockapi.CodeInvalidArgument); e.Field != "types" {
		t.Errorf("%+v", e)
	}
}

// TestWatchersShareAnEvent: an event is converted once for all of them.
func TestWatchersShareAnEvent(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		first, second := watching(t, m, EventFilter{}), watching(t, m, EventFilter{})
		defer first.Close()
		defer second.Close()
		must(t, putSized(t, m, "/a", 100))
		_, now := first.Bounds()
		a, _, err := first.Read(now-1, 10, 1<<20)
		must(t, err)
		b, _, err := second.Read(now-1, 10, 1<<20)
		must(t, err)
		if len(a) != 1 || len(b) != 1 || a[0].File == nil || a[0].File != b[0].File {
			t.Errorf("%+v and %+v", a, b)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = second.Read(now-1, 10, 1<<20) }); n > 2 {
			t.Errorf("%v allocations for each receiver", n)
		}
	})
}

// TestWatchIsReadyForTheRest: after a read that leaves events out, for their
// number or their contents, the watch is ready.
func TestWatchIsReadyForTheRest(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		for name, bound := range map[string]struct{ limit, bytes int }{"number": {2, 1 << 20}, "contents": {100, 1}} {
			w := watching(t, m, EventFilter{content: true})
			defer w.Close()
			_, after := w.Bounds()
			for _, path := range []string{"/a", "/b", "/c"} {
				must(t, putSized(t, m, path, 100))
			}
			for n := 0; n < 3; {
				select {
				case <-w.Ready():
				default:
					if n > 0 {
						t.Fatalf("%s: not ready after %d of 3 events", name, n)
					}
				}
				got, upTo, err := w.Read(after, bound.limit, bound.bytes)
				must(t, err)
				n, after = n+len(got), upTo
			}
		}
	})
}

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
			must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lists})))
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
