package master

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
func inUse(s *state.State) (a amount) {
	for v := range s.Sessions("") {
		a.add(amountOf(v), 1)
	}
	for h := range s.Holds() {
		a.add(claimAmount(h.Path, h.Handle), 1)
	}
	for w := range s.Waits() {
		a.add(claimAmount(w.Path, w.Handle), 1)
		a.add(place, 1)
	}
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			a.add(delayAmount(l.Path), 1)
		}
	}
	return a
}

// settled checks, when nothing is under way, that the office has counted right.
func settled(t *testing.T, n *node) {
	t.Helper()
	o := openOffice(t, n)
	pass(20 * fakeDelay)
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := inUse(n.State()); o.use != want {
		t.Errorf("the office counts %+v, the state has %+v", o.use, want)
	}
	for id, s := range o.sessions {
		v, _ := n.State().Session(id)
		want := amount{bytes: amountOf(v).bytes}
		for hold, wait := range n.State().Claims(id) {
			if hold != nil {
				want.add(claimAmount(hold.Path, hold.Handle), 1)
			} else {
				want.add(claimAmount(wait.Path, wait.Handle), 1)
				want.add(place, 1)
			}
		}
		if s.use != want {
			t.Errorf("the office counts %+v for a session, the state has %+v", s.use, want)
		}
	}
	if len(o.openings) > 0 {
		t.Errorf("%d sessions are thought to be opened now", len(o.openings))
	}
}

func TestQuotaOfSessions(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		ctx, body := t.Context(), lockapi.SessionRequest{TTLMS: 12_000}
		first, err := m.OpenSession(ctx, body, "key")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			newSession(t, m, time.Minute)
		}
		_, err = m.OpenSession(ctx, body, "")
		refusedBy(t, err, "max-sessions")
		if again, err := m.OpenSession(ctx, body, "key"); err != nil || again.ID != first.ID {
			t.Errorf("the repeated call: %+v, %v; want session %s", again, err, first.ID)
		}
		_, err = m.OpenSession(ctx, lockapi.SessionRequest{TTLMS: 13_000}, "key")
		code(t, err, lockapi.CodeConflict)
		if err := m.CloseSession(ctx, first.ID); err != nil {
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
		_, err := m.Acquire(ctx, "/a/4", want(a))
		refusedBy(t, err, "max-session-holds")
		for i := range 2 {
			mustHold(t, m, "/b/"+strconv.Itoa(i), want(b))
		}
		_, err = m.Acquire(ctx, "/b/2", want(b))
		refusedBy(t, err, "max-holds")
		_, err = m.Acquire(ctx, "/a/0", want(b, queueing))
		refusedBy(t, err, "max-holds")
		if got := n.commands() - before; got != 2 {
			t.Errorf("%d commands, want those of the 2 grants alone", got)
		}
		mustHold(t, m, "/a/3", want(a)) // again
		if _, err := m.Release(ctx, "/a/3", a, "", 0); err != nil {
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
			if g, err := m.Acquire(ctx, "/x", want(b, handle(h), queueing)); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		_, err := m.Acquire(ctx, "/x", want(b, handle("3"), waiting(time.Minute)))
		refusedBy(t, err, "max-session-waiters")
		if g, err := m.Acquire(ctx, "/x", want(b, handle("2"), queueing)); err != nil || g.Position != 2 {
			t.Errorf("the repeated call: %+v, %v; want place 2", g, err)
		}
		third := begin(ctx, m, "/x", want(a, handle("3"), waiting(time.Minute)))
		_, err = m.Acquire(ctx, "/x", want(a, handle("4"), queueing))
		refusedBy(t, err, "max-waiters")
		third.running(t)
		// A call that would wait is granted what is free, and a try is not asked.
		mustHold(t, m, "/free", want(b, queueing))
		_, err = m.Acquire(ctx, "/x", want(a, handle("4")))
		code(t, err, lockapi.CodeLockHeld)
		if _, err := m.Release(ctx, "/x", a, "", 0); err != nil {
			t.Fatal(err)
		}
		if g, err := m.Acquire(ctx, "/x", want(b, handle("4"), queueing)); err != nil || g.Position != 3 {
			t.Errorf("behind a grant: %+v, %v; want place 3", g, err)
		}
		settled(t, n)
		third.running(t)
	})
}

