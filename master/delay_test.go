package master

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestLaterDelayNeverShortensTheOneInForce: several holders expire one after
// the other. The lock-delay that ends last counts, in this office and, anew, in
// the next.
func TestLaterDelayNeverShortensTheOneInForce(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a, long, short := newSession(t, n.master, time.Hour), newSession(t, n.master, time.Second), newSession(t, n.master, 3*time.Second)
		mustHold(t, n.master, "/a", want(long, shared(0), delayed(20*time.Second)))
		mustHold(t, n.master, "/a", want(short, shared(0), delayed(time.Second)))
		alive(n, long, time.Minute)
		over := time.Now().Add(20 * time.Second)
		alive(n, short, time.Minute)
		refused := func(m *Master, over time.Time) {
			t.Helper()
			_, err := acquireLock(t, m, "/a", want(a))
			left := time.Duration(code(t, err, lockapi.CodeLockDelayed).DelayRemainingMS) * time.Millisecond
			if want := time.Until(over); left < want-2*fakeDelay || left > want+time.Second {
				t.Errorf("delayed for another %v, want %v", left, want)
			}
		}
		refused(n.master, over)
		pass(10 * time.Second)
		refused(n.master, over)
		next := c.office("r2")
		refused(next.master, time.Now().Add(20*time.Second))
		call := begin(t.Context(), next.master, "/a", want(a, waiting(time.Minute)))
		pass(19*time.Second + 900*time.Millisecond)
		call.running(t)
		<-call.done
		if call.err != nil {
			t.Error(call.err)
		}
	})
}

// TestLockDelayIsNeverShort, however fast the master's clock runs within the
// drift.
func TestLockDelayIsNeverShort(t *testing.T) {
	const length = 20 * time.Second
	for _, rate := range []float64{1 - drift, 1, 1 + drift} {
		inCell(t, 1, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := c.office("r1")
			a, dead := newSession(t, n.master, time.Hour), newSession(t, n.master, time.Second)
			mustHold(t, n.master, "/a", want(dead, delayed(length)))
			alive(n, dead, time.Minute)
			call := begin(t.Context(), n.master, "/a", want(a, waiting(time.Minute)))
			for range 2 * int(length/time.Second) { // timers run in true time: sessions that are due soon make the office read its clock
				newSession(t, n.master, time.Second)
				pass(500 * time.Millisecond)
			}
			if call.answered(t); call.err != nil {
				t.Fatal(call.err)
			}
			if took := call.took; took < length-5*fakeDelay || took > length*104/100+time.Second {
				t.Errorf("rate %v: granted after %v", rate, took)
			}
		}, rate)
	}
}
