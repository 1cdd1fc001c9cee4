package master

import (
	"fmt"
	"strings"
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
