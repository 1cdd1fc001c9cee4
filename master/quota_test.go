package master

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// quotas are so small that each of them can be used up.
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
// the error has a remedy.
func refusedBy(t *testing.T, err error, quota string) {
	t.Helper()
	e := code(t, err, lockapi.CodeTooMany)
	if e.RetryAfter <= 0 || !strings.HasPrefix(e.Detail, "quota "+quota+" is used up") || !strings.Contains(e.Detail, "or have the quota raised") {
		t.Errorf("%+v, want a refusal by %s", e, quota)
	}
}

// settled checks, when no call is under way, that the office counts what the
// state has.
func settled(t *testing.T, n *node) {
	t.Helper()
	o := openOffice(t, n)
	pass(20 * fakeDelay)
	if got, want := o.quotas.Used(), quota.SumsOf(n.State()); got != want {
		t.Errorf("the office counts %+v, the state has %+v", got, want)
	}
	must(t, n.State().Check())
	for v := range n.State().Sessions("") {
		if got, has := o.quotas.Handles(v.ID), handlesOf(n.State(), v.ID); got != has {
			t.Errorf("the office counts %d handles for a session, the state has %d", got, has)
		}
	}
}

func handlesOf(s *state.State, session string) (n int64) {
	for range s.HoldsAndWaits(session) {
		n++
	}
	return n
}

func TestQuotaOfSessions(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		ctx, body := t.Context(), lockapi.SessionRequest{TTLMS: 12_000}
		first, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body, Key: "key"})
		must(t, err)
		for range 2 {
			newSession(t, m, time.Minute)
		}
		refusedBy(t, second(m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body})), "max-sessions")
		use := QuotaUse{Name: "max-sessions", Max: 3, Used: 3, Known: true, Refused: 1}
		if got := m.Quotas()[quota.Sessions]; got != use {
			t.Errorf("%+v, want %+v", got, use)
		}
		if got := m.Quotas()[quota.SessionHolds]; got.Known || got.Max != 4 {
			t.Errorf("%+v, want nothing known of the use of a quota of each session", got)
		}
		if again, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body, Key: "key"}); err != nil || again.ID != first.ID {
			t.Errorf("the repeated call: %+v, %v; want session %s", again, err, first.ID)
		}
		_, err = m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 13_000}, Key: "key"})
		code(t, err, lockapi.CodeConflict)
		must(t, m.CloseSession(ctx, &Caller{}, &lockapi.CloseSession{Session: first.ID}))
		newSession(t, m, time.Minute)
	})
}

func TestQuotaOfHolds(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		for i := range 4 {
			mustHold(t, m, "/a/"+strconv.Itoa(i), want(a))
		}
		before := n.commands()
		refusedBy(t, second(acquireLock(t, m, "/a/4", want(a))), "max-session-holds")
		for i := range 2 {
			mustHold(t, m, "/b/"+strconv.Itoa(i), want(b))
		}
		refusedBy(t, second(acquireLock(t, m, "/b/2", want(b))), "max-holds")
		refusedBy(t, second(acquireLock(t, m, "/a/0", want(b, queueing))), "max-holds")
		if got := n.commands() - before; got != 2 {
			t.Errorf("%d commands, want those of the 2 grants alone", got)
		}
		mustHold(t, m, "/a/3", want(a)) // a repeated call
		releaseLock(t, m, "/a/3", a)
		mustHold(t, m, "/b/2", want(b))
	})
}

