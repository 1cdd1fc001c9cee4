package master

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// quotas are so small that every one of them can be used up.
var quotas = Quotas{Sessions: 3, Holds: 6, Waiters: 3, SessionHolds: 4, SessionWaiters: 2}

func withQuotas(t *testing.T, q Quotas, f func(t *testing.T, m *Master, n *node, c *fakeCell)) {
	t.Helper()
	inCell(t, 1, Options{Drift: 0.01, Quotas: q}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		f(t, n.master, n, c)
		settled(t, n)
	})
}

// refusedBy checks that a call was refused because of the named quota, and that
// the error tells a person what to do.
func refusedBy(t *testing.T, err error, quota string) {
	t.Helper()
	e := code(t, err, lockapi.CodeTooMany)
	if e.RetryAfter <= 0 || !strings.HasPrefix(e.Detail, "quota "+quota+" is used up") || !strings.Contains(e.Detail, "or have the quota raised") {
		t.Errorf("%+v, want a refusal by %s", e, quota)
	}
}

// inUse is what the state holds of what the quotas count.
func inUse(s *state.State) (a usage) {
	for v := range s.Sessions("") {
		a.add(usageOf(v), 1)
		for answer := range s.Answers(v.ID).All() {
			a.add(answerUsage(answer), 1)
		}
	}
	for h := range s.Holds() {
		a.add(claimUsage(holdKey(h)), 1)
	}
	for w := range s.Waits() {
		a.add(claimUsage(waitKey(w)), 1)
		a.add(waitUsage, 1)
	}
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			a.add(delayUsage(l.Path), 1)
		}
	}
	for f := range s.Files("", "") {
		a.add(fileUsage(f.Path, int64(len(f.Content))), 1)
	}
	a.bytes += s.Policy().Size()
	return a
}

// settled checks, when nothing is under way, that the office has counted right.
func settled(t *testing.T, n *node) {
	t.Helper()
	o := openOffice(t, n)
	pass(20 * fakeDelay)
	a := o.accounting
	a.mu.Lock()
	defer a.mu.Unlock()
	if want := inUse(n.State()); a.cell != want {
		t.Errorf("the office counts %+v, the state has %+v", a.cell, want)
	}
	for id, own := range a.sessions {
		v, _ := n.State().Session(id)
		want := usage{bytes: usageOf(v).bytes}
		for hold, wait := range n.State().Claims(id) {
			if hold != nil {
				want.add(claimUsage(holdKey(hold)), 1)
			} else {
				want.add(claimUsage(waitKey(wait)), 1)
				want.add(waitUsage, 1)
			}
		}
		for answer := range n.State().Answers(id).All() {
			want.add(answerUsage(answer), 1)
		}
		if own.usage != want {
			t.Errorf("the office counts %+v for a session, the state has %+v", *own, want)
		}
	}
	if len(a.sessions) != n.State().SessionCount() {
		t.Errorf("the office counts for %d sessions, the state has %d", len(a.sessions), n.State().SessionCount())
	}
	if len(a.openings)+len(a.claims)+len(a.keyed)+len(a.files.rooms)+len(a.files.choices) > 0 {
		t.Errorf("%d sessions are thought to be opened now, %d claims to be made, and %d keyed calls, %d rooms and %d choices to be under way",
			len(a.openings), len(a.claims), len(a.keyed), len(a.files.rooms), len(a.files.choices))
	}
}

func TestQuotaOfSessions(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		ctx, body := t.Context(), lockapi.SessionRequest{TTLMS: 12_000}
		first, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body, Key: "key"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			newSession(t, m, time.Minute)
		}
		_, err = m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body})
		refusedBy(t, err, "max-sessions")
		if again, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body, Key: "key"}); err != nil || again.ID != first.ID {
			t.Errorf("the repeated call: %+v, %v; want session %s", again, err, first.ID)
		}
		_, err = m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 13_000}, Key: "key"})
		code(t, err, lockapi.CodeConflict)
		if err := m.CloseSession(ctx, &Caller{}, &lockapi.CloseSession{Session: first.ID}); err != nil {
			t.Fatal(err)
		}
		newSession(t, m, time.Minute)
	})
}

func TestQuotaOfHolds(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx := t.Context()
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		for i := range 4 {
			mustHold(t, m, "/a/"+strconv.Itoa(i), want(a))
		}
		before := n.commands()
		_, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/a/4", LockRequest: want(a)})
		refusedBy(t, err, "max-session-holds")
		for i := range 2 {
			mustHold(t, m, "/b/"+strconv.Itoa(i), want(b))
		}
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/b/2", LockRequest: want(b)})
		refusedBy(t, err, "max-holds")
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/a/0", LockRequest: want(b, queueing)})
		refusedBy(t, err, "max-holds")
		if got := n.commands() - before; got != 2 {
			t.Errorf("%d commands, want those of the 2 grants alone", got)
		}
		mustHold(t, m, "/a/3", want(a)) // again
		if _, err := m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/a/3", Session: a}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, m, "/b/2", want(b))
	})
}

