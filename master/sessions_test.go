package master

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// alive measures how long a session lives from now on, to a hundredth of a
// second, by its lock.
func alive(n *node, id string, most time.Duration) time.Duration {
	began := time.Now()
	for time.Since(began) < most {
		if _, ok := n.State().Session(id); !ok {
			break
		}
		pass(fakeDelay)
	}
	return time.Since(began)
}

// TestExpiryIsNeverEarlyAndASecondLateAtMost, with any clocks of server and
// client within the drift: the client counts ttl on its own clock from the
// answer.
func TestExpiryIsNeverEarlyAndASecondLateAtMost(t *testing.T) {
	const ttl = 12 * time.Second
	for _, rate := range []float64{1 - drift, 1, 1 + drift} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			inCell(t, 1, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				id := newSession(t, n.master, ttl)
				pass(5 * time.Second)
				must(t, second(keepalive1(n.master, id, 0, 0)))
				lived := alive(n, id, time.Minute)
				slowClient := ttl * 100 / 99
				if lived < slowClient-time.Millisecond {
					t.Errorf("expired after %v; a client with a slow clock counts on %v", lived, slowClient)
				}
				latest := (ttl+ttl/50)*101/100 + time.Second // the server's clock may be slow as well
				if lived > latest {
					t.Errorf("expired after %v, want %v at the latest", lived, latest)
				}
			}, rate)
		})
	}
}

func TestKeepaliveTellsHowLongItWasHeld(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		id := newSession(t, m, 12*time.Second)
		for _, wait := range []time.Duration{0, time.Second, 8 * time.Second} {
			began := time.Now()
			k, err := keepalive1(m, id, wait, 0)
			took := time.Since(began)
			held := time.Duration(k.HeldMS) * time.Millisecond
			if err != nil || took != wait || k.TTLMS != 12000 || k.Epoch != 1 || k.Events == nil {
				t.Errorf("wait %v: %+v, %v after %v", wait, k, err, took)
			}
			if held > wait*98/100 || held < wait*97/100 {
				t.Errorf("held_ms %v of %v, want it less twice the drift", held, wait)
			}
		}
	})
}

// TestManySessionsAreAnsweredTogether: not before the requested time, at most a
// beat later, and never when their leases are short.
func TestManySessionsAreAnsweredTogether(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for range manySessions {
			newSession(t, m, 12*time.Second)
		}
		var ids []string
		for range 40 {
			ids = append(ids, newSession(t, m, 12*time.Second))
		}
		began := time.Now()
		at := map[time.Duration]bool{} // the times of the answers
		var mu sync.Mutex
		var calls sync.WaitGroup
		for i, id := range ids {
			wait := 6*time.Second + time.Duration(i)*time.Millisecond
			calls.Go(func() {
				_, err := keepalive1(m, id, wait, 0)
				took := time.Since(began)
				if err != nil || took < wait || took >= wait+beat {
					t.Errorf("wait %v: %v after %v", wait, err, took)
				}
				mu.Lock()
				defer mu.Unlock()
				at[took] = true
			})
		}
		calls.Wait()
		if len(at) > 2 {
			t.Errorf("they were answered at %d moments", len(at))
		}
		began = time.Now()
		if _, err := keepalive1(m, ids[0], time.Minute, 0); err != nil || time.Since(began) > 9*time.Second || time.Since(began) <= 9*time.Second-2*beat {
			t.Errorf("%v after %v, want an answer before the lease is short", err, time.Since(began))
		}
		id := newSession(t, m, 12*time.Second)
		began = time.Now()
		if _, err := keepalive1(m, id, longWait, 0); err != nil || time.Since(began) != longWait {
			t.Errorf("a wait that is not long: %v after %v", err, time.Since(began))
		}
	})
}

// TestKeepaliveAnswersBeforeTheLeaseIsShort: after three quarters of the ttl.
func TestKeepaliveAnswersBeforeTheLeaseIsShort(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		id := newSession(t, m, 4*time.Second)
		must(t, second(keepalive1(m, id, 0, 0)))
		pass(time.Second)
		began := time.Now()
		if _, err := keepalive1(m, id, time.Minute, 0); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v, want an answer after 2s", err, time.Since(began))
		}
		pass(3500 * time.Millisecond)
		began = time.Now()
		if _, err := keepalive1(m, id, time.Minute, 0); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v, want an answer at once", err, time.Since(began))
		}
	})
}