func TestQuotaOfWaiters(t *testing.T) {
	withQuotas(t, quotas, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx := t.Context()
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		mustHold(t, m, "/x", want(a))
		for _, h := range []string{"1", "2"} {
			if g, err := acquireLock(t, m, "/x", want(b, handle(h), queueing)); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		refusedBy(t, second(acquireLock(t, m, "/x", want(b, handle("3"), waiting(time.Minute)))), "max-session-waiters")
		if g, err := acquireLock(t, m, "/x", want(b, handle("2"), queueing)); err != nil || g.Position != 2 {
			t.Errorf("the repeated call: %+v, %v; want place 2", g, err)
		}
		third := begin(ctx, m, "/x", want(a, handle("3"), waiting(time.Minute)))
		refusedBy(t, second(acquireLock(t, m, "/x", want(a, handle("4"), queueing))), "max-waiters")
		third.running(t)
		// A call that would wait is granted what is free, and a try is not
		// asked.
		mustHold(t, m, "/free", want(b, queueing))
		code(t, second(acquireLock(t, m, "/x", want(a, handle("4")))), lockapi.CodeLockHeld)
		releaseLock(t, m, "/x", a)
		if g, err := acquireLock(t, m, "/x", want(b, handle("4"), queueing)); err != nil || g.Position != 3 {
			t.Errorf("behind a grant: %+v, %v; want place 3", g, err)
		}
		settled(t, n)
		third.running(t)
	})
}

func TestQuotaOfBytes(t *testing.T) {
	one := (&state.OpenSession{}).Bytes()
	lock := state.BytesOfHandle("/x/0", "")
	withQuotas(t, Quotas{Bytes: 2*one + 3*lock, SessionBytes: one + 2*lock}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, 3*time.Second)
		mustHold(t, m, "/x/0", want(a))
		mustHold(t, m, "/x/1", want(a))
		refusedBy(t, second(acquireLock(t, m, "/x/2", want(a))), "max-session-bytes")
		mustHold(t, m, "/x/2", want(b, delayed(time.Minute)))
		refusedBy(t, second(acquireLock(t, m, "/x/3", want(b))), "max-bytes")
		long := lockapi.SessionRequest{TTLMS: 12_000, Meta: map[string]string{"k": strings.Repeat("v", 1<<14)}}
		refusedBy(t, second(m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: long})), "max-session-bytes")
		pass(5 * time.Second) // b expires and leaves a lock-delay, which counts, too
		settled(t, n)
		if used := openOffice(t, n).quotas.Used().Bytes; used <= one+2*lock {
			t.Errorf("%d bytes are counted", used)
		}
	})
}

// TestQuotasAfterAChangeOfMaster: a new master counts the present use, and
// leaves it, however low its quotas are.
func TestQuotasAfterAChangeOfMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		var last lockapi.Grant
		for i := range 5 {
			last = mustHold(t, m, "/a/"+strconv.Itoa(i), want(a))
		}
		must(t, keyedPut(t, m, a, "001"))
		must(t, second(acquireLock(t, m, "/a/0", want(b, queueing))))
		c.node("r2").master.opts.Quotas = quotas
		n := c.office("r2")
		m = n.master
		settled(t, n)
		if again := mustHold(t, m, "/a/4", want(a)); again.Token != last.Token {
			t.Errorf("the new master gives token %d to the holder of %d", again.Token, last.Token)
		}
		refusedBy(t, second(acquireLock(t, m, "/a/5", want(a))), "max-session-holds")
		refusedBy(t, second(acquireLock(t, m, "/b/0", want(b))), "max-holds")
		releaseLock(t, m, "/a/0", a)
		if other := mustHold(t, m, "/b/0", want(b)); other.Token <= last.Token {
			t.Errorf("token %d after %d", other.Token, last.Token)
		}
		settled(t, n)
	})
}

// keyedPut overwrites a file by a keyed call.
func keyedPut(t *testing.T, m *Master, session, key string) error {
	t.Helper()
	_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/file", Session: session, Key: key})
	return err
}

// putSized writes a file of so many bytes.
func putSized(t *testing.T, m *Master, path string, size int) error {
	t.Helper()
	_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: path, Content: make([]byte, size)})
	return err
}

