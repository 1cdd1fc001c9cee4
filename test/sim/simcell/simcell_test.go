//go:build simulated

package simcell

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stoutlock/stout/test/internal/overlay/seed"
)

var (
	first = flag.Uint64("seed", 1, "the first seed")
	count = flag.Uint64("seeds", 1, "how many seeds")
	steps = flag.Int("steps", 300, "steps of each")
	skew  = flag.Float64("skew", 1, "how far clocks drift, as a multiple of the bound")
	acl   = flag.Bool("access", false, "whether access is on in every run")
	comes = flag.Bool("members", false, "whether members come and go in every run")
	named = flag.String("profile", "", "the special profile of every run")
	story = flag.Bool("story", false, "print the story of the run")
	disks = flag.String("disks", "", "an empty directory for the machines' disks")
)

// TestSeeds runs seeds until one fails, and prints one Report as JSON.
func TestSeeds(t *testing.T) {
	var out Report
	// The first run fills the libraries' caches and does not count.
	run(t, Options{Seed: 1 << 40, Steps: 5, Skew: 1, Access: true, Dir: *disks}, &Report{})
	for s := *first; s < *first+*count; s++ {
		run(t, Options{Seed: s, Steps: *steps, Skew: *skew, Access: *acl, Members: *comes, Profile: *named, Trace: *story, Dir: *disks}, &out)
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

// run runs one seed in a bubble of its own. A broken promise exits the program
// from inside, since a world with a broken promise can't be stopped cleanly.
func run(t *testing.T, o Options, out *Report) {
	fmt.Fprintf(os.Stderr, "seed %d\n", o.Seed)
	seed.Set(o.Seed + 1)
	defer func() {
		seed.Set(0)
		left := recover()
		if left != nil && !strings.Contains(fmt.Sprint(left), "blocked goroutines remain") {
			panic(left)
		}
		if stuck := leaks(); left != nil && stuck != "" {
			t.Fatalf("seed %d leaves goroutines:\n%s", o.Seed, stuck)
		}
		runtime.GC()
	}()
	synctest.Test(t, func(*testing.T) {
		for _, line := range Run(o, out) {
			fmt.Println(line)
		}
		if out.Failure != nil {
			_ = json.NewEncoder(os.Stdout).Encode(out)
			os.Exit(1)
		}
	})
}

// leaks reports goroutines left by bubbles. It excludes goroutines that wait
// for an answer of the library, or in it for the end of a transfer, since the
// library forgets some (hashicorp/raft #498, #696).
func leaks() string {
	buf := make([]byte, 4<<20)
	var out strings.Builder
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		forgotten := strings.Contains(stack, "raft.(*deferError).Error") || strings.Contains(stack, "raft.(*Raft).leaderLoop")
		if strings.Contains(stack, "synctest bubble") && !forgotten {
			out.WriteString(stack + "\n\n")
		}
	}
	return out.String()
}