// A place in the queue that was lost between the look at the quota and the log is
// told as what it is.
func TestFullQueueFoundOutByTheLog(t *testing.T) {
	withQuotas(t, Quotas{Waiters: 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		mustHold(t, m, "/held", want(a))
		if _, err := m.Acquire(t.Context(), "/held", want(a, handle("w"), queueing)); err != nil {
			t.Fatal(err)
		}
		first := make(chan error, 1)
		go func() { _, err := m.Acquire(t.Context(), "/x", want(a, handle("1"))); first <- err }()
		pass(time.Millisecond) // it is in the log
		_, err := m.Acquire(t.Context(), "/x", want(a, handle("2"), queueing))
		refusedBy(t, err, "max-waiters")
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestQuotaOfBytes(t *testing.T) {
	one := sessionAmount("", "", nil).bytes
	claim := claimAmount("/x/0", "").bytes
	withQuotas(t, Quotas{Bytes: 2*one + 3*claim, SessionBytes: one + 2*claim}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, 3*time.Second)
		mustHold(t, m, "/x/0", want(a))
		mustHold(t, m, "/x/1", want(a))
		_, err := m.Acquire(t.Context(), "/x/2", want(a))
		refusedBy(t, err, "max-session-bytes")
		mustHold(t, m, "/x/2", want(b, delayed(time.Minute)))
		_, err = m.Acquire(t.Context(), "/x/3", want(b))
		refusedBy(t, err, "max-bytes")
		_, err = m.OpenSession(t.Context(), lockapi.SessionRequest{TTLMS: 12_000, Meta: map[string]string{"k": strings.Repeat("v", 1<<14)}}, "")
		refusedBy(t, err, "max-session-bytes")
		pass(5 * time.Second) // b expires and leaves a lock-delay, which takes room as well
		settled(t, n)
		if use := openOffice(t, n).use; use.bytes != one+2*claim+delayAmount("/x/2").bytes {
			t.Errorf("%d bytes are counted", use.bytes)
		}
	})
}

// Calls that come all at once get what there is room for, and no more.
func TestQuotaUnderConcurrency(t *testing.T) {
	withQuotas(t, Quotas{Sessions: 20, SessionHolds: 7, Waiters: 5}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		var opened, granted, queued atomic.Int32
		atOnce := func(calls int, f func(i int) (lockapi.Grant, error), good *atomic.Int32) {
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() {
					switch _, err := f(i); {
					case err == nil:
						good.Add(1)
					case !errors.Is(err, lockapi.CodeTooMany):
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		atOnce(100, func(int) (lockapi.Grant, error) {
			_, err := m.OpenSession(t.Context(), lockapi.SessionRequest{TTLMS: 60_000}, "")
			return lockapi.Grant{}, err
		}, &opened)
		atOnce(100, func(i int) (lockapi.Grant, error) {
			return m.Acquire(t.Context(), "/"+strconv.Itoa(i), want(a))
		}, &granted)
		mustHold(t, m, "/q", want(b))
		atOnce(100, func(i int) (lockapi.Grant, error) {
			return m.Acquire(t.Context(), "/q", want(b, handle(strconv.Itoa(i)), queueing))
		}, &queued)
		if opened.Load() != 18 || granted.Load() != 7 || queued.Load() != 5 {
			t.Errorf("%d sessions, %d grants, %d places; want 18, 7, 5", opened.Load(), granted.Load(), queued.Load())
		}
		settled(t, n)
	})
}

// Calls sent twice at once, for the last place there is, are no two places.
func TestRepeatedCallUnderWayNeedsNoRoom(t *testing.T) {
	withQuotas(t, Quotas{Sessions: 1, Holds: 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		ids, errs := make([]string, 8), make([]error, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				s, err := m.OpenSession(t.Context(), lockapi.SessionRequest{TTLMS: 60_000}, "key")
				ids[i], errs[i] = s.ID, err
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil || ids[0] != ids[7] {
			t.Fatalf("%q, %v; want one session and no refusal", ids, err)
		}
		for i := range errs {
			all.Go(func() { _, errs[i] = m.Acquire(t.Context(), "/x", want(ids[0])) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%v; want the same grant for all", err)
		}
	})
}

// A new master counts what there is, and lets it be, however low its quotas are.
func TestQuotasAfterAChangeOfMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		for i := range 5 {
			mustHold(t, m, "/a/"+strconv.Itoa(i), want(a))
		}
		if _, err := m.Acquire(t.Context(), "/a/0", want(b, queueing)); err != nil {
			t.Fatal(err)
		}
		c.node("r2").master.opts.Quotas = quotas
		n := c.office("r2")
		m = n.master
		settled(t, n)
		mustHold(t, m, "/a/4", want(a))
		_, err := m.Acquire(t.Context(), "/a/5", want(a))
		refusedBy(t, err, "max-session-holds")
		_, err = m.Acquire(t.Context(), "/b/0", want(b))
		refusedBy(t, err, "max-holds")
		if _, err := m.Release(t.Context(), "/a/0", a, "", 0); err != nil {
			t.Fatal(err)
		}
		mustHold(t, m, "/b/0", want(b))
		settled(t, n)
	})
}

// Whatever calls come, in whatever order, the office's count is never below the
// state's, and equals it when nothing is under way.
func TestUseIsCountedRight(t *testing.T) {
	for seed := range uint64(4) {
		withQuotas(t, Quotas{Sessions: 6, Holds: 12, Waiters: 5, SessionHolds: 6, SessionWaiters: 3}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			o := openOffice(t, n)
			work, stop := context.WithCancel(t.Context())
			var sessions sync.Map
			var refused atomic.Int32
			var all sync.WaitGroup
			for w := range uint64(12) {
				rng := rand.New(rand.NewPCG(seed, w))
				all.Go(func() {
					for work.Err() == nil {
						if errors.Is(anyCall(work, m, rng, &sessions), lockapi.CodeTooMany) {
							refused.Add(1)
						}
						pass(time.Duration(rng.IntN(20)) * time.Millisecond)
					}
				})
			}
			for range 1000 {
				pass(7 * time.Millisecond)
				o.mu.Lock()
				got, has := o.use, inUse(n.State())
				if has.sessions > 6 || has.holds > 12 || has.waiters > 5 || got.sessions < has.sessions || got.holds < has.holds || got.waiters < has.waiters || got.bytes < has.bytes {
					t.Errorf("the state has %+v, counted are %+v", has, got)
				}
				o.mu.Unlock()
			}
			stop()
			all.Wait()
			if refused.Load() == 0 {
				t.Error("no quota was ever used up")
			}
		})
	}
}

// anyCall makes a random call with one of five idempotency keys' sessions, three
// paths and three handles.
func anyCall(ctx context.Context, m *Master, rng *rand.Rand, sessions *sync.Map) error {
	key := strconv.Itoa(rng.IntN(8))
	session := func() string { id, _ := sessions.Load(key); s, _ := id.(string); return s }()
	path, h := "/"+strconv.Itoa(rng.IntN(3)), handle(strconv.Itoa(rng.IntN(3)))
	short, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(100))*time.Millisecond)
	defer cancel()
	var err error
	switch rng.IntN(10) {
	case 0:
		if rng.IntN(4) == 0 {
			key = ""
		}
		var s lockapi.Session
		if s, err = m.OpenSession(ctx, lockapi.SessionRequest{TTLMS: 1000}, key); err == nil {
			sessions.Store(key, s.ID)
		}
	case 1:
		if rng.IntN(3) == 0 {
			err = m.CloseSession(ctx, session)
		}
	case 2:
		_, err = m.Keepalive(short, session, lockapi.KeepaliveRequest{})
	case 3, 4:
		_, err = m.Acquire(ctx, path, want(session, h, delayed(300*time.Millisecond)))
	case 5:
		_, err = m.Acquire(ctx, path, want(session, h, queueing))
	case 6, 7:
		_, err = m.Acquire(short, path, want(session, h, waiting(50*time.Millisecond)))
	default:
		_, err = m.Release(ctx, path, session, "", 0)
		_, _ = m.Release(ctx, path, session, strconv.Itoa(rng.IntN(3)), 0)
	}
	return err
}