// TestRepeatedCreationIsNotRefused: neither beside the first one nor after it,
// during a lapse of the lease.
func TestRepeatedCreationIsNotRefused(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01, Quotas: Quotas{Files: 1, SessionHolds: 1}}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		m := n.master
		s := newSession(t, m, time.Minute)
		create := func() (FileWritten, error) {
			return m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Session: s, Key: "k", Sequential: true})
		}
		acquire := `{"session":"` + s + `","then":[{"acquire":{"path":"/old"}}]}`
		var made [2]FileWritten
		var errs [2]error
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], errs[i] = create() })
		}
		all.Wait()
		must(t, errs[0])
		must(t, errs[1])
		if made[0].Stat != made[1].Stat || made[0].Replayed == made[1].Replayed {
			t.Errorf("%+v", made)
		}
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Session: s, Key: "other", Sequential: true})
		refusedBy(t, err, "max-files")
		must(t, second(transacting(t, m, "l", acquire)))
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/old", Session: s})))
		mustHold(t, m, "/new", want(s)) // the release has freed a hold
		refusedBy(t, second(transacting(t, m, "fresh", acquire)), "max-session-holds")

		c.cutOff("r1", true)
		pass(3 * time.Second)
		if openOffice(t, n).lease.Valid(n.clock()) {
			t.Fatal("no lapse")
		}
		all.Go(func() {
			if again, err := create(); err != nil || !again.Replayed || again.Stat != made[0].Stat {
				t.Errorf("%+v, %v; the first time %+v", again, err, made[0])
			}
		})
		all.Go(func() {
			if done, err := transacting(t, m, "l", acquire); err != nil || !done.Replayed {
				t.Errorf("%+v, %v", done, err)
			}
		})
		pass(fakeDelay)
		c.cutOff("r1", false)
		all.Wait()
		settled(t, n)
	})
}

func TestFullQueueFoundOutByTheLog(t *testing.T) {
	withQuotas(t, Quotas{Waiters: 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		mustHold(t, m, "/held", want(a))
		must(t, second(acquireLock(t, m, "/held", want(a, handle("w"), queueing))))
		first := make(chan error, 1)
		go func() {
			_, err := acquireLock(t, m, "/x", want(a, handle("1")))
			first <- err
		}()
		pass(time.Millisecond) // the first call is in the log
		refusedBy(t, second(acquireLock(t, m, "/x", want(a, handle("2"), queueing))), "max-waiters")
		must(t, <-first)
	})
}

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
			_, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000}})
			return lockapi.Grant{}, err
		}, &opened)
		atOnce(100, func(i int) (lockapi.Grant, error) {
			return acquireLock(t, m, "/"+strconv.Itoa(i), want(a))
		}, &granted)
		mustHold(t, m, "/q", want(b))
		atOnce(100, func(i int) (lockapi.Grant, error) {
			return acquireLock(t, m, "/q", want(b, handle(strconv.Itoa(i)), queueing))
		}, &queued)
		if opened.Load() != 18 || granted.Load() != 7 || queued.Load() != 5 {
			t.Errorf("%d sessions, %d grants, %d places; want 18, 7, 5", opened.Load(), granted.Load(), queued.Load())
		}
		settled(t, n)
	})
}

func TestRepeatedCallIsNotRefused(t *testing.T) {
	withQuotas(t, Quotas{Sessions: 1, Holds: 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		ids, errs := make([]string, 8), make([]error, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000}, Key: "key"})
				ids[i], errs[i] = s.ID, err
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil || ids[0] != ids[7] {
			t.Fatalf("%q, %v; want one session and no refusal", ids, err)
		}
		for i := range errs {
			all.Go(func() {
				_, errs[i] = acquireLock(t, m, "/x", want(ids[0]))
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%v; want the same grant for all", err)
		}
	})
}

