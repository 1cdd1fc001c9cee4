package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/test/chaos/internal/nemesis"
)

type settings struct {
	duration time.Duration // of the faults
	sizes    []int
	seed     uint64
	faults   []string
	sdk, raw int // clients that use locks
	files    int // clients that write files
	door     int // clients that use keys through the door for Consul's clients
	epoch    time.Duration
	within   time.Duration // longest time for a grant
	patience time.Duration // of the checker, for each path
	stoutd   string
	dir      string
	keep     bool
	recheck  string
}

// parse reads the command line. It returns pflag.ErrHelp after showing the
// help.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := pflag.NewFlagSet("chaos", pflag.ContinueOnError)
	f.SetOutput(stderr)
	f.SortFlags = false
	f.Usage = func() { usage(stderr, f) }
	f.DurationVar(&s.duration, "duration", time.Minute, "how long each cell is under faults")
	f.IntSliceVar(&s.sizes, "size", []int{3, 5}, "replicas of each cell; several cells run one after the other")
	f.Uint64Var(&s.seed, "seed", 0, "seed of the faults and of the clients' choices (default: from the time)")
	f.StringSliceVar(&s.faults, "faults", nil, "kinds of faults (default: every kind that fits the cell)")
	f.IntVar(&s.sdk, "sdk", 4, "clients that lock with the SDK")
	f.IntVar(&s.raw, "http", 4, "clients that lock with plain HTTP")
	f.IntVar(&s.files, "files", 4, "clients that write files, half of them with the SDK")
	f.IntVar(&s.door, "door", 3, "clients that use keys through the door for Consul's clients; 0 leaves the door shut")
	f.DurationVar(&s.epoch, "epoch", 8*time.Second, "how long the clients use the same locks and sessions")
	f.DurationVar(&s.within, "grant-within", 2*time.Second, "longest time for a grant while a majority of the replicas is healthy")
	f.DurationVar(&s.patience, "patience", time.Minute, "longest time of the checker for one lock")
	f.StringVar(&s.stoutd, "stoutd", "", "the stoutd to run (default: built from the sources, with fault points)")
	f.StringVar(&s.dir, "dir", "", "parent of the runs' directories (default: the system's temporary directory)")
	f.BoolVar(&s.keep, "keep", false, "keep the directory even if the run finds no problem")
	f.StringVar(&s.recheck, "check", "", "only check this history.json of an earlier run")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	return s, s.validate(f.Args())
}

func usage(w io.Writer, f *pflag.FlagSet) {
	fmt.Fprintf(w, "Usage: chaos [flags]\n\nFaults:\n")
	names := nemesis.Names()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(w, "  %-15s %s\n", name, names[name])
	}
	fmt.Fprintf(w, "\nFlags:\n%s", f.FlagUsages())
}

func (s *settings) validate(rest []string) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(rest) > 0 {
		bad("unexpected argument %q: chaos takes flags only", rest)
	}
	for _, n := range s.sizes {
		if n < 3 || n > 9 {
			bad("--size %d: a cell has 3 to 9 replicas", n)
		}
	}
	for _, name := range s.faults {
		if _, known := nemesis.Names()[name]; !known {
			bad("--faults: unknown fault %q; known are %s", name, strings.Join(slices.Sorted(maps.Keys(nemesis.Names())), ", "))
		}
	}
	if s.sdk < 0 || s.raw < 0 || s.sdk+s.raw < 2 {
		bad("--sdk %d and --http %d: want at least two clients together", s.sdk, s.raw)
	}
	if s.files < 0 || s.door < 0 {
		bad("--files %d and --door %d: want at least 0", s.files, s.door)
	}
	if s.duration <= 0 || s.epoch < time.Second || s.patience <= 0 || s.within <= 0 {
		bad("--duration, --patience and --grant-within must be above 0, and --epoch at least 1s")
	}
	return errors.Join(errs...)
}

// does reports whether the run uses a kind of fault.
func (s *settings) does(fault string) bool {
	return len(s.faults) == 0 || slices.Contains(s.faults, fault)
}

// command returns the command that runs one cell again with the same seed.
func (s *settings) command(size int) string {
	args := fmt.Sprintf("--seed %d --size %d --duration %v", s.seed, size, s.duration)
	if len(s.faults) > 0 {
		args += " --faults " + strings.Join(s.faults, ",")
	}
	return fmt.Sprintf("make chaos ARGS=%q", args)
}