func TestQuotasAreTold(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for range 3 {
			newSession(t, m, time.Minute)
		}
		_, err := m.OpenSession(t.Context(), lockapi.SessionRequest{TTLMS: 12_000}, "")
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

// What ends while a call that found it there is in the log, and may make it anew,
// leaves its room to that call.
func TestRoomPassesToTheCallInTheLog(t *testing.T) {
	for name, q := range map[string]Quotas{"max-waiters": {Waiters: 1}, "max-holds": {Holds: 2}} {
		withQuotas(t, q, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
			ctx := t.Context()
			a := newSession(t, m, time.Minute)
			mustHold(t, m, "/x", want(a))
			hot := begin(ctx, m, "/x", want(a, handle("w"), waiting(time.Minute)))
			var released, taken error
			var all sync.WaitGroup
			all.Go(func() { _, released = m.Release(ctx, "/x", a, "w", 0) })
			pass(fakeDelay / 2)
			all.Go(func() { _, taken = m.Acquire(ctx, "/x", want(a, handle("w"), queueing)) })
			pass(fakeDelay * 3 / 4) // the release is through, the acquire is not
			_, err := m.Acquire(ctx, "/x", want(a, handle("v"), queueing))
			refusedBy(t, err, name)
			if all.Wait(); released != nil || taken != nil {
				t.Errorf("%v, %v; want the place given up and taken anew", released, taken)
			}
			code(t, hot.answered(t).err, lockapi.CodeLockHeld)
		})
	}
}

// The same for a session that ends while a call that found it under its key, and
// could not say so in a lapse of the lease, is in the log.
func TestRoomPassesToTheOpeningInTheLog(t *testing.T) {
	withQuotas(t, Quotas{Sessions: 1}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx, body := t.Context(), lockapi.SessionRequest{TTLMS: 60_000}
		s, err := m.OpenSession(ctx, body, "key")
		if err != nil {
			t.Fatal(err)
		}
		release, err := openOffice(t, n).reserveSession(&state.Command{Kind: state.OpenSession, Session: "b", Key: "key", Digest: digest(body)})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.CloseSession(ctx, s.ID); err != nil {
			t.Fatal(err)
		}
		_, err = m.OpenSession(ctx, body, "")
		refusedBy(t, err, "max-sessions")
		release()
		newSession(t, m, time.Minute)
	})
}