func TestUseIsCountedRight(t *testing.T) {
	for _, seed := range testrun.Sample(t, 1, 4) {
		withQuotas(t, Quotas{Sessions: 6, Holds: 12, Waiters: 5, SessionHolds: 6, SessionWaiters: 3, Files: 5, Content: 60}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			work, stop := context.WithCancel(t.Context())
			var sessions sync.Map
			var refused atomic.Int32
			var all sync.WaitGroup
			for w := range uint64(12) {
				rng := rand.New(rand.NewPCG(uint64(seed), w))
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
				s := n.State()
				for v := range s.Sessions("") {
					if handles := handlesOf(s, v.ID); handles > 6 {
						t.Errorf("a session has %d handles", handles)
					}
				}
				if has := quota.SumsOf(s); has.Sessions > 6 || has.Holds > 12 || has.Waiters > 5 || has.Files > 5 || has.Content > 60 {
					t.Errorf("the state has %+v", has)
				}
			}
			stop()
			all.Wait()
			if refused.Load() == 0 {
				t.Error("no quota was ever used up")
			}
		})
	}
}

// anyCall makes a random call, with one of five sessions' idempotency keys,
// three paths and three handles.
func anyCall(ctx context.Context, m *Master, rng *rand.Rand, sessions *sync.Map) error {
	key := strconv.Itoa(rng.IntN(8))
	session := func() string { id, _ := sessions.Load(key); s, _ := id.(string); return s }()
	path, h := "/"+strconv.Itoa(rng.IntN(3)), handle(strconv.Itoa(rng.IntN(3)))
	short, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(100))*time.Millisecond)
	defer cancel()
	var err error
	switch rng.IntN(14) {
	case 10, 11:
		_, err = m.WriteFile(ctx, &Caller{}, &lockapi.WriteFile{Path: path, Content: make([]byte, rng.IntN(30)), Sequential: rng.IntN(3) == 0})
	case 12:
		_, err = m.DeleteFiles(ctx, &Caller{}, &lockapi.DeleteFiles{Prefix: "/"})
	case 13:
		content := strings.Repeat("x", rng.IntN(30))
		put := func(path string) lockapi.Operation {
			return lockapi.Operation{Put: &lockapi.WriteOperation{Path: path, Content: &content}}
		}
		call := &lockapi.Transact{Transaction: lockapi.Transaction{Session: session, Then: []lockapi.Operation{
			put(path), {Delete: &lockapi.FileOperation{Path: "/1"}}, put("/1"), {CreateSequential: put(path).Put}}}}
		if rng.IntN(2) == 0 {
			there := true
			call.If = []lockapi.Condition{{File: path, Exists: &there}}
			call.Else = []lockapi.Operation{put("/2"), put("/3")}
		}
		if session != "" {
			call.Key = []string{"", "k", "l"}[rng.IntN(3)]
		}
		_, err = m.Transact(ctx, &Caller{}, call)
	case 0:
		if rng.IntN(4) == 0 {
			key = ""
		}
		var s lockapi.Session
		if s, err = m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 1000}, Key: key}); err == nil {
			sessions.Store(key, s.ID)
		}
	case 1:
		if rng.IntN(3) == 0 {
			err = m.CloseSession(ctx, &Caller{}, &lockapi.CloseSession{Session: session})
		}
	case 2:
		_, err = m.KeepAlive(short, &Caller{}, &lockapi.KeepAlive{Session: session})
	case 3, 4:
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: want(session, h, delayed(300*time.Millisecond))})
	case 5:
		_, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: want(session, h, queueing)})
	case 6, 7:
		_, err = m.AcquireLock(short, &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: want(session, h, waiting(50*time.Millisecond))})
	default:
		_, err = m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: path, Session: session})
		_, _ = m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: path, Session: session, Handle: strconv.Itoa(rng.IntN(3))})
	}
	return err
}

func TestHoldMadeAnewByACallInTheLog(t *testing.T) {
	for name, q := range map[string]Quotas{"max-waiters": {Waiters: 1}, "max-holds": {Holds: 2}} {
		withQuotas(t, q, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
			ctx := t.Context()
			a := newSession(t, m, time.Minute)
			mustHold(t, m, "/x", want(a))
			hot := begin(ctx, m, "/x", want(a, handle("w"), waiting(time.Minute)))
			var released, taken error
			var all sync.WaitGroup
			all.Go(func() {
				_, released = m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/x", Session: a, Handle: "w"})
			})
			pass(fakeDelay / 2)
			all.Go(func() {
				_, taken = acquireLock(t, m, "/x", want(a, handle("w"), queueing))
			})
			pass(fakeDelay * 3 / 4) // the release is applied, the acquire is not
			refusedBy(t, second(acquireLock(t, m, "/x", want(a, handle("v"), queueing))), name)
			if all.Wait(); released != nil || taken != nil {
				t.Errorf("%v, %v; want the place given up and taken anew", released, taken)
			}
			code(t, hot.answered(t).err, lockapi.CodeLockHeld)
		})
	}
}