func TestQuotaOfWaiters(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx := t.Context()
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		mustHold(t, m, "/x", want(a))
		for _, h := range []string{"1", "2"} {
			if g, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(b, handle(h), queueing)}); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		_, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(b, handle("3"), waiting(time.Minute))})
		refusedBy(t, err, "max-session-waiters")
		if g, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(b, handle("2"), queueing)}); err != nil || g.Position != 2 {
			t.Errorf("the repeated call: %+v, %v; want place 2", g, err)
		}
		third := begin(ctx, m, "/x", want(a, handle("3"), waiting(time.Minute)))
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("4"), queueing)})
		refusedBy(t, err, "max-waiters")
		third.running(t)
		// A call that would wait is granted what is free, and a try is not
		// asked.
		mustHold(t, m, "/free", want(b, queueing))
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("4"))})
		code(t, err, lockapi.CodeLockHeld)
		if _, err := m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/x", Session: a}); err != nil {
			t.Fatal(err)
		}
		if g, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(b, handle("4"), queueing)}); err != nil || g.Position != 3 {
			t.Errorf("behind a grant: %+v, %v; want place 3", g, err)
		}
		settled(t, n)
		third.running(t)
	})
}

// A place in the queue that was lost between the look at the quota and the log
// is told as what it is.
func TestQuotaOfBytes(t *testing.T) {
	one := sessionUsage("", "", nil).bytes
	claim := claimUsage(claimKey{path: "/x/0"}).bytes
	withQuotas(t, Quotas{Bytes: 2*one + 3*claim, SessionBytes: one + 2*claim}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, 3*time.Second)
		mustHold(t, m, "/x/0", want(a))
		mustHold(t, m, "/x/1", want(a))
		_, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/x/2", LockRequest: want(a)})
		refusedBy(t, err, "max-session-bytes")
		mustHold(t, m, "/x/2", want(b, delayed(time.Minute)))
		_, err = m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/x/3", LockRequest: want(b)})
		refusedBy(t, err, "max-bytes")
		_, err = m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 12_000, Meta: map[string]string{"k": strings.Repeat("v", 1<<14)}}})
		refusedBy(t, err, "max-session-bytes")
		pass(5 * time.Second) // b expires and leaves a lock-delay, which takes room as well
		settled(t, n)
		if use := openOffice(t, n).accounting.ofCell(); use.bytes != one+2*claim+delayUsage("/x/2").bytes {
			t.Errorf("%d bytes are counted", use.bytes)
		}
	})
}

// Calls that come all at once get what there is room for, and no more. Calls
// sent twice at once, for the last place there is, are no two places. A new
// master counts what there is, and lets it be, however low its quotas are.
func TestQuotasAfterAChangeOfMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		for i := range 5 {
			mustHold(t, m, "/a/"+strconv.Itoa(i), want(a))
		}
		if _, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a/0", LockRequest: want(b, queueing)}); err != nil {
			t.Fatal(err)
		}
		c.node("r2").master.opts.Quotas = quotas
		n := c.office("r2")
		m = n.master
		settled(t, n)
		mustHold(t, m, "/a/4", want(a))
		_, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a/5", LockRequest: want(a)})
		refusedBy(t, err, "max-session-holds")
		_, err = m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/b/0", LockRequest: want(b)})
		refusedBy(t, err, "max-holds")
		if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a/0", Session: a}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, m, "/b/0", want(b))
		settled(t, n)
	})
}

// Whatever calls come, in whatever order, the office's count is never below the
// state's, and equals it when nothing is under way.
func TestQuotasAreTold(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for range 3 {
			newSession(t, m, time.Minute)
		}
		_, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 12_000}})
		refusedBy(t, err, "max-sessions")
		want := QuotaUse{Name: "max-sessions", Max: 3, Used: 3, Known: true, Refused: 1}
		if got := m.Quotas()[quotaSessions]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := m.Quotas()[quotaSessionHolds]; got.Known || got.Max != 4 {
			t.Errorf("%+v, want nothing known of the use of a quota of each session", got)
		}
	})
}

// What ends while a call that found it there is in the log, and may make it
// anew, leaves its room to that call. The same for a session that ends while a
// call that found it under its key, and could not say so in a lapse of the
// lease, is in the log.