// TestKeepaliveDoesNotRevive: a keepalive of a session past due waits for the
// outcome of the expiry.
func TestKeepaliveDoesNotRevive(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		id := newSession(t, m, time.Second)
		c.setDelay(300 * time.Millisecond)
		pass(1100 * time.Millisecond) // the expiry is under way
		if _, ok := n.State().Session(id); !ok {
			t.Fatal("expired already: the test shows nothing")
		}
		code(t, second(keepalive1(m, id, 0, 0)), lockapi.CodeSessionNotFound)
		if _, ok := n.State().Session(id); ok {
			t.Error("session_not_found before the session ended")
		}
	})
}

// TestKeepaliveRightBehindTheOpening: the state is ahead of what the office has
// followed; a session in the state lives.
func TestKeepaliveRightBehindTheOpening(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		o := openOffice(t, n)
		id := newSession(t, m, 4*time.Second)
		o.mu.Lock()
		delete(o.sessions.byID, id)
		o.mu.Unlock()
		must(t, second(keepalive1(m, id, 0, 0)))
		if lived := alive(n, id, time.Minute); lived > 6*time.Second {
			t.Errorf("lived %v: its end has no deadline", lived)
		}
	})
}

// granted202 makes b queue for path, which a holds, get a 202, and get the
// lock.
func granted202(t *testing.T, m *Master, path, a, b string) {
	t.Helper()
	mustHold(t, m, path, want(a))
	g, err := acquireLock(t, m, path, want(b, queueing))
	if err != nil || g.State != lockapi.StateQueued || g.Position != 1 {
		t.Fatalf("queue: %+v, %v", g, err)
	}
	releaseLock(t, m, path, a)
}

// TestEventsComeAgainUntilAcknowledged, to every keepalive that waits.
func TestEventsComeAgainUntilAcknowledged(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		answers := make(chan lockapi.Keepalive, 3)
		for range 3 {
			go func() {
				k, _ := keepalive1(m, b, 30*time.Second, 0)
				answers <- k
			}()
		}
		synctest.Wait()
		granted202(t, m, "/a", a, b)
		var seq uint64
		for range 3 {
			k := <-answers
			if len(k.Events) != 1 || k.Events[0].Type != lockapi.EventLockGranted || k.Events[0].Path != "/a" ||
				k.Events[0].Token == 0 || !strings.HasPrefix(k.Events[0].Sequencer, "exclusive:") {
				t.Fatalf("events %+v", k.Events)
			}
			seq = k.Events[0].Seq
		}
		began := time.Now()
		if k, err := keepalive1(m, b, time.Second, seq-1); err != nil || len(k.Events) != 1 || time.Since(began) != 0 {
			t.Errorf("not acknowledged: %+v, %v after %v", k, err, time.Since(began))
		}
		if k, err := keepalive1(m, b, time.Second, seq); err != nil || len(k.Events) != 0 {
			t.Errorf("acknowledged: %+v, %v", k, err)
		}
	})
}

// TestNextOfficeTellsAgain what the session has not acknowledged to the earlier
// office.
func TestNextOfficeTellsAgain(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		granted202(t, m, "/a", a, b)
		k, err := keepalive1(m, b, 0, 0)
		if err != nil || len(k.Events) != 1 {
			t.Fatalf("%+v, %v", k, err)
		}
		next := c.office("r2").master
		again, err := keepalive1(next, b, 0, 0)
		if err != nil || len(again.Events) != 1 || again.Events[0] != k.Events[0] || again.Epoch != 2 {
			t.Errorf("the next office reports %+v, %v; want %+v", again, err, k.Events)
		}
		for _, to := range []string{"r2", "r3"} { // the office that sent it, and the next
			m := c.node(to).master
			if to == "r3" {
				m = c.office(to).master
			}
			wantEvents(t, m, b, k.Events[0].Seq, 0)
		}
	})
}