// TestPacer: calls come at the rate, and a burst of them at once.
func TestPacer(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name        string
		rate, burst float64
		at          []time.Duration // of the calls
		want        []time.Duration // how long the answer waits; never for an admitted call
	}{
		{"within the burst", 10, 3, []time.Duration{0, 0, 0}, []time.Duration{never, never, never}},
		{"beyond it", 10, 2, []time.Duration{0, 0, 0}, []time.Duration{never, never, leastBackoff}},
		{"at the rate", 10, 1, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, []time.Duration{never, never, never}},
		{"faster", 10, 1, []time.Duration{0, 40 * time.Millisecond, 100 * time.Millisecond}, []time.Duration{never, leastBackoff, never}},
		{"after a pause the burst is full", 10, 2, []time.Duration{0, 0, time.Hour, time.Hour, time.Hour}, []time.Duration{never, never, never, never, leastBackoff}},
		{"slow", 0.1, 1, []time.Duration{0, time.Second}, []time.Duration{never, time.Second}},
		{"none", 0, 0, []time.Duration{0, time.Hour}, []time.Duration{time.Second, time.Second}},
		{"no burst", 10, 0, []time.Duration{0}, []time.Duration{time.Second}},
		{"slower than the least wait", 1.25, 1, []time.Duration{0, 0}, []time.Duration{never, 800 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pacer
			for i, now := range c.at {
				_, backoff, ok := p.admit("user:a", now, c.rate, c.burst, false)
				if want := c.want[i]; ok != (want == never) || !ok && (backoff.For != want || backoff.Close) {
					t.Errorf("call %d: %v, %+v; want %v", i, ok, backoff, want)
				}
			}
		})
	}
}

// TestPacerHoldsFewAnswers: of a flood a bounded number of answers wait, and the
// other connections are closed.
func TestPacerHoldsFewAnswers(t *testing.T) {
	var p pacer
	waiting := 0
	for range 10_000 {
		if _, backoff, ok := p.admit("user:a", 0, 1, 1, false); !ok && !backoff.Close {
			if waiting++; backoff.For > mostBackoff {
				t.Fatalf("an answer waits for %v", backoff.For)
			}
		}
	}
	if most := int(mostBackoff / refusalEvery); waiting != most {
		t.Errorf("%d answers wait at once, want %d", waiting, most)
	}
	if _, _, ok := p.admit("user:a", 0, 100, 100, true); !ok {
		t.Error("a keepalive is refused as well")
	}
	if _, _, ok := p.admit("user:b", 0, 1, 1, false); !ok {
		t.Error("another principal is refused as well")
	}
}

// TestPacerForgets: principals without a recent call take no memory, and the
// others have a bound.
func TestPacerForgets(t *testing.T) {
	var p pacer
	for i := range 100_000 {
		p.admit(fmt.Sprint("user:", i), time.Duration(i)*time.Second, 10, 10, false)
	}
	if len(p.of) > 1025 {
		t.Errorf("%d principals are remembered of callers at different times", len(p.of))
	}
	for i := range 3 * mostPaced {
		p.admit(fmt.Sprint("user:", i), 100_000*time.Second, 1, 1, false)
		if len(p.of) > mostPaced {
			t.Fatalf("%d principals are remembered of callers at once", len(p.of))
		}
	}
}

