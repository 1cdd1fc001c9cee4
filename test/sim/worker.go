package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/fault"
	"github.com/stoutlock/stout/test/sim/simcell"
)

// program is the test program of package simcell, built through an overlay, with
// the deliberate fault of this number in it; 0 for none.
type program struct {
	path  string
	fault int
}

// sizes make the write-ahead log so small that it is full now and then with the
// few entries of a run.
var sizes = []overlay.Edit{
	{File: "replica/wal/log.go", Old: "AreaBlocks  = 2048", New: "AreaBlocks  = 64"},
	{File: "replica/wal/log.go", Old: "FullEntries = 512", New: "FullEntries = 20"},
}

// foundation is what every program is built over, whatever its faults.
func foundation(ctx context.Context, root string) (overlay.Overlay, error) {
	o, err := overlay.Runtime(ctx)
	if err != nil {
		return o, err
	}
	for _, e := range sizes {
		if o, err = overlay.Mutated(o, root, e); err != nil {
			return o, err
		}
	}
	return overlay.Noted(ctx, root, o)
}

// build builds it under bin, with the given name.
func build(ctx context.Context, root, name string, o overlay.Overlay) (program, error) {
	p := program{path: filepath.Join(root, "bin", "simulated", name)}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return p, err
	}
	return p, overlay.Build(ctx, root, p.path, "./test/sim/simcell", o, overlay.Tag, "hashicorpmetrics")
}

// moduleRoot is the directory of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	name := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(name) != "go.mod" {
		return "", errors.New("the simulator builds itself from its sources: run it inside the module")
	}
	return filepath.Dir(name), nil
}

// job is a row of seeds to run.
type job struct {
	seed, seeds uint64
	steps       int
	skew        float64
	access      bool
	members     bool
	profile     string
	story       bool
}

// run runs a row of seeds in a process of its own, up to the first that fails.
// The error is for what is no result: a process that could not be started, or
// was ended by ctx.
func (p program) run(ctx context.Context, j job) (simcell.Report, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	disks, err := scratch()
	if err != nil {
		return simcell.Report{}, "", err
	}
	defer os.RemoveAll(disks)
	cmd := exec.CommandContext(ctx, p.path, "-test.run=^TestSeeds$", "-test.timeout=0",
		"-seed="+strconv.FormatUint(j.seed, 10), "-seeds="+strconv.FormatUint(j.seeds, 10),
		"-steps="+strconv.Itoa(j.steps), "-skew="+strconv.FormatFloat(j.skew, 'g', -1, 64),
		"-access="+strconv.FormatBool(j.access), "-members="+strconv.FormatBool(j.members), "-profile="+j.profile, "-story="+strconv.FormatBool(j.story), "-disks="+disks)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("%s=%d", fault.Env, p.fault))
	complaint := lookout{patience: patience(j), alarm: func() { cancel(errHung) }}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it tells where its goroutines are
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Start(); err != nil {
		return simcell.Report{}, "", err
	}
	leave := complaint.watch(func() (time.Duration, bool) { return spent(cmd.Process.Pid) })
	err = cmd.Wait()
	leave()
	if ctx.Err() != nil && context.Cause(ctx) != errHung {
		return simcell.Report{}, "", ctx.Err()
	}
	report, story, found := split(said.Bytes())
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return report, story, err
	case found && (err == nil) == (report.Failure == nil):
		return report, story, nil
	}
	// It died without a report: a panic of the product or of the simulator.
	why := "the process died: " + gist(complaint.String()+said.String())
	if ctx.Err() != nil {
		why = errHung.Error()
	}
	report.Failure = &simcell.Failure{Seed: lastSeed(complaint.Bytes()), What: why}
	return report, complaint.String() + said.String(), nil
}

// scratch makes a directory for the simulated disks: in memory where the system
// has such a place, since they need a few megabytes and many calls.
func scratch() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "stout-sim-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "stout-sim-")
}

// insist is run, once more where the process hangs. A run is a function of its
// seed: what hangs once and then does not is a fault of the simulator or of the
// runtime, not of the simulated cell. The summary counts it among the checks,
// and where the goroutines were is kept beside the program.
func (p program) insist(ctx context.Context, j job) (simcell.Report, string, error) {
	report, said, err := p.run(ctx, j)
	if err != nil || report.Failure == nil || report.Failure.What != errHung.Error() {
		return report, said, err
	}
	again, saidAgain, err := p.run(ctx, j)
	if err != nil || again.Failure != nil {
		return again, saidAgain, err
	}
	again.Add(simcell.Report{Stats: &simcell.Stats{Checks: map[string]int{"hung, and not again": 1}}})
	name := fmt.Sprintf("hung-%d.txt", report.Failure.Seed)
	return again, saidAgain, os.WriteFile(filepath.Join(filepath.Dir(p.path), name), []byte(said), 0o644)
}

// errHung ends a process that stays at one seed for far longer than that needs.
var errHung = errors.New("the process hangs")

// patience is how long one seed may take of a processor.
var patience = func(j job) time.Duration {
	return 3*time.Minute + time.Duration(j.steps)*200*time.Millisecond
}

// lookout collects what a process complains of, where each seed has a line, and
// raises the alarm when no more comes, although the process had the time for it or
// does nothing: on a busy machine one that is well may get little of a processor.
type lookout struct {
	bytes.Buffer
	patience time.Duration
	alarm    func()

	mu     sync.Mutex
	timer  *time.Timer
	spent  func() (time.Duration, bool) // by the process; false where nobody knows
	looked time.Duration                // what it had spent at the last look
	since  time.Duration                // and at the last line
}

// watch looks after the process until leave is called.
func (l *lookout) watch(spent func() (time.Duration, bool)) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent = spent
	l.timer = time.AfterFunc(l.patience, l.look)
	return func() { l.timer.Stop() }
}

func (l *lookout) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.spent()
	idle := now-l.looked < l.patience/1000
	if l.looked = now; !known || idle || now-l.since > l.patience*3/4 {
		l.alarm()
		return
	}
	l.timer.Reset(l.patience)
}

func (l *lookout) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.looked, _ = l.spent()
		l.since = l.looked
		l.timer.Reset(l.patience)
	}
	return l.Buffer.Write(p)
}

// spent is the processors' time that a process has taken, where there is a /proc.
func spent(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := strings.Cut(string(stat), ") ") // its name may have blanks
	fields := strings.Fields(after)
	if err != nil || !found || len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // as for every program, whatever the kernel counts in
	return time.Duration(user+system) * tick, errors.Join(err, err2) == nil
}

// split finds the report among what a process has printed; the rest is the
// story.
func split(said []byte) (report simcell.Report, story string, found bool) {
	var rest strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(said))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasPrefix(line, []byte(`{"`)) && json.Unmarshal(line, &report) == nil {
			found = true
		} else if !bytes.Equal(line, []byte("PASS")) {
			rest.Write(append(line, '\n'))
		}
	}
	return report, rest.String(), found
}

// lastSeed is the seed that a process was at when it died.
func lastSeed(complaint []byte) (seed uint64) {
	for line := range strings.Lines(string(complaint)) {
		if n, ok := strings.CutPrefix(line, "seed "); ok {
			seed, _ = strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		}
	}
	return seed
}

// gist is the line that says why a process died.
func gist(text string) string {
	for line := range strings.Lines(text) {
		for _, begin := range []string{"panic:", "fatal error:", "    world_test.go"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return "it gave no reason"
}
