package lease

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func TestMasterLease(t *testing.T) {
	var m Master
	if m.Valid(0) {
		t.Error("the zero value is a lease")
	}
	m.Extend(100*ms, 1000*ms, 150*ms, 0.01)
	for _, c := range []struct {
		now  time.Duration
		want bool
	}{{150 * ms, true}, {1090*ms - 1, true}, {1090 * ms, false}, {2000 * ms, false}} {
		if got := m.Valid(c.now); got != c.want {
			t.Errorf("at %v: valid = %v, want %v", c.now, got, c.want)
		}
	}
	m.Extend(50*ms, 1000*ms, 200*ms, 0.01)
	if !m.Valid(1090*ms - 1) {
		t.Error("an earlier proposal shortened the lease")
	}
	if m.Lapsed() != 0 {
		t.Errorf("lapsed %v without a lapse", m.Lapsed())
	}
	m.Extend(1500*ms, 1000*ms, 1600*ms, 0.01)
	if got, want := m.Lapsed(), 510*ms; got != want {
		t.Errorf("lapsed %v, want %v: from the old end to the extension", got, want)
	}
	if v := m.View(1700 * ms); !v.Held || v.Renewed != 200*ms || v.Remaining != 790*ms || v.Term != time.Second {
		t.Errorf("view %+v", v)
	}
	m.Drop()
	m.Extend(1700*ms, 1000*ms, 1700*ms, 0.01)
	if m.Valid(1700 * ms) {
		t.Error("a dropped lease came back")
	}
}

// TestVouches: a running lease vouches for any instant of the past. An accepted
// batch vouches permanently, even after Drop, for instants up to its proposal.
func TestVouches(t *testing.T) {
	var m Master
	check := func(since, now time.Duration, want bool) {
		t.Helper()
		if got := m.Vouches(since, now); got != want {
			t.Errorf("for %v, at %v: %v, want %v", since, now, got, want)
		}
	}
	check(0, 0, false)
	m.Extend(100*ms, 1000*ms, 150*ms, 0.01)
	check(1000*ms, 1090*ms-1, true)
	check(1000*ms, 1090*ms, false)
	check(100*ms, 5000*ms, true)
	check(100*ms+1, 5000*ms, false)
	m.Extend(50*ms, 1000*ms, 200*ms, 0.01)
	check(100*ms, 5000*ms, true)
	m.Drop()
	check(300*ms, 300*ms, false)
	m.Extend(400*ms, 1000*ms, 500*ms, 0.01)
	check(400*ms, 500*ms, true)
	check(401*ms, 500*ms, false)
}

func TestPromisesCountOnlyEarlierTerms(t *testing.T) {
	p := NewPromises(10)
	if got := p.Before(1); got != 10 {
		t.Errorf("after the start: %d, want 10", got)
	}
	p.Stored(3, 20)
	p.Stored(3, 30)
	if got := p.Before(3); got != 10 {
		t.Errorf("own term counts: %d, want 10", got)
	}
	if got := p.Before(4); got != 30 {
		t.Errorf("for a successor: %d, want 30", got)
	}
	p.Stored(5, 40)
	if got := p.Before(5); got != 30 {
		t.Errorf("term 5 counts from %d, want 30", got)
	}
	p.Stored(4, 50) // term 5's suffix was never committed and is replaced
	if got := p.Before(5); got != 50 {
		t.Errorf("a lower term's late entry is forgotten: %d, want 50", got)
	}
	p.Restored(60)
	if got := p.Before(5); got != 60 {
		t.Errorf("a restore does not count: %d, want 60", got)
	}
	if got := p.Last(); got != 60 {
		t.Errorf("last promise at %d, want 60", got)
	}
}

// TestSuccessorOutwaitsLease runs lease and promise on two clocks that drift
// apart as far as the bound allows: whenever the successor may act, the lease
// is over in true time.
func TestSuccessorOutwaitsLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drift := rapid.Float64Range(0, 0.1).Draw(t, "drift")
		rate := func(name string) float64 { return 1 + drift*rapid.Float64Range(-1, 1).Draw(t, name) }
		masterRate, otherRate := rate("master"), rate("other")
		term := time.Duration(rapid.Int64Range(1, int64(MaxTerm)).Draw(t, "term"))
		proposed := float64(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "proposed"))
		stored := proposed + float64(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "delay"))

		var m Master
		p := time.Duration(proposed * masterRate)
		m.Extend(p, term, p, Drift(drift))
		promises := NewPromises(0)
		promises.Stored(1, time.Duration(stored*otherRate)+1)
		acts := float64(promises.Before(2)+Drift(drift).Long(term)) / otherRate
		if m.Valid(time.Duration(acts*masterRate) + 2) { // 2 ns: the rounding of the two clocks
			t.Fatalf("the lease still runs when the successor acts")
		}
	})
}

// TestClientLeaseEndsFirst runs the keepalive's arithmetic with clocks of
// different rates: the client's lease ends before the server may expire the
// session.
func TestClientLeaseEndsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drift := rapid.Float64Range(0, 0.1).Draw(t, "drift")
		rate := func(name string) float64 { return 1 + drift*rapid.Float64Range(-1, 1).Draw(t, name) }
		serverRate, clientRate := rate("server"), rate("client")
		ttl := time.Duration(rapid.Int64Range(int64(time.Second), int64(24*time.Hour)).Draw(t, "ttl"))
		transit := float64(rapid.Int64Range(0, int64(time.Second)).Draw(t, "transit"))
		held := float64(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "held"))

		// True time 0: the client sends. The server answers at transit + held.
		reported := Drift(drift).Held(time.Duration(held * serverRate))
		reported -= reported % ms // the wire carries whole milliseconds
		clientEnd := float64(reported+ttl) / clientRate
		serverEnd := transit + held + float64(Drift(drift).SessionSpan(ttl))/serverRate
		if clientEnd > serverEnd+2 {
			t.Fatalf("the client counts %v longer than the server", time.Duration(clientEnd-serverEnd))
		}
	})
}
