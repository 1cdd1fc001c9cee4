package master

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

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
		{"beyond it", 10, 2, []time.Duration{0, 0, 0}, []time.Duration{never, never, leastHold}},
		{"at the rate", 10, 1, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, []time.Duration{never, never, never}},
		{"faster", 10, 1, []time.Duration{0, 40 * time.Millisecond, 100 * time.Millisecond}, []time.Duration{never, leastHold, never}},
		{"after a pause the burst is full", 10, 2, []time.Duration{0, 0, time.Hour, time.Hour, time.Hour}, []time.Duration{never, never, never, never, leastHold}},
		{"slow", 0.1, 1, []time.Duration{0, time.Second}, []time.Duration{never, time.Second}},
		{"none", 0, 0, []time.Duration{0, time.Hour}, []time.Duration{time.Second, time.Second}},
		{"no burst", 10, 0, []time.Duration{0}, []time.Duration{time.Second}},
		{"slower than the least wait", 1.25, 1, []time.Duration{0, 0}, []time.Duration{never, 800 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pacer
			for i, now := range c.at {
				_, hold, ok := p.admit("user:a", now, c.rate, c.burst, false)
				if want := c.want[i]; ok != (want == never) || !ok && (hold.For != want || hold.Close) {
					t.Errorf("call %d: %v, %+v; want %v", i, ok, hold, want)
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
		if _, hold, ok := p.admit("user:a", 0, 1, 1, false); !ok && !hold.Close {
			if waiting++; hold.For > mostHold {
				t.Fatalf("an answer waits for %v", hold.For)
			}
		}
	}
	if most := int(mostHold / refusalEvery); waiting != most {
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
				hold, err := m.AdmitCall(&Caller{Principal: principal, Ask: Ask{Right: Operate}}, frees)
				if err == nil {
					count++
					continue
				}
				e := code(t, err, lockapi.CodeTooMany)
				who := (&Caller{Principal: principal}).who().Identity()
				if e.Quota != "calls_per_second" || e.Principal != who || e.RetryAfter != 1 || hold.For > time.Second || hold == (Hold{}) {
					t.Fatalf("%+v of %s, %+v", e, who, hold)
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
