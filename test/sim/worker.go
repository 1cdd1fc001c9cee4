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

// program is the test program of package simcell, built through an overlay. It
// has the deliberate fault of this number, or none if 0.
type program struct {
	path  string
	fault int
}

// sizes make the write-ahead log so small that the few entries of a run
// sometimes fill it.
var sizes = []overlay.Edit{
	{File: "replica/wal/log.go", Old: "AreaBlocks  = 2048", New: "AreaBlocks  = 64"},
	{File: "replica/wal/log.go", Old: "FullEntries = 512", New: "FullEntries = 20"},
}

// foundation returns the overlay below every program, with or without faults.
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

// build builds the program under bin, with the given name.
func build(ctx context.Context, root, name string, o overlay.Overlay) (program, error) {
	p := program{path: filepath.Join(root, "bin", "simulated", name)}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return p, err
	}
	return p, overlay.Build(ctx, root, p.path, "./test/sim/simcell", o, overlay.Tag, "hashicorpmetrics")
}

// moduleRoot returns the directory of go.mod.
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
// It returns an error if there is no result: the process could not be started,
// or ctx ended it.
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
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it prints the stacks of its goroutines
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
	all := complaint.String() + said.String()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return report, story, err
	case err != nil && ctx.Err() == nil && hostFault(exit, all) != "":
		return report, story, fmt.Errorf("the process of seed %d died by a fault of the host: %s", lastSeed(complaint.Bytes()), hostFault(exit, all))
	case found && (err == nil) == (report.Failure == nil):
		return report, story, nil
	}
	// It died without a report: the product or the simulator panicked.
	why := "the process died: " + gist(all)
	if ctx.Err() != nil {
		why = errHung.Error()
	}
	report.Failure = &simcell.Failure{Seed: lastSeed(complaint.Bytes()), What: why}
	return report, all, nil
}

// hostFault returns the fault of the host that ended a process, or "": a full
// disk, or a signal, as the kernel sends when memory runs out. The product has
// no part in them: the Go runtime turns its own faults into an exit.
func hostFault(exit *exec.ExitError, said string) string {
	for _, text := range []string{syscall.ENOSPC.Error(), "[signal SIGBUS"} {
		if strings.Contains(said, text) {
			return text
		}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}

// scratch creates a directory for the simulated disks, in memory if the system
// has such a place: they need a few megabytes and many calls.
func scratch() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "stout-sim-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "stout-sim-")
}

// insist is run, repeated once if the process hangs. A run is a function of its
// seed. A hang that does not repeat is a fault of the simulator or of the
// runtime, not of the simulated cell. The summary counts it among the checks,
// and the goroutines' stacks are kept beside the program.
func (p program) insist(ctx context.Context, j job) (simcell.Report, string, error) {
	report, said, err := p.run(ctx, j)
	if err != nil || report.Failure == nil || report.Failure.What != errHung.Error() {
		return report, said, err
	}
	again, saidAgain, err := p.run(ctx, j)
	if err != nil || again.Failure != nil {
		return again, saidAgain, err
	}
	again.Add(simcell.Report{Stats: &simcell.Stats{Checks: map[string]int{"hung once": 1}}})
	name := fmt.Sprintf("hung-%d.txt", report.Failure.Seed)
	return again, saidAgain, os.WriteFile(filepath.Join(filepath.Dir(p.path), name), []byte(said), 0o644)
}

// errHung ends a process that stays at one seed for far too long.
var errHung = errors.New("the process hangs")

// patience is the processor time that one seed may take.
var patience = func(j job) time.Duration {
	return 3*time.Minute + time.Duration(j.steps)*200*time.Millisecond
}

// lookout collects the error output of a process, which has a line for each
// seed. It raises the alarm when no more lines come, although the process had
// enough processor time or is idle. On a busy machine a sound process may get
// little processor time.
type lookout struct {
	bytes.Buffer
	patience time.Duration
	alarm    func()

	mu     sync.Mutex
	timer  *time.Timer
	spent  func() (time.Duration, bool) // processor time of the process; false if unknown
	looked time.Duration                // that time at the last look
	since  time.Duration                // and at the last line
}

// watch observes the process until leave is called.
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

// spent returns the processor time of a process; false without /proc.
func spent(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := strings.Cut(string(stat), ") ") // its name may have blanks
	fields := strings.Fields(after)
	if err != nil || !found || len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // the same for every program, in any kernel
	return time.Duration(user+system) * tick, errors.Join(err, err2) == nil
}

// split finds the report in the output of a process; the rest is the story.
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

// lastSeed returns the seed under way when a process died.
func lastSeed(complaint []byte) (seed uint64) {
	for line := range strings.Lines(string(complaint)) {
		if n, ok := strings.CutPrefix(line, "seed "); ok {
			seed, _ = strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		}
	}
	return seed
}

// gist returns the line with the cause of a process's death.
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
