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

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

func TestFullQueueFoundOutByTheLog(t *testing.T) {
	withQuotas(t, Quotas{Waiters: 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		mustHold(t, m, "/held", want(a))
		if _, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/held", LockRequest: want(a, handle("w"), queueing)}); err != nil {
			t.Fatal(err)
		}
		first := make(chan error, 1)
		go func() {
			_, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("1"))})
			first <- err
		}()
		pass(time.Millisecond) // it is in the log
		_, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("2"), queueing)})
		refusedBy(t, err, "max-waiters")
		if err := <-first; err != nil {
			t.Error(err)
		}
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
			return m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/" + strconv.Itoa(i), LockRequest: want(a)})
		}, &granted)
		mustHold(t, m, "/q", want(b))
		atOnce(100, func(i int) (lockapi.Grant, error) {
			return m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/q", LockRequest: want(b, handle(strconv.Itoa(i)), queueing)})
		}, &queued)
		if opened.Load() != 18 || granted.Load() != 7 || queued.Load() != 5 {
			t.Errorf("%d sessions, %d grants, %d places; want 18, 7, 5", opened.Load(), granted.Load(), queued.Load())
		}
		settled(t, n)
	})
}

func TestRepeatedCallUnderWayNeedsNoRoom(t *testing.T) {
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
				_, errs[i] = m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(ids[0])})
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
			o := openOffice(t, n)
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
				o.accounting.mu.Lock()
				got, has := o.accounting.cell, inUse(n.State())
				if has.sessions > 6 || has.holds > 12 || has.waiters > 5 || has.files > 5 || has.content > 60 || got.files < has.files || got.content < has.content || got.sessions < has.sessions || got.holds < has.holds || got.waiters < has.waiters || got.bytes < has.bytes {
					t.Errorf("the state has %+v, counted are %+v", has, got)
				}
				o.accounting.mu.Unlock()
			}
			stop()
			all.Wait()
			if refused.Load() == 0 {
				t.Error("no quota was ever used up")
			}
		})
	}
}

// anyCall makes a random call with one of five idempotency keys' sessions,
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

func TestRoomPassesToTheCallInTheLog(t *testing.T) {
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
				_, taken = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("w"), queueing)})
			})
			pass(fakeDelay * 3 / 4) // the release is through, the acquire is not
			_, err := m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/x", LockRequest: want(a, handle("v"), queueing)})
			refusedBy(t, err, name)
			if all.Wait(); released != nil || taken != nil {
				t.Errorf("%v, %v; want the place given up and taken anew", released, taken)
			}
			code(t, hot.answered(t).err, lockapi.CodeLockHeld)
		})
	}
}

func TestRoomPassesToTheOpeningInTheLog(t *testing.T) {
	withQuotas(t, Quotas{Sessions: 1}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx, body := t.Context(), lockapi.SessionRequest{TTLMS: 60_000}
		s, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body, Key: "key"})
		if err != nil {
			t.Fatal(err)
		}
		release, err := openOffice(t, n).accounting.reserveSession(&state.OpenSession{Session: "b", Key: "key", Digest: digestOf(body)})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.CloseSession(ctx, &Caller{}, &lockapi.CloseSession{Session: s.ID}); err != nil {
			t.Fatal(err)
		}
		_, err = m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: body})
		refusedBy(t, err, "max-sessions")
		release()
		newSession(t, m, time.Minute)
	})
}