// TestAcknowledgementCountsForWhatWasShown: a grant may become an event after
// an event with a higher number was acknowledged. It is still shown.
func TestAcknowledgementCountsForWhatWasShown(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		call, place := placed(t, n, "/a", want(b, queueing, waiting(time.Minute)))
		releaseLock(t, m, "/a", a)
		granted202(t, m, "/b", a, b)
		first, err := keepalive1(m, b, 0, 0)
		if err != nil || len(first.Events) != 1 || first.Events[0].Path != "/b" {
			t.Fatalf("%+v, %v", first, err)
		}
		call.breakOff(place)
		ack := first.Events[0].Seq
		if k, err := keepalive1(m, b, 0, ack); err != nil || len(k.Events) != 1 || k.Events[0].Path != "/a" || k.Events[0].Seq > ack {
			t.Errorf("%+v, %v; want the earlier grant, reported late", k, err)
		}
		wantEvents(t, m, b, ack, 0)
	})
}

// TestExpiryIsLoggedOutsideTheMutex: a slow disk under the log must not delay
// the office.
func TestExpiryIsLoggedOutsideTheMutex(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		o := openOffice(t, n)
		logged := make(chan bool, 1)
		o.mu.Lock()
		o.logger = zerolog.New(writer(func() {
			free := o.mu.TryLock()
			if free {
				o.mu.Unlock()
			}
			logged <- free
		}))
		o.mu.Unlock()
		newSession(t, m, time.Second)
		pass(3 * time.Second)
		select {
		case free := <-logged:
			if !free {
				t.Error("logged while the mutex was held")
			}
		default:
			t.Error("the expiry was not logged")
		}
	})
}

type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// TestNoEventWithoutA202: a grant that a call returned is no event. Nor is a
// grant that was released.
func TestNoEventWithoutA202(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		call := begin(t.Context(), m, "/a", want(b, queueing, waiting(time.Minute)))
		call.running(t)
		releaseLock(t, m, "/a", a)
		if g := call.answered(t); g.err != nil || g.grant.State != lockapi.StateHeld {
			t.Fatalf("%+v, %v", g.grant, g.err)
		}
		wantEvents(t, m, b, 0, 0)
		granted202(t, m, "/b", a, b)
		releaseLock(t, m, "/b", b)
		wantEvents(t, m, b, 0, 0)
	})
}

// TestClosingASessionAnswersItsCallsAtOnce with session_not_found.
func TestClosingASessionAnswersItsCallsAtOnce(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		mustHold(t, m, "/a", want(a))
		mustHold(t, m, "/b", want(b, delayed(time.Minute)))
		call := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		alive := make(chan error, 1)
		go func() { _, err := keepalive1(m, b, 30*time.Second, 0); alive <- err }()
		call.running(t)
		began := time.Now()
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: b}))
		code(t, call.answered(t).err, lockapi.CodeSessionNotFound)
		code(t, <-alive, lockapi.CodeSessionNotFound)
		if d := time.Since(began); d > 2*fakeDelay {
			t.Errorf("took %v", d)
		}
		mustHold(t, m, "/b", want(a)) // without lock-delay
		before := n.commands()
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: b}); err != nil || n.commands() != before {
			t.Errorf("closing it again: %v, %d commands", err, n.commands()-before)
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		open := func(key string, r lockapi.SessionRequest) (lockapi.Session, error) {
			return m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: r, Key: key})
		}
		r := lockapi.SessionRequest{TTLMS: 5000, Name: "n", Meta: map[string]string{"a": "1", "b": "2"}}
		first, err := open("k", r)
		must(t, err)
		before := n.commands()
		if again, err := open("k", r); err != nil || again.ID != first.ID || n.commands() != before {
			t.Errorf("again: %+v, %v, %d commands", again, err, n.commands()-before)
		}
		r.TTLMS = 6000
		code(t, second(open("k", r)), lockapi.CodeConflict)
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: first.ID}))
		if other, err := open("k", r); err != nil || other.ID == first.ID {
			t.Errorf("after its session: %+v, %v", other, err)
		}
	})
}