// TestPace: which limits bound a call.
func TestPace(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		quota := func(of string, rate, burst int64) {
			t.Helper()
			if _, err := m.PutQuota(t.Context(), new(root(Operate)), &lockapi.PutQuota{Principal: of,
				QuotaLimits: lockapi.QuotaLimits{CallsPerSecond: &rate, Burst: &burst}}); err != nil {
				t.Fatal(err)
			}
		}
		// admitted counts the calls that are admitted at once.
		admitted := func(principal string, frees bool) (count int) {
			for range 10_000 {
				backoff, err := m.AdmitCall(&Caller{Principal: principal, Ask: Ask{Right: Operate}}, frees)
				if err == nil {
					count++
					continue
				}
				e := code(t, err, lockapi.CodeTooMany)
				who := (&Caller{Principal: principal}).who().Identity()
				if e.Quota != "calls_per_second" || e.Principal != who || e.RetryAfter != 1 || backoff.For > time.Second || backoff == (Backoff{}) {
					t.Fatalf("%+v of %s, %+v", e, who, backoff)
				}
			}
			return count
		}
		want := func(principal string, frees bool, want int) {
			t.Helper()
			if got := admitted(principal, frees); got != want {
				t.Errorf("%d calls of %s are admitted (keepalives and releases: %v), want %d", got, principal, frees, want)
			}
			time.Sleep(6 * time.Second) // all is worked off
		}
		quota("*", 1, 5)
		quota("anonymous", 1, 2)
		quota(access.Root, 0, 0)
		want("user:a", false, 10_000) // access is off
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		want("user:a", false, 5)
		want(access.Root, false, 10_000)
		want("", false, 10_000) // it is refused as a stranger
		want("user:a", true, 110)
		sessionOfCaller(t, m, "user:a")
		want("user:a", true, 111) // one more for its session
		quota("user:a", 100, 300)
		want("user:a", false, 300)
		want("user:a", true, 3000)
		must(t, second(m.PutCellAccess(t.Context(), new(root(Operate)), &lockapi.PutCellAccess{CellAccess: lockapi.CellAccess{Observe: []string{"anonymous"}}})))
		want("", false, 2)
		if n.State().Level != state.Level {
			t.Errorf("the cell is at level %d", n.State().Level)
		}
	})
}

// TestOtherRateOfCalls: with a new rate, as many calls are left as before.
func TestOtherRateOfCalls(t *testing.T) {
	var p pacer
	spend := func(who string, now time.Duration, rate, burst float64) (n int) {
		for _, _, ok := p.admit(who, now, rate, burst, false); ok; _, _, ok = p.admit(who, now, rate, burst, false) {
			n++
		}
		return n
	}
	if n := spend("u", 0, 1, 600); n != 600 {
		t.Errorf("%d calls at once", n)
	}
	if n := spend("u", 100*time.Second, 1000, 600); n != 100 {
		t.Errorf("at once at the higher rate, after 100 calls are worked off: %d", n)
	}
	if n := spend("u", 100*time.Second+300*time.Millisecond, 1000, 600); n != 300 {
		t.Errorf("after 0.3 s: %d", n)
	}
	if left, _, ok := p.admit("u", 100*time.Second+300*time.Millisecond, 1, 600, false); ok || left < 599 || left > 601 {
		t.Errorf("at the former rate: %v are left, admitted: %v", left, ok)
	}
	if n := spend("u", 100*time.Second+300*time.Millisecond, 0, 600); n != 0 {
		t.Errorf("at no rate: %d", n)
	}
	// The rate for keepalives and releases depends on what the caller has.
	for has := 2000.0; has > 900; has-- {
		p.admit("releases", 0, 150+has, 150+has, true)
	}
	if left, _, ok := p.admit("releases", 0, 150, 150, true); ok || left > 150 {
		t.Errorf("after its session with all locks has ended: admitted %v, %v are left", ok, left)
	}
	if _, _, ok := p.admit("releases", 10*time.Millisecond, 150, 150, true); !ok {
		t.Error("a keepalive is refused 10 ms later")
	}
}
