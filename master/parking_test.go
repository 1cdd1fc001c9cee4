package master

import (
	"errors"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

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
