package overlay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// bubble builds the program in testdata/bubble, once.
var bubble = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	out := filepath.Join(root, "bin", "test-sim", "bubble.test")
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	o, err := Runtime(context.Background())
	if err != nil {
		return "", err
	}
	return out, Build(context.Background(), root, out, "./test/internal/overlay/testdata/bubble", o, Tag)
})

// run runs one test of the program and returns its output.
func run(t *testing.T, env []string, test string, args ...string) (string, error) {
	t.Helper()
	program, err := bubble()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-test.run", "^" + test + "$"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// hashes runs the program and collects the hashes of the traces by seed and
// kind of line. There may be several.
func hashes(t *testing.T, into map[[2]string]map[string]bool, env []string, args ...string) {
	t.Helper()
	out, err := run(t, env, "TestRun", args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "hash" {
			continue
		}
		key := [2]string{f[1], f[2]}
		if into[key] == nil {
			into[key] = map[string]bool{}
		}
		into[key][f[3]] = true
	}
}

// TestSameSeedSameRun runs seeds first, last and after one another in a
// process. It runs them beside goroutines on the real clock, with a collector
// that would run all the time, and on a busy machine.
func TestSameSeedSameRun(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	busy(t)
	got := map[[2]string]map[string]bool{}
	for range 2 {
		hashes(t, got, nil, "-seeds", "1,2,1")
		hashes(t, got, nil, "-seeds", "2,1")
		hashes(t, got, []string{"GOGC=2", "MORE=environment"}, "-seeds", "1,2", "-beside")
		hashes(t, got, []string{"GODEBUG=gctrace=1"}, "-seeds", "2,1,2", "-beside")
	}
	for key, runs := range got {
		if len(runs) != 1 {
			t.Errorf("seed %s had %d runs with different lines %q", key[0], len(runs), key[1])
		}
	}
	if len(got) < 2*15 {
		t.Errorf("only %d kinds of lines", len(got)/2)
	}
}

// busy keeps every processor busy until the test ends.
func busy(t *testing.T) {
	for range runtime.NumCPU() {
		go func() {
			for t.Context().Err() == nil {
				for range 1_000_000 {
				}
			}
		}()
	}
}

// TestSeedsDiffer checks that each of the streams follows the seed.
func TestSeedsDiffer(t *testing.T) {
	got := map[[2]string]map[string]bool{}
	hashes(t, got, nil, "-seeds", "1,2,3,4")
	for _, kind := range []string{"select", "timer", "lock", "yield", "context-after", "map-own", "map-few", "number", "old-number", "text", "file"} {
		seen := map[string]bool{}
		for _, seed := range []string{"1", "2", "3", "4"} {
			for h := range got[[2]string{seed, kind}] {
				seen[h] = true
			}
		}
		if len(seen) < 2 {
			t.Errorf("all seeds have the same lines %q", kind)
		}
	}
}

// TestWithoutSeed checks that without a seed only what must be fixed is fixed.
func TestWithoutSeed(t *testing.T) {
	got := map[[2]string]map[string]bool{}
	hashes(t, got, nil, "-seeds", "0,0,0")
	for _, kind := range []string{"select", "timer", "map-own", "number", "old-number", "text", "file"} {
		if n := len(got[[2]string{"0", kind}]); n != 3 {
			t.Errorf("3 runs without a seed have %d different sets of lines %q", n, kind)
		}
	}
}

func TestOutsideTheBubble(t *testing.T) {
	for _, test := range []string{"TestOutside", "TestProcessors"} {
		if out, err := run(t, nil, test); err != nil {
			t.Errorf("%s: %v\n%s", test, err, out)
		}
	}
}

// TestHangIsSeen checks that the time-out ends the program even if a bubble
// hangs.
func TestHangIsSeen(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	out, err := run(t, nil, "TestHang", "-test.timeout", "1s")
	if err == nil || !strings.Contains(out, "panic: test timed out") {
		t.Errorf("%v\n%s", err, out)
	}
}