// TestSessionIsShown with what it holds, waits for, and has left.
func TestSessionIsShown(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := newSession(t, m, 10*time.Second), newSession(t, m, time.Minute)
		mustHold(t, m, "/a", want(a))
		mustHold(t, m, "/b", want(b))
		must(t, second(acquireLock(t, m, "/b", want(a, queueing, handle("h")))))
		pass(3 * time.Second)
		s, err := m.GetSession(t.Context(), &Read{}, &lockapi.GetSession{Session: a})
		if err != nil || len(s.Holds) != 1 || len(s.Waits) != 1 || s.Waits[0].Handle != "h" || s.Waits[0].Position != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if left := time.Duration(*s.LeaseRemainingMS) * time.Millisecond; left > 7*time.Second || left < 6900*time.Millisecond {
			t.Errorf("lease_remaining_ms %v, want some 7s", left)
		}
		if s, err := m.GetSession(t.Context(), &Read{Stale: true}, &lockapi.GetSession{Session: a}); err != nil || s.LeaseRemainingMS != nil {
			t.Errorf("stale: %+v, %v", s, err)
		}
		code(t, second(m.GetSession(t.Context(), &Read{}, &lockapi.GetSession{Session: "nobody"})), lockapi.CodeSessionNotFound)
		var ids []string
		for after := ""; ; {
			page, err := m.ListSessions(t.Context(), &Read{}, &lockapi.ListSessions{After: after, Limit: 1})
			must(t, err)
			for _, s := range page.Sessions {
				ids = append(ids, s.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(ids) != 2 || ids[0] >= ids[1] {
			t.Errorf("pages give %v", ids)
		}
	})
}

// TestCallsWithoutAMaster are refused, and certainly have no effect.
func TestCallsWithoutAMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.node("r1").master
		began := time.Now()
		code(t, second(m.Locate(t.Context())), lockapi.CodeNoMaster)
		if d := time.Since(began); d != 1200*time.Millisecond {
			t.Errorf("patience of %v", d)
		}
		ctx := context.Background()
		for name, call := range map[string]func() error{
			"open": func() error {
				_, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
				return err
			},
			"close":     func() error { return m.CloseSession(ctx, &Caller{}, &lockapi.CloseSession{Session: "s"}) },
			"keepalive": func() error { _, err := keepalive1(m, "s", 0, 0); return err },
			"acquire": func() error {
				_, err := acquireLock(t, m, "/a", want("s"))
				return err
			},
			"release": func() error {
				_, err := m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: "s"})
				return err
			},
			"read": func() error { _, err := m.GetLock(ctx, &Read{}, &lockapi.GetLock{Path: "/a"}); return err },
			"stale read": func() error {
				_, err := m.GetLock(ctx, &Read{Stale: true}, &lockapi.GetLock{Path: "/a"})
				return err
			},
			"transfer": func() error {
				_, err := m.TransferMastership(ctx, &Caller{}, &lockapi.TransferMastership{})
				return err
			},
			"ready": m.Ready,
		} {
			err := call()
			if e := code(t, err, lockapi.CodeNoMaster); e.RetryAfter != 1 {
				t.Errorf("%s: Retry-After %d", name, e.RetryAfter)
			}
		}
		if cell := m.Cell(); cell.Master != nil || cell.Lease.Held || cell.Sessions != nil || len(cell.Replicas) != 3 {
			t.Errorf("%+v", cell)
		}
	})
}

