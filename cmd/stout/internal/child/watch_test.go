package child

import (
	"syscall"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	const ms = time.Millisecond
	type look struct {
		remaining time.Duration
		due       syscall.Signal
		nap       time.Duration
	}
	tests := map[string][]look{
		"plenty left":                       {{12000 * ms, 0, maxNap}, {11750 * ms, 0, maxNap}},
		"naps no longer than to the margin": {{2010 * ms, 0, 10 * ms}, {2000 * ms, syscall.SIGTERM, maxNap}},
		"told once, then killed":            {{1500 * ms, syscall.SIGTERM, maxNap}, {1400 * ms, 0, maxNap}, {1010 * ms, 0, 10 * ms}, {1000 * ms, syscall.SIGKILL, maxNap}},
		"killed once":                       {{500 * ms, syscall.SIGKILL, maxNap}, {0, 0, maxNap}},
		"gone while asleep":                 {{9000 * ms, 0, maxNap}, {0, syscall.SIGKILL, maxNap}},
		"far past the end":                  {{-time.Hour, syscall.SIGKILL, maxNap}},
		"renewed after told: left alone, not told again":  {{1500 * ms, syscall.SIGTERM, maxNap}, {12000 * ms, 0, maxNap}, {1900 * ms, 0, maxNap}},
		"renewed after told: killed if it runs low again": {{1500 * ms, syscall.SIGTERM, maxNap}, {12000 * ms, 0, maxNap}, {900 * ms, syscall.SIGKILL, maxNap}},
		"renewed after killed: too late":                  {{900 * ms, syscall.SIGKILL, maxNap}, {12000 * ms, 0, maxNap}},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			w := watch{Margins: DefaultMargins(12 * time.Second)}
			for i, l := range looks {
				due, nap := w.step(l.remaining)
				if due != l.due || nap != l.nap {
					t.Errorf("look %d with %v left: signal %d, nap %v; want %d, %v", i, l.remaining, due, nap, l.due, l.nap)
				}
			}
		})
	}
}

// After a revocation the command is asked at once and killed a kill margin
// later, once each, for any margins.
func TestWatchRevoked(t *testing.T) {
	const ttl = 12 * time.Second
	for _, margins := range []Margins{
		DefaultMargins(ttl),
		{Term: time.Second, Kill: time.Second},
		{Term: ttl / 4, Kill: 10 * time.Millisecond},
	} {
		w := watch{Margins: margins}
		if due, _ := w.step(ttl); due != 0 {
			t.Fatalf("%+v: signal %d before it was revoked", margins, due)
		}
		told, killed := time.Duration(-1), time.Duration(-1)
		for ago := time.Duration(0); ago < ttl; {
			due, nap := w.step(min(ttl, w.revoke(ago)))
			switch {
			case due == syscall.SIGTERM && told < 0:
				told = ago
			case due == syscall.SIGKILL && killed < 0:
				killed = ago
			case due != 0:
				t.Errorf("%+v: signal %d again after %v", margins, due, ago)
			}
			ago += nap
		}
		if told != 0 || killed != margins.Kill {
			t.Errorf("%+v: told after %v, killed after %v; want 0s, %v", margins, told, killed, margins.Kill)
		}
	}
}

// The watch never sleeps past one of its deadlines.
func TestWatchNeverLate(t *testing.T) {
	w := watch{Margins: DefaultMargins(time.Second)}
	var told, killed time.Duration
	for left := time.Second; killed == 0; {
		due, nap := w.step(left)
		switch due {
		case syscall.SIGTERM:
			told = left
		case syscall.SIGKILL:
			killed = left
		}
		if nap <= 0 {
			t.Fatalf("nap %v with %v left", nap, left)
		}
		left -= nap
	}
	if told != w.Term || killed != w.Kill {
		t.Errorf("told with %v left, killed with %v left; want %v, %v", told, killed, w.Term, w.Kill)
	}
}

func TestMarginsValidate(t *testing.T) {
	const ttl = 12 * time.Second
	tests := map[string]struct {
		margins Margins
		ok      bool
	}{
		"default":            {DefaultMargins(ttl), true},
		"no time between":    {Margins{Term: time.Second, Kill: time.Second}, true},
		"kill before term":   {Margins{Term: time.Second, Kill: 2 * time.Second}, false},
		"no kill margin":     {Margins{Term: time.Second}, false},
		"term too far ahead": {Margins{Term: ttl/4 + 1, Kill: time.Second}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.margins.Validate(ttl); (err == nil) != tt.ok {
				t.Errorf("got %v, want ok %v", err, tt.ok)
			}
		})
	}
}
