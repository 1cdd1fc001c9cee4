package master

import (
	"context"
	"testing"
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
		crowd := o.endings.begin(mostEnding) // as after the loss of a host with thousands of claims
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
