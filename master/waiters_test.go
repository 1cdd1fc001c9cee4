package master

import (
	"context"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestCallsForOneHandle share one queue position: it lasts as long as one of them
// waits, whether the others time out or break off. All others return the grant.
func TestCallsForOneHandle(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		ctx, leave := context.WithCancel(t.Context())
		short := begin(t.Context(), m, "/a", want(b, waiting(time.Second)))
		broken := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
		long := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		longer := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		pass(time.Second)
		code(t, short.answered(t).err, lockapi.CodeLockHeld)
		leave()
		broken.answered(t)
		wantWaits(t, n, 1)
		releaseLock(t, m, "/a", a)
		one, other := long.answered(t), longer.answered(t)
		if one.err != nil || other.err != nil || one.grant.Token != other.grant.Token {
			t.Errorf("%+v %v, %+v %v", one.grant, one.err, other.grant, other.err)
		}
	})
}

// TestCallsOfOnePairThatEndTogether: each may believe that the other keeps the
// position; it is still withdrawn.
func TestCallsOfOnePairThatEndTogether(t *testing.T) {
	for _, how := range []string{"time", "break", "both", "conflict"} {
		t.Run(how, func(t *testing.T) {
			one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
				a, b := two(t, m)
				mustHold(t, m, "/a", want(a))
				for range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					wait := time.Second
					if how == "break" {
						wait = time.Minute
					}
					var calls []*acquiring
					var until time.Time
					for i := range 4 {
						if i == 0 {
							until = time.Now().Add(wait)
						}
						calls = append(calls, begin(ctx, m, "/a", want(b, waiting(time.Until(until)))))
					}
					switch how {
					case "time":
						pass(time.Until(until))
					case "both":
						pass(time.Until(until))
						cancel()
					case "conflict": // a call for another mode outlasts them
						go cancel()
						_, _ = acquireLock(t, m, "/a", want(b, shared(0), waiting(time.Second)))
					}
					cancel()
					for _, c := range calls {
						c.answered(t)
					}
					pass(5 * fakeDelay)
					wantWaits(t, n, 0)
				}
			})
		})
	}
}

// TestBrokenWaiterLeaves, and a grant that arrives at that moment is withdrawn.
func TestBrokenWaiterLeaves(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		for _, race := range []time.Duration{-1, 0, fakeDelay / 2, fakeDelay, fakeDelay * 3 / 2, 2 * fakeDelay} {
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
			call.running(t)
			if race < 0 {
				cancel()
			} else {
				go func() { pass(race); cancel() }()
				releaseLock(t, m, "/a", a)
			}
			told := call.answered(t).err == nil
			pass(5 * fakeDelay)
			held := holder(n.State(), "/a") == b
			if held != told {
				t.Errorf("break %v after the release: answered %v, holds %v", race, told, held)
			}
			wantWaits(t, n, 0)
			cancel()
			for _, s := range []string{a, b} {
				must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: s})))
			}
		}
	})
}

// TestRetryBehindABreakIsNotUndone: a client repeats a call after its
// connection broke; the answer stays true.
func TestRetryBehindABreakIsNotUndone(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		for i := range 60 {
			race := time.Duration(i%20) * fakeDelay / 10
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
			go func() { pass(race); cancel() }()
			go m.ReleaseLock(context.Background(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a})
			<-call.done
			again := mustHold(t, m, "/a", want(b, waiting(time.Minute)))
			pass(5 * fakeDelay)
			if h, ok := n.State().HoldByToken("/a", again.Token); !ok || h.Session != b {
				t.Fatalf("retry %d: got token %d, which is not held", i, again.Token)
			}
			releaseLock(t, m, "/a", b)
			cancel()
		}
	})
}

// TestBrokenCallOfAKeptPlace: the position stays, and its grant is an event
// even if it arrived at the moment of the break.
func TestBrokenCallOfAKeptPlace(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for _, race := range []time.Duration{-1, fakeDelay / 2, fakeDelay} {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, queueing, waiting(time.Minute)))
			if race < 0 {
				cancel()
				call.answered(t)
			} else {
				go func() { pass(race); cancel() }()
			}
			releaseLock(t, m, "/a", a)
			told := call.answered(t).err == nil
			k, err := keepalive1(m, b, 0, 0)
			if err != nil || (len(k.Events) == 1) == told {
				t.Errorf("break after %v: answered %v, %d events, %v", race, told, len(k.Events), err)
			}
			cancel()
			must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: b}))
		}
	})
}