// TestLossComesAgainUntilAcknowledged: a waiting keepalive is answered when its
// session loses a hold by force. Every later office reports the loss until it
// is acknowledged.
func TestLossComesAgainUntilAcknowledged(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		know(c)
		pass(time.Minute) // until the cell's level is raised
		a := newSession(t, m, time.Minute)
		g := mustHold(t, m, "/a", want(a))
		answer := make(chan lockapi.Keepalive, 1)
		go func() {
			k, _ := keepalive1(m, a, 30*time.Second, 0)
			answer <- k
		}()
		synctest.Wait()
		if r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a, Forced: true}); err != nil || !r.Released {
			t.Fatalf("release: %+v, %v", r, err)
		}
		k := <-answer
		if len(k.Events) != 1 {
			t.Fatalf("events %+v", k.Events)
		}
		seq := k.Events[0].Seq
		if want := (lockapi.Event{Seq: seq, Type: lockapi.EventLockLost, Path: "/a", Token: g.Token, Reason: lockapi.ReasonForced}); k.Events[0] != want {
			t.Errorf("event %+v, want %+v", k.Events[0], want)
		}
		for i, to := range []string{"r2", "r3"} {
			m = c.office(to).master
			if again, err := keepalive1(m, a, 0, uint64(i)*seq); err != nil || len(again.Events) != 1-i {
				t.Errorf("%s reports %+v, %v", to, again.Events, err)
			}
		}
		if r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a}); err != nil || r.Released {
			t.Fatalf("release: %+v, %v", r, err)
		}
		mustHold(t, m, "/a", want(a))
		releaseLock(t, m, "/a", a)
		wantEvents(t, m, a, seq, 0)
	})
}

// TestLossesThatNobodyAcknowledges: an office keeps a bounded number of them, the
// latest, and every other event.
func TestLossesThatNobodyAcknowledges(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		know(c)
		pass(time.Minute) // until the cell's level is raised
		a, b := two(t, m)
		mustHold(t, m, "/b", want(b))
		must(t, second(acquireLock(t, m, "/b", want(a, queueing))))
		releaseLock(t, m, "/b", b)
		var last uint64
		for range mostLosses + mostLosses/8 + 1 {
			last = mustHold(t, m, "/a", want(a)).Token
			must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a, Forced: true})))
		}
		k, err := keepalive1(m, a, 0, 0)
		must(t, err)
		if n := len(k.Events); n != mostLosses+1 || k.Events[0].Type != lockapi.EventLockGranted || k.Events[n-1].Token != last {
			t.Errorf("%d events, the first %+v, the last %+v", n, k.Events[0], k.Events[n-1])
		}
	})
}

// TestWithdrawnWaitsDisplaceNoLoss: one change of the rules may end more waits than a
// session's losses are kept.
func TestWithdrawnWaitsDisplaceNoLoss(t *testing.T) {
	var es sessionEvents
	es.add(sessionEvent{seq: 1, loss: &state.Loss{}})
	for seq := range uint64(mostWithdrawn + mostWithdrawn/8 + 1) {
		es.add(sessionEvent{seq: 2 + seq, wait: &state.Wait{}})
	}
	if len(es) != 1+mostWithdrawn || es[0].loss == nil || es[1].seq != 3+mostWithdrawn/8 {
		t.Errorf("%d events, the first two %+v", len(es), es[:2])
	}
}

// TestEventsOfOneAnswerAreBounded: an answer has the first of a session's events, and the
// next answer the following ones, once these are acknowledged. A call for many sessions
// has as many in all, and at least one for each session.
func TestEventsOfOneAnswerAreBounded(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		o, path := openOffice(t, n), "/"+strings.Repeat("\x01", lockapi.MaxPathBytes-1)
		const events = 400
		o.mu.Lock()
		for _, id := range []string{a, b} {
			for seq := range uint64(events) {
				w := &state.Wait{Path: path, Handle: strings.Repeat("h", lockapi.MaxHandleBytes), Mode: state.Exclusive}
				o.sessions.byID[id].events.add(sessionEvent{seq: lockapi.MaxToken - events + seq, wait: w})
			}
		}
		o.mu.Unlock()
		size := func(v any) int {
			text, err := json.Marshal(v)
			must(t, err)
			return len(text)
		}
		var seen []lockapi.Event
		for answers, ack := 0, uint64(0); ; answers++ {
			k, err := keepalive1(m, a, 0, ack)
			must(t, err)
			if len(k.Events) == 0 {
				if answers != 3 {
					t.Errorf("%d answers", answers)
				}
				break
			}
			if n := size(k); n > lockapi.PageBytes+7_000 {
				t.Fatalf("an answer of %d bytes", n)
			}
			seen, ack = append(seen, k.Events...), k.Events[len(k.Events)-1].Seq
			all, err := m.KeepAliveAll(t.Context(), &Caller{}, &lockapi.KeepAliveAll{KeepalivesRequest: lockapi.KeepalivesRequest{Sessions: []lockapi.SessionAck{{ID: a}, {ID: b}}}})
			must(t, err)
			if n := size(all); n > lockapi.PageBytes+14_000 || len(all.Sessions[1].Events) == 0 {
				t.Fatalf("an answer for two sessions has %d bytes, with %d events of the second", n, len(all.Sessions[1].Events))
			}
		}
		for i, e := range seen {
			if want := lockapi.MaxToken - events + uint64(i); e.Seq != want {
				t.Fatalf("event %d is %d, want %d", i, e.Seq, want)
			}
		}
		if len(seen) != events {
			t.Errorf("%d events", len(seen))
		}
	})
}

