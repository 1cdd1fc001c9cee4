package master

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// inCell runs f in a bubble with a cell of n replicas. Throughout it checks
// that no two of them hold a valid lease.
func inCell(t *testing.T, n int, o Options, f func(t *testing.T, c *fakeCell), rates ...float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCell(t, n, o, rates...)
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					c.oneLease()
				}
			}
		}()
		defer c.close()
		defer func() { close(stop); <-done }()
		f(t, c)
	})
}

// one runs f on a single replica in office.
func one(t *testing.T, f func(t *testing.T, m *Master, n *node, c *fakeCell)) {
	t.Helper()
	inCell(t, 1, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		f(t, n.master, n, c)
	})
}

// oneLease fails the test if two replicas hold a valid lease.
func (c *fakeCell) oneLease() {
	var valid []string
	for _, n := range c.nodes {
		n.master.mu.Lock()
		o := n.master.office
		n.master.mu.Unlock()
		if o != nil && o.lease.Valid(n.clock()) {
			valid = append(valid, n.id)
		}
	}
	if len(valid) > 1 {
		c.t.Errorf("after %v: %v hold a valid lease at once", time.Since(c.began), valid)
	}
}

// openOffice returns the present office of n; the test ends without one.
func openOffice(t *testing.T, n *node) *office {
	t.Helper()
	o := n.master.inOffice()
	if o == nil {
		t.Fatalf("%s is not in office", n.id)
	}
	return o
}

func newSession(t *testing.T, m *Master, ttl time.Duration) string {
	t.Helper()
	s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: ttl.Milliseconds()}})
	if err != nil {
		t.Fatalf("open a session: %v", err)
	}
	return s.ID
}

func keepalive1(m *Master, id string, wait time.Duration, ack uint64) (lockapi.Keepalive, error) {
	return m.KeepAlive(context.Background(), &Caller{}, &lockapi.KeepAlive{Session: id, KeepaliveRequest: lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds(), Ack: ack}})
}

// want returns the request of an acquire, with the defaults of the contract.
func want(session string, change ...func(*lockapi.LockRequest)) lockapi.LockRequest {
	r := lockapi.NewLockRequest(session)
	for _, f := range change {
		f(&r)
	}
	return r
}

func waiting(d time.Duration) func(*lockapi.LockRequest) {
	return func(r *lockapi.LockRequest) { r.WaitMS = d.Milliseconds() }
}

func queueing(r *lockapi.LockRequest) { r.Queue = true }

func handle(h string) func(*lockapi.LockRequest) {
	return func(r *lockapi.LockRequest) { r.Handle = h }
}

func delayed(d time.Duration) func(*lockapi.LockRequest) {
	return func(r *lockapi.LockRequest) { r.LockDelayMS = d.Milliseconds() }
}

func shared(limit int64) func(*lockapi.LockRequest) {
	return func(r *lockapi.LockRequest) { r.Mode, r.Limit = lockapi.Shared, limit }
}

func mustHold(t *testing.T, m *Master, path string, r lockapi.LockRequest) lockapi.Grant {
	t.Helper()
	g, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: r})
	if err != nil || g.State != lockapi.StateHeld {
		t.Fatalf("acquire %s: %+v, %v; want it held", path, g, err)
	}
	return g
}

func acquireLock(t *testing.T, m *Master, path string, r lockapi.LockRequest) (lockapi.Grant, error) {
	return m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: r})
}

// releaseLock gives a hold or a place in the queue back, which the session must
// have.
func releaseLock(t *testing.T, m *Master, path, session string) {
	t.Helper()
	r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: path, Session: session})
	if err != nil || !r.Released {
		t.Errorf("release %s: %+v, %v", path, r, err)
	}
}

func transfer(t *testing.T, m *Master, to string) (lockapi.Transferred, error) {
	return m.TransferMastership(t.Context(), &Caller{}, &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: to}})
}

// acquiring is an acquire under way.
type acquiring struct {
	grant lockapi.Grant
	err   error
	took  time.Duration
	done  chan struct{}
}

func begin(ctx context.Context, m *Master, path string, r lockapi.LockRequest) *acquiring {
	a := &acquiring{done: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(a.done)
		a.grant, a.err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: r})
		a.took = time.Since(began)
	}()
	pass(5 * fakeDelay) // the call is queued or answered by now
	return a
}

// running fails the test if the call has returned.
func (a *acquiring) running(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-a.done:
		t.Fatalf("answered already: %+v, %v", a.grant, a.err)
	default:
	}
}

// answered waits for the answer, which must arrive within a few messages.
func (a *acquiring) answered(t *testing.T) *acquiring {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(10 * fakeDelay):
		t.Fatal("no answer")
	}
	return a
}

// code checks the code of err.
func code(t *testing.T, err error, want lockapi.Code) *lockapi.Error {
	t.Helper()
	var e *lockapi.Error
	if !errors.As(err, &e) || e.Code != want {
		t.Fatalf("error %v, want %s", err, want)
	}
	return e
}

// wantEvents checks how many events a keepalive with an acknowledgement gets.
func wantEvents(t *testing.T, m *Master, session string, ack uint64, want int) []lockapi.Event {
	t.Helper()
	k, err := keepalive1(m, session, 0, ack)
	if err != nil || len(k.Events) != want {
		t.Fatalf("a keepalive that acknowledges %d gets %+v, %v; want %d events", ack, k.Events, err, want)
	}
	return k.Events
}

// waits counts the waits in all queues, as n sees them.
func waits(n *node) int { return n.State().WaitCount() }

func wantWaits(t *testing.T, n *node, want int) {
	t.Helper()
	if got := waits(n); got != want {
		t.Fatalf("%d waits are in the queues, want %d", got, want)
	}
}

// know makes all members report the latest level.
func know(c *fakeCell) {
	c.set(func(f *fakeConf) {
		f.level = map[string]uint64{}
		for _, n := range c.nodes {
			f.level[founder(n.id)] = state.Level
		}
	})
}

// holder returns the session that holds path, or empty.
func holder(s *state.State, path string) string {
	for h := range s.Holders(path) {
		return h.Session
	}
	return ""
}

func open(id string) state.Command {
	return state.Command{Operation: &state.OpenSession{Session: id, TTLMS: 1000}}
}

// must ends the test if a call was refused.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call that returns two values.
func second[T any](_ T, err error) error { return err }