// TestOrphanedWaits: waits of an earlier office are withdrawn after the grace,
// unless their call returns. This holds even if they were granted in the
// meantime.
func TestOrphanedWaits(t *testing.T) {
	for _, tc := range []struct {
		name                string
		granted, back, kept bool
		stays               bool
	}{
		{name: "left alone"},
		{name: "granted", granted: true},
		{name: "asked for again", back: true, stays: true},
		{name: "granted and asked for again", granted: true, back: true, stays: true},
		{name: "kept", kept: true, stays: true},
		{name: "kept and granted", kept: true, granted: true, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				old := c.office("r1")
				a, b := two(t, old.master)
				mustHold(t, old.master, "/a", want(a))
				request := want(b, waiting(10*time.Minute))
				request.Queue = tc.kept
				lost := begin(t.Context(), old.master, "/a", request)
				n := c.office("r2")
				code(t, lost.answered(t).err, lockapi.CodeOutcomeUnknown)
				pass(time.Second)
				if tc.granted {
					releaseLock(t, n.master, "/a", a)
				}
				if tc.back {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					begin(ctx, n.master, "/a", request)
				}
				pass(orphanGrace + time.Second)
				stays := waits(n) == 1
				if tc.granted {
					stays = holder(n.State(), "/a") == b
				}
				if stays != tc.stays {
					t.Errorf("stays: %v, want %v", stays, tc.stays)
				}
			})
		})
	}
}

// TestOrphanAskedForOtherwise: a call for the same handle in another mode is
// refused, and leaves the orphaned wait its grace. Its grant stays if it had one:
// the refusal shows that the caller holds the lock.
func TestOrphanAskedForOtherwise(t *testing.T) {
	for _, granted := range []bool{false, true} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			old := c.office("r1")
			a, b := two(t, old.master)
			mustHold(t, old.master, "/a", want(a))
			begin(t.Context(), old.master, "/a", want(b, waiting(10*time.Minute)))
			n := c.office("r2")
			if granted {
				releaseLock(t, n.master, "/a", a)
			}
			code(t, second(acquireLock(t, n.master, "/a", want(b, shared(0)))), lockapi.CodeConflict)
			pass(time.Second)
			if (waits(n) == 0) != granted {
				t.Errorf("granted %v: %d waits within the grace", granted, waits(n))
			}
			pass(orphanGrace)
			if waits(n) != 0 || (holder(n.State(), "/a") == b) != granted {
				t.Errorf("granted %v: %d waits, held by %q", granted, waits(n), holder(n.State(), "/a"))
			}
		})
	}
}

// placed makes a call by hand that pauses with its place in the queue.
func placed(t *testing.T, n *node, path string, r lockapi.LockRequest) (call *acquire, place uint64) {
	t.Helper()
	call = newAcquire(openOffice(t, n), &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: r})
	call.enter()
	call.until = n.clock() + time.Minute
	got, _, err := call.decide()
	if err != nil || got.Wait == nil {
		t.Fatalf("%+v, %v; want a place in the queue", got, err)
	}
	return call, got.Wait.Seq
}

// enter registers a call that wants nothing.
func enter(o *office, key state.HandleKey) (*acquires, *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiters.enter(key)
}

// exit ends the registration of a call by itself.
func (o *office) exit(by *Caller, r *registered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leave(by, r)
}

// breakOff lets the call find that its caller has gone.
func (a *acquire) breakOff(place uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = a.await(ctx, place, 0)
	a.exit()
}

// TestGrantInTheMomentOfTheBreak: the office has woken the call, and the call
// finds its caller gone before it reads the state. An undelivered grant is
// withdrawn; a grant from a kept position becomes an event.
func TestGrantInTheMomentOfTheBreak(t *testing.T) {
	for _, kept := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			r := want(b, waiting(time.Minute))
			r.Queue = kept
			call, place := placed(t, n, "/a", r)
			releaseLock(t, m, "/a", a)
			call.breakOff(place)
			o := call.o
			pass(5 * fakeDelay)
			k, err := keepalive1(m, b, 0, 0)
			if err != nil || (len(k.Events) == 1) != kept || (holder(n.State(), "/a") == b) != kept {
				t.Errorf("kept %v: events %+v, held by %q, %v", kept, k.Events, holder(n.State(), "/a"), err)
			}
			if len(o.waiters.byHandle) != 0 {
				t.Errorf("kept %v: %d handles are remembered for ever", kept, len(o.waiters.byHandle))
			}
		})
	}
}

// TestGrantToldByATransactionStays: no call waits for the lock when the
// transaction checks. Before it reads the state, a call arrives, gets the lock
// and breaks off; its grant is about to be withdrawn. The transaction returns a
// grant that stays.
func TestGrantToldByATransactionStays(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		n.BeforeState(func() {
			if !onStack("(*transaction).fromMemory(") {
				return
			}
			n.BeforeState(nil)
			call, place := placed(t, n, "/a", want(b, waiting(time.Minute)))
			if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a}); err != nil {
				t.Error(err)
			}
			call.breakOff(place)
		})
		done, err := transacting(t, m, "", `{"session":"`+b+`","then":[{"acquire":{"path":"/a"}}]}`)
		must(t, err)
		pass(5 * fakeDelay)
		if h, ok := holdOf(t, m, b, "/a"); !ok || h.Token != done.Results[0].Grant.Token || h.UnclaimedMS != 0 {
			t.Errorf("%+v, %v: the transaction returned %+v", h, ok, done.Results[0].Grant)
		}
	})
}
