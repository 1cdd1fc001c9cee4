package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

type settings struct {
	works    []string
	sessions []int // of every work; empty: each work's own
	programs int   // that share the sessions of idle and return; 0: each work's own number
	via      []string
	rates    []float64 // of open loops; empty: closed loop
	runs     int
	warmup   time.Duration
	duration time.Duration
	drain    time.Duration
	kills    int
	watches  int // of each client of fanout
	ttl      time.Duration
	timeout  time.Duration

	servers    []string
	stoutd     string
	stoutdArgs []string
	dir        string
	secure     bool
	access     bool
	rules      int

	json string
}

// drainTime bounds late operations after a run's window.
const drainTime = 10 * time.Second

// parse reads the command line. It returns pflag.ErrHelp after showing the
// help.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{drain: drainTime}
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.SetOutput(stderr)
	f.SortFlags = false
	f.Usage = func() { usage(stderr, f) }
	f.IntSliceVar(&s.sessions, "n", nil, "numbers of sessions, such as 1,8,64 (default: each work's own)")
	f.IntVar(&s.programs, "clients", 0, "clients that share the sessions of idle and return (default: one per session of idle, one for all of return)")
	f.StringSliceVar(&s.via, "via", []string{target.SDK}, "how to call, such as sdk,http: sdk, http, or door (as Consul's clients)")
	f.Float64SliceVar(&s.rates, "rate", nil, "open loop: operations per second, one or more rates (default: closed loop)")
	f.IntVar(&s.runs, "runs", 3, "runs of each measurement")
	f.DurationVar(&s.warmup, "warmup", 2*time.Second, "unmeasured load before each run")
	f.DurationVar(&s.duration, "duration", 5*time.Second, "measured time of each run")
	f.IntVar(&s.kills, "kills", 10, "kills of the work failover")
	f.IntVar(&s.watches, "watches", 1, "watches of each client of the work fanout")
	f.DurationVar(&s.ttl, "ttl", 12*time.Second, "ttl of the sessions")
	f.DurationVar(&s.timeout, "timeout", time.Hour, "time limit for the whole program")
	f.StringSliceVar(&s.servers, "server", nil, "base URLs of a running cell's replicas (default: start a cell)")
	f.StringVar(&s.stoutd, "stoutd", "", "the stoutd to start (default: built from the sources)")
	f.StringArrayVar(&s.stoutdArgs, "stoutd-arg", nil, "an additional flag of stoutd, such as --stoutd-arg=--master-lease=2s; may be repeated")
	f.StringVar(&s.dir, "dir", "", "data directory of the started cell; it is kept (default: a temporary one)")
	f.BoolVar(&s.secure, "secure", false, "start a cell with TLS for clients and between replicas")
	f.BoolVar(&s.access, "access", false, "start a cell with access control; calls send a token")
	f.IntVar(&s.rules, "rules", 0, "access rules in that cell and in the cell of the work secured, plus one group per ten rules")
	f.StringVar(&s.json, "json", "", "write the results to this file")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	s.works = f.Args()
	if len(s.works) == 0 || slices.Equal(s.works, []string{"all"}) {
		s.works = names(usual)
	}
	return s, s.validate()
}

func usage(w io.Writer, f *pflag.FlagSet) {
	fmt.Fprintf(w, "Usage: bench [flags] [work…]\n\nWorks (default: all before secured):\n")
	for _, k := range works {
		fmt.Fprintf(w, "  %-9s %s\n", k.name, k.about)
	}
	fmt.Fprintf(w, "\nFlags:\n%s", f.FlagUsages())
}

func (s *settings) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range s.works {
		if findWork(name) == nil {
			bad("unknown work %q; known are %s", name, strings.Join(names(works), ", "))
		}
	}
	for _, n := range s.sessions {
		if n < 1 {
			bad("--n %d: want at least 1 session", n)
		}
		if n < 2 && slices.Contains(s.works, "handover") {
			bad("--n %d: handover needs at least 2 sessions", n)
		}
	}
	if s.programs < 0 {
		bad("--clients %d: want at least 1, or 0 for the default", s.programs)
	}
	for _, v := range s.via {
		if v != target.SDK && v != target.HTTP && v != target.Door {
			bad("--via %q: want %q, %q or %q", v, target.SDK, target.HTTP, target.Door)
		}
		if v == target.Door {
			s.validateDoor(bad)
		}
	}
	for _, r := range s.rates {
		if !(r > 0 && r <= 1e6) {
			bad("--rate %v: want a rate above 0 and at most a million per second", r)
		}
	}
	if s.runs < 1 || s.kills < 1 {
		bad("--runs %d and --kills %d: want at least 1 of each", s.runs, s.kills)
	}
	if s.watches < 1 {
		bad("--watches %d: want at least 1", s.watches)
	}
	if s.warmup < 0 || s.duration <= 0 || s.timeout <= 0 {
		bad("--duration and --timeout must be above 0, and --warmup not negative")
	}
	if s.ttl < time.Second || s.ttl > 24*time.Hour {
		bad("--ttl %v: want 1s to 24h", s.ttl)
	}
	if len(s.servers) > 0 && (s.stoutd != "" || len(s.stoutdArgs) > 0 || s.dir != "") {
		bad("--stoutd, --stoutd-arg and --dir apply to a cell that bench starts, not to one given by --server")
	}
	if len(s.servers) > 0 && (slices.Contains(s.works, "failover") || slices.Contains(s.works, "return")) {
		bad("failover and return kill replicas of a cell that bench starts: leave --server out, or name the other works")
	}
	if (s.secure || s.access) && len(s.servers) > 0 {
		bad("--secure and --access apply to a cell that bench starts, not to one given by --server")
	}
	secured := slices.Contains(s.works, "secured")
	if secured && (s.secure || s.access || len(s.servers) > 0) {
		bad("secured starts and compares a plain cell and one with TLS and access control: leave --secure, --access and --server out")
	}
	if s.rules < 0 || s.rules > 0 && !s.access && !secured {
		bad("--rules %d: want at least 0, and --access or the work secured", s.rules)
	}
	return errors.Join(errs...)
}

// validateDoor refuses what cannot be measured at the door.
func (s *settings) validateDoor(bad func(string, ...any)) {
	if len(s.servers) > 0 {
		bad("--via door applies to a cell that bench starts, not to one given by --server")
	}
	for _, name := range s.works {
		if k := findWork(name); k != nil && !k.atDoor {
			bad("%s does not go through the door: leave --via door out", name)
		}
	}
}

// numbers returns the requested numbers of sessions, or else a work's own.
func (s *settings) numbers(own ...int) []int {
	if len(s.sessions) == 0 {
		return own
	}
	return s.sessions
}

// each calls do for every way to call and every number of sessions.
func (s *settings) each(own []int, do func(via string, n int) error) error {
	for _, via := range s.via {
		for _, n := range s.numbers(own...) {
			if err := do(via, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan returns the plan of one run at the given rate; 0 means a closed loop.
func (s *settings) plan(rate float64) load.Plan {
	return load.Plan{Warmup: s.warmup, Duration: s.duration, Drain: s.drain, Rate: rate}
}

// ratesOrClosed returns the requested rates, or else a single 0.
func (s *settings) ratesOrClosed() []float64 {
	if len(s.rates) == 0 {
		return []float64{0}
	}
	return s.rates
}
