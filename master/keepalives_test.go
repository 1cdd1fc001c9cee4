package master

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// keepAll makes the call for sessions that have seen no event.
func keepAll(ctx context.Context, m *Master, by *Caller, wait time.Duration, ids ...string) (lockapi.Keepalives, error) {
	req := &lockapi.KeepAliveAll{KeepalivesRequest: lockapi.KeepalivesRequest{WaitMS: wait.Milliseconds()}}
	for _, id := range ids {
		req.Sessions = append(req.Sessions, lockapi.SessionAck{ID: id})
	}
	return m.KeepAliveAll(ctx, by, req)
}

// TestKeepAliveAll: one call extends sessions, and returns when one of them has
// something to report.
func TestKeepAliveAll(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b, idle := newSession(t, m, 20*time.Second), newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		ctx := t.Context()

		began := time.Now()
		got, err := keepAll(ctx, m, &Caller{}, 10*time.Second, a, b)
		if took := time.Since(began); err != nil || took != 10*time.Second || got.Sessions[0].TTLMS != 20_000 || got.Sessions[1].TTLMS != 60_000 || got.MembersRevision == 0 {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
		pass(15 * time.Second)
		if _, err := m.GetSession(ctx, &Read{}, &lockapi.GetSession{Session: a}); err != nil {
			t.Errorf("it was extended 15 s ago, with a ttl of 20 s: %v", err)
		}

		began = time.Now()
		got, err = keepAll(ctx, m, &Caller{}, time.Minute, a, "nobody", b)
		if took := time.Since(began); err != nil || took != 0 || got.Sessions[1].Keepalive != nil || got.Sessions[1].Error.Code != lockapi.CodeSessionNotFound || got.Sessions[0].TTLMS == 0 || got.Sessions[2].TTLMS == 0 {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}

		began = time.Now()
		got, err = keepAll(ctx, m, &Caller{}, time.Minute, b, a)
		if took := time.Since(began); err != nil || took != 15*time.Second || got.Sessions[0].TTLMS == 0 || got.Sessions[1].TTLMS == 0 {
			t.Errorf("after %v, three quarters of the shorter ttl are 15 s: %+v, %v", took, got, err)
		}

		began = time.Now()
		answer := make(chan lockapi.Keepalives, 1)
		go func() {
			got, _ := keepAll(ctx, m, &Caller{}, 10*time.Second, idle, b)
			answer <- got
		}()
		pass(2 * time.Second)
		granted202(t, m, "/a", idle, b)
		got = <-answer
		if took := time.Since(began); took >= 10*time.Second || len(got.Sessions[0].Events) != 0 || len(got.Sessions[1].Events) != 1 || got.Sessions[0].TTLMS == 0 {
			t.Errorf("after %v: %+v", took, got)
		}
		req := &lockapi.KeepAliveAll{KeepalivesRequest: lockapi.KeepalivesRequest{Sessions: []lockapi.SessionAck{{ID: b, Ack: got.Sessions[1].Events[0].Seq}}}}
		if got, err = m.KeepAliveAll(ctx, &Caller{}, req); err != nil || len(got.Sessions[0].Events) != 0 {
			t.Errorf("an event that was acknowledged comes again: %+v, %v", got, err)
		}
		if n := len(openOffice(t, c.node("r1")).sessions.byID[b].keepalives); n != 0 {
			t.Errorf("%d calls are left at the session", n)
		}
	})
}

// TestKeepAliveAllAndQuietEnds: a call waits on when one of its sessions is
// closed quietly, and returns when one is closed in another way. Its answer has
// the errors of both.
func TestKeepAliveAllAndQuietEnds(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b, d := newSession(t, m, time.Minute), newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		answer := make(chan lockapi.Keepalives, 1)
		began := time.Now()
		go func() {
			got, _ := keepAll(t.Context(), m, &Caller{}, 30*time.Second, a, b, d)
			answer <- got
		}()
		for i, id := range []string{a, b} {
			pass(5 * time.Second)
			must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id, Quiet: i == 0}))
		}
		got := <-answer
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second || got.Sessions[0].Error == nil || got.Sessions[1].Error == nil || got.Sessions[2].Keepalive == nil {
			t.Errorf("after %v: %+v", took, got)
		}
	})
}