// openKeyed opens a session under a key.
func openKeyed(t *testing.T, m *Master, key string, ttl time.Duration) (lockapi.Session, error) {
	t.Helper()
	return m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl.Milliseconds()}, Key: key})
}

// TestOpeningAgainExtends: the caller may have retried for longer than the ttl.
// It counts on a whole ttl from when it sent the call that was answered.
func TestOpeningAgainExtends(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		first, err := openKeyed(t, m, "k", ttl)
		must(t, err)
		for range 4 {
			pass(ttl * 9 / 10)
			before := n.commands()
			if again, err := openKeyed(t, m, "k", ttl); err != nil || again.ID != first.ID || n.commands() != before {
				t.Fatalf("%+v, %v, with %d commands; want session %s", again, err, n.commands()-before, first.ID)
			}
		}
		if lived := alive(n, first.ID, time.Minute); lived < ttl || lived > ttl+time.Second {
			t.Errorf("expired %v after the last answer, want %v", lived, ttl)
		}
	})
}

// TestOpeningTwiceAtOnceExtends: the second call finds the session of the first
// one in the log, before it.
func TestOpeningTwiceAtOnceExtends(t *testing.T) {
	const ttl = time.Second
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		c.setDelay(400 * time.Millisecond)
		type opened struct {
			s   lockapi.Session
			err error
		}
		answers := make(chan opened, 2)
		open := func() { s, err := openKeyed(t, m, "k", ttl); answers <- opened{s, err} }
		go open()
		pass(300 * time.Millisecond) // in the log, but not applied
		go open()
		first, second := <-answers, <-answers
		if first.err != nil || second.err != nil || first.s.ID != second.s.ID {
			t.Fatalf("%+v %+v", first, second)
		}
		if lived := alive(n, second.s.ID, time.Minute); lived < ttl {
			t.Errorf("expired %v after the second answer", lived)
		}
	})
}

// TestOpeningAgainDoesNotRevive: past due, it waits for the end of the existing
// session, and opens another.
func TestOpeningAgainDoesNotRevive(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		first, err := openKeyed(t, m, "k", time.Second)
		must(t, err)
		c.setDelay(300 * time.Millisecond)
		pass(1100 * time.Millisecond) // the expiry is under way
		if _, ok := n.State().Session(first.ID); !ok {
			t.Fatal("expired already: the test shows nothing")
		}
		second, err := openKeyed(t, m, "k", time.Second)
		if err != nil || second.ID == first.ID {
			t.Fatalf("%+v, %v; want another session than %s", second, err, first.ID)
		}
		if _, ok := n.State().Session(first.ID); ok {
			t.Error("another session was returned while the first lived")
		}
	})
}

// TestOpeningAgainTakesNoEvents: its answer has no events, so no event counts
// as shown, and a later acknowledgement does not drop one.
func TestOpeningAgainTakesNoEvents(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		b, err := openKeyed(t, m, "k", time.Minute)
		must(t, err)
		granted202(t, m, "/a", a, b.ID)
		must(t, second(openKeyed(t, m, "k", time.Minute)))
		wantEvents(t, m, b.ID, 1<<40, 1)
	})
}
