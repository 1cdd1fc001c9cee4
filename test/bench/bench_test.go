package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

func TestParse(t *testing.T) {
	s, err := parse(strings.Fields("cycle --n 1,8 --via sdk,http --rate 100,200.5 --stoutd-arg=--a=b,c --ttl 3s read"), io.Discard)
	must(t, err)
	if !slices.Equal(s.works, []string{"cycle", "read"}) || !slices.Equal(s.sessions, []int{1, 8}) ||
		!slices.Equal(s.rates, []float64{100, 200.5}) || !slices.Equal(s.stoutdArgs, []string{"--a=b,c"}) || s.ttl != 3*time.Second {
		t.Errorf("%+v", s)
	}
	for _, args := range [][]string{nil, {"all"}} {
		if s, err := parse(args, io.Discard); err != nil || !slices.Equal(s.works, names(usual)) || slices.Contains(s.works, "return") {
			t.Errorf("%q: works %q, %v; want %q", args, s.works, err, names(usual))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"cycles":                      `unknown work "cycles"`,
		"cycle --n 0":                 "at least 1",
		"handover --n 1":              "at least 2",
		"--via grpc":                  `"grpc"`,
		"--rate 0":                    "--rate 0:",
		"--rate=-1":                   "--rate -1:",
		"--rate NaN":                  "--rate NaN:",
		"--runs 0":                    "--runs 0",
		"--duration 0s":               "--duration",
		"--ttl 10ms":                  "--ttl 10ms:",
		"--server http://a --dir x":   "not to one given by --server",
		"failover --server http://a":  "leave --server out",
		"return --server http://a":    "leave --server out",
		"read --secure --server http": "not to one given by --server",
		"secured --secure":            "leave --secure",
		"read --rules 10":             "--rules 10:",
		"idle --clients -1":           "--clients -1:",
		"handover --via door":         "handover does not go through the door",
		"get --via door --server x":   "--via door applies to a cell that bench starts",
		"read --no-such-flag":         "no-such-flag",
		"cycle --n 0 --ttl 1ms --n x": "invalid argument",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want an error with %q", args, err, want)
		}
	}
	var help strings.Builder
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(help.String(), "hand") {
		t.Errorf("--help: %v, %q", err, help.String())
	}
}

// queue is a lock with a queue of waiters, and its sessions.
type queue struct {
	tokens chan uint64 // holds the next token while the lock is free
	stuck  bool        // it always grants the same token
}

type queuer struct {
	target.Session // without files
	q              *queue
	token          uint64
}

func (s *queuer) Lock(ctx context.Context, _ string) (uint64, error) {
	select {
	case s.token = <-s.q.tokens:
		time.Sleep(3 * time.Millisecond) // until the grant is known here
		return s.token, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *queuer) TryLock(ctx context.Context, path string) (uint64, error) { return s.Lock(ctx, path) }

func (s *queuer) Unlock(context.Context) error {
	time.Sleep(2 * time.Millisecond) // until the release takes effect
	next := s.token + 1
	if s.q.stuck {
		next = s.token
	}
	s.q.tokens <- next
	return nil
}

func (s *queuer) Close(context.Context) error { return nil }

func handovers(t *testing.T, q *queue) *load.Result {
	b := &baton{path: "/x"}
	var steps []load.Step
	for range 4 {
		steps = append(steps, b.step(&queuer{q: q}))
	}
	r, err := load.Plan{Warmup: time.Second, Duration: 10 * time.Second, Drain: time.Second}.Run(t.Context(), steps, load.Hooks{})
	must(t, err)
	return r
}

// TestHandoverLatency: a hand-over takes from the call of the release until the
// next holder knows, however long that holder had waited; all waiters get their
// turns.
func TestHandoverLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{tokens: make(chan uint64, 1)}
		q.tokens <- 1
		r := handovers(t, q)
		if got := r.Quantile(0.5); got < 4900*time.Microsecond || got > 5100*time.Microsecond {
			t.Errorf("a hand-over takes %v, want 2ms + 3ms", got)
		}
		if got := r.Rate(); got < 199 || got > 201 {
			t.Errorf("%.1f hand-overs per second, want 200", got)
		}
		if r.Errors != 0 || slices.Max(r.PerWorker)-slices.Min(r.PerWorker) > 1 {
			t.Errorf("%d errors (%v), per waiter %v", r.Errors, r.FirstError, r.PerWorker)
		}
	})
}

// TestHandoverChecksTokens: a cell that grants a token twice is detected.
func TestHandoverChecksTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{tokens: make(chan uint64, 1), stuck: true}
		q.tokens <- 1
		if r := handovers(t, q); r.Errors == 0 || !strings.Contains(r.FirstError.Error(), "token 1 was granted after token 1") {
			t.Errorf("%d errors, the first %v", r.Errors, r.FirstError)
		}
	})
}

func TestLongestGap(t *testing.T) {
	at := func(ms ...int) (out []time.Time) {
		for _, m := range ms {
			out = append(out, time.Unix(0, 0).Add(time.Duration(m)*time.Millisecond))
		}
		return out
	}
	p := &prober{successes: at(0, 300, 305, 310, 318, 1400, 1405)}
	for _, test := range []struct {
		killed int
		want   time.Duration
	}{
		{311, 1082 * time.Millisecond}, // 318 was on its way when the master died
		{320, 1082 * time.Millisecond},
		{1401, 5 * time.Millisecond},
		{2000, 0},
	} {
		if got := longestGap(p.since(at(test.killed)[0])); got != test.want {
			t.Errorf("killed at %d ms: gap %v, want %v", test.killed, got, test.want)
		}
	}
}

func TestSpent(t *testing.T) {
	sample := func(master string, cpu ...int) target.Sample {
		s := target.Sample{Master: master, Replicas: map[string]target.Usage{}}
		for i, c := range cpu {
			s.Replicas["r"+string(rune('1'+i))] = target.Usage{CPU: time.Duration(c) * time.Second}
		}
		return s
	}
	cell, master, ok := spent(sample("r2", 1, 10, 2), sample("r2", 2, 14, 4))
	if !ok || cell != 7*time.Second || master != 4*time.Second {
		t.Errorf("cell %v, master %v, %v; want 7s and 4s", cell, master, ok)
	}
	for name, pair := range map[string][2]target.Sample{
		"another master":    {sample("r1", 1, 1), sample("r2", 2, 2)},
		"a restart":         {sample("r1", 5, 5), sample("r1", 6, 1)},
		"a replica came up": {sample("r1", 5), sample("r1", 6, 1)},
		"nothing was known": {target.Sample{}, target.Sample{}},
	} {
		if _, _, ok := spent(pair[0], pair[1]); ok {
			t.Errorf("%s: the samples are compared", name)
		}
	}
}