// TestKeepAliveAllOfOthers: while access is on, a call extends the caller's own
// sessions only.
func TestKeepAliveAllOfOthers(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		own, other := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:b")
		got, err := keepAll(t.Context(), m, new(by("user:a", Known)), 0, own, other)
		if err != nil || got.Sessions[0].Error != nil || got.Sessions[1].Error == nil || got.Sessions[1].Keepalive != nil {
			t.Errorf("%+v, %v", got, err)
		}
		code(t, second(keepAll(t.Context(), m, new(by("", Known)), 0, own)), lockapi.CodeUnauthenticated)
	})
}

// TestQuietEndByAnOperator: only a session's own principal can close it quietly.
func TestQuietEndByAnOperator(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:a")
		answer := make(chan lockapi.Keepalives, 1)
		go func() {
			got, _ := keepAll(t.Context(), m, new(by("user:a", Known)), 10*time.Second, a, b)
			answer <- got
		}()
		pass(time.Second)
		operator := root(Operate)
		operator.Told = new(Checked)
		operator.about(a, true)
		must(t, m.CloseSession(t.Context(), &operator, &lockapi.CloseSession{Session: a, Quiet: true}))
		pass(time.Second)
		select {
		case got := <-answer:
			if got.Sessions[0].Error == nil {
				t.Errorf("%+v", got)
			}
		default:
			t.Error("the owner's call waits on")
		}
	})
}

// TestKeepAliveAllIsJudgedWhenAccessIsEnabled: a call that waits, of a caller without a
// name, ends as a single keepalive does.
func TestKeepAliveAllIsJudgedWhenAccessIsEnabled(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Read: []string{"user:a"}}})))
		id := newSession(t, m, time.Minute)
		answer := make(chan lockapi.Keepalives, 1)
		go func() {
			got, _ := keepAll(t.Context(), m, new(by("", Known)), 20*time.Second, id)
			answer <- got
		}()
		pass(2 * time.Second)
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		if got := <-answer; len(got.Sessions) > 0 && got.Sessions[0].Keepalive != nil {
			t.Errorf("a caller without a credential has extended a session while access is on: %+v", got.Sessions[0].Keepalive)
		}
	})
}

// TestKeepAliveAllBesideAnEnd: the pending end of one session delays no other
// session.
func TestKeepAliveAllBesideAnEnd(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		m, o := n.master, openOffice(t, n)
		crowd := o.endings.begin(mostEnding) // as after the loss of a host with thousands of holds
		a, b := newSession(t, m, time.Second), newSession(t, m, 12*time.Second)
		pass(3 * time.Second)
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { o.endings.finish(crowd) })
		got, err := keepAll(t.Context(), m, &Caller{}, 0, a, b)
		if took := time.Since(began); err != nil || took > 2*time.Second || got.Sessions[0].Error == nil || got.Sessions[1].Keepalive == nil {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
	})
}

// answer is the result of a keepalive, and its number.
type answer struct {
	i     int
	alive lockapi.Keepalive
	err   error
	took  time.Duration
}

// crowd sends n keepalives of a session, one after the other. Each waits for a
// minute.
func crowd(m *Master, id string, n int) <-chan answer {
	answers := make(chan answer, n)
	for i := range n {
		began := time.Now()
		go func() {
			k, err := keepalive1(m, id, time.Minute, 0)
			answers <- answer{i, k, err, time.Since(began)}
		}()
		synctest.Wait()
		pass(time.Millisecond)
	}
	return answers
}

// TestOneKeepaliveTooManyEndsTheOldest, as if its wait had run out. A keepalive
// that does not wait, or of another session, does not end it.
func TestOneKeepaliveTooManyEndsTheOldest(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		id, other := newSession(t, m, time.Hour), newSession(t, m, time.Hour)
		answers := crowd(m, id, mostWaiting)
		others := crowd(m, other, mostWaiting)
		must(t, second(keepalive1(m, id, 0, 0)))
		if len(answers)+len(others) > 0 {
			t.Fatalf("%d and %d are answered, with no more than %d waiting", len(answers), len(others), mostWaiting)
		}
		pass(10 * time.Second)
		newer := crowd(m, id, 3)
		for i := range 3 {
			a := <-answers
			if a.i != i || a.err != nil || a.alive.Events == nil || a.alive.TTLMS != time.Hour.Milliseconds() {
				t.Errorf("%+v; want the oldest to be answered first", a)
			}
			if held := time.Duration(a.alive.HeldMS) * time.Millisecond; held > a.took || held < a.took*97/100 || a.took < 10*time.Second || a.took > 11*time.Second {
				t.Errorf("held_ms %v after %v", held, a.took)
			}
		}
		if len(answers)+len(newer)+len(others) > 0 {
			t.Error("more were answered than had to make room")
		}
		o := openOffice(t, n)
		o.mu.Lock()
		defer o.mu.Unlock()
		s := o.sessions.byID[id]
		if base := n.clock() - s.base; base > 3*time.Millisecond || len(s.keepalives) != mostWaiting {
			t.Errorf("extended %v ago, %d waiting; the answers extend the session", base, len(s.keepalives))
		}
	})
}

// TestKeepalivesDoNotHeapUpWithoutALease: keepalives that must make room can't
// be answered then, and are refused.
func TestKeepalivesDoNotHeapUpWithoutALease(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, time.Hour)
		c.cutOff("r1", true)
		pass(3 * time.Second)
		answers := crowd(n.master, id, mostWaiting+100)
		pass(2 * lapseRecheck)
		if len(answers) != 100 {
			t.Fatalf("%d of %d are answered, want all but %d", len(answers), mostWaiting+100, mostWaiting)
		}
		for range 100 {
			if e := code(t, (<-answers).err, lockapi.CodeTooMany); e.RetryAfter == 0 {
				t.Error("no advice when to try again")
			}
		}
		c.cutOff("r1", false)
		pass(time.Second)
		must(t, second(keepalive1(n.master, id, 0, 0)))
	})
}

// TestEndOfASessionAnswersTheCrowd: all of its keepalives return.
func TestEndOfASessionAnswersTheCrowd(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		id := newSession(t, m, time.Hour)
		answers := crowd(m, id, mostWaiting)
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}))
		for range mostWaiting {
			code(t, (<-answers).err, lockapi.CodeSessionNotFound)
		}
	})
}

// parkedCall is a keepalive that waits without a goroutine.
type parkedCall struct {
	m     *Master
	req   *lockapi.KeepAlive
	by    *Caller
	woken chan struct{}
}

func park(t *testing.T, m *Master, id string, wait time.Duration) *parkedCall {
	t.Helper()
	p := &parkedCall{m: m, woken: make(chan struct{}, 1), req: &lockapi.KeepAlive{Session: id, KeepaliveRequest: lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds()}}}
	p.by = &Caller{Parking: &Parking{Wake: func() {
		select {
		case p.woken <- struct{}{}:
		default:
		}
	}}}
	if _, err := m.KeepAlive(t.Context(), p.by, p.req); err != ErrParked {
		t.Fatalf("it does not wait: %v", err)
	}
	return p
}

// goOn makes the call again when it is woken.
func (p *parkedCall) goOn(t *testing.T) (lockapi.Keepalive, error) {
	t.Helper()
	<-p.woken
	return p.m.KeepAlive(t.Context(), &Caller{Parking: p.by.Parking}, p.req)
}

// TestParkedKeepalive: a parked call ends like one that waits: after its time,
// when there is an event, and with its session or office.
func TestParkedKeepalive(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := newSession(t, m, 20*time.Second), newSession(t, m, 20*time.Second)
		began := time.Now()
		got, err := park(t, m, b, 10*time.Second).goOn(t)
		if took := time.Since(began); err != nil || took != 10*time.Second || got.TTLMS != 20_000 || got.HeldMS < 9_000 || got.HeldMS > 10_000 || got.MembersRevision == 0 {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
		must(t, second(keepalive1(m, a, 0, 0)))

		began = time.Now()
		p := park(t, m, b, 10*time.Second)
		pass(2 * time.Second)
		granted202(t, m, "/a", a, b)
		got, err = p.goOn(t)
		if took := time.Since(began); err != nil || took > 3*time.Second || len(got.Events) != 1 {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
		_, _ = keepalive1(m, b, 0, got.Events[0].Seq)

		p = park(t, m, b, 10*time.Second)
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: b}))
		code(t, second(p.goOn(t)), lockapi.CodeSessionNotFound)

		p, o := park(t, m, a, 10*time.Second), openOffice(t, n)
		o.end(errors.New("the test ends it"))
		code(t, second(p.goOn(t)), lockapi.CodeNoMaster)
	})
}

// TestParkedKeepaliveThatIsNotMadeAgain: nothing of it is left at the session.
func TestParkedKeepaliveThatIsNotMadeAgain(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a := newSession(t, m, 20*time.Second)
		p := park(t, m, a, 10*time.Second)
		p.by.Parking.End()
		p.by.Parking.End()
		if left := openOffice(t, n).sessions.byID[a].keepalives; len(left) != 0 {
			t.Errorf("%d calls are left", len(left))
		}
		pass(11 * time.Second)
		select {
		case <-p.woken:
			t.Error("it was woken after its end")
		default:
		}
	})
}
