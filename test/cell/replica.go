package cell

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
)

// Replica is one member of a cell: a data directory, two ports, and a process
// while it runs. Its methods are safe for concurrent use.
type Replica struct {
	ID       string
	URL      string // base URL of its API, without any proxy
	Door     string // base URL of its door for Consul's clients, with Options.Door
	RaftAddr string // Raft address that it listens on
	DataDir  string
	LogFile  string // output of its processes, one run after the other

	binary string
	args   []string
	env    []string
	via    *http.Client // for calls to it

	mu      sync.Mutex
	process *process // the latest run; nil before the first
	paused  bool
}

// Program returns a replica of another program, with that command line. Only
// its process can be used: it has no API.
func Program(id, logFile, binary string, args ...string) *Replica {
	return &Replica{ID: id, LogFile: logFile, binary: binary, args: args}
}

// Addr is the host and port of its API.
func (r *Replica) Addr() string {
	_, addr, _ := strings.Cut(r.URL, "://")
	return addr
}

// AuditLog returns the file of its audit log, with Options.Audit.
func (r *Replica) AuditLog() string { return r.DataDir + ".audit.log" }

// Start starts the replica's process, and fails if one is running. It does not
// wait until the replica serves.
func (r *Replica) Start() error { return r.StartWith() }

// StartWith is Start with additional arguments for this run only.
func (r *Replica) StartWith(args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.running() {
		return fmt.Errorf("replica %s is already running", r.ID)
	}
	cmd := exec.Command(r.binary, append(append([]string{}, r.args...), args...)...)
	cmd.Env = append(plainEnvironment(), r.env...)
	p, err := launch(cmd, r.LogFile)
	if err != nil {
		return fmt.Errorf("replica %s: %w", r.ID, err)
	}
	r.process, r.paused = p, false
	return nil
}

// HoldLog stops reading the running process's standard output and error; on
// Linux their pipe is full from then on. FreeLog, or the end of the process,
// resumes reading, and the log is then complete.
func (r *Replica) HoldLog() {
	if p := r.latest(); p != nil {
		p.hold()
	}
}

// FreeLog ends HoldLog.
func (r *Replica) FreeLog() {
	if p := r.latest(); p != nil {
		p.free()
	}
}

// FaultFile returns the file of orders for its fault points, with
// Options.FaultPoints; see package faultpoint.
func (r *Replica) FaultFile() string { return r.DataDir + ".faults" }

// plainEnvironment returns this program's environment without settings of
// stoutd.
func plainEnvironment() []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "STOUTD_") && !strings.HasPrefix(line, faultpoint.Variable+"=") {
			env = append(env, line)
		}
	}
	return env
}

// Use makes the next Start run another release's stoutd.
func (r *Replica) Use(binary string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binary = binary
}

// Command returns the command line that Start runs.
func (r *Replica) Command() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{r.binary}, r.args...)
}

// Kill ends the process like kill -9 and returns when it has ended. It returns
// nil if no process is running.
func (r *Replica) Kill() error {
	p := r.latest()
	if p == nil || !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && p.running() {
		return fmt.Errorf("kill replica %s: %w", r.ID, err)
	}
	<-p.exited // the kernel never refuses a SIGKILL
	return nil
}

// Pause stops the process with SIGSTOP: it keeps its ports and connections, and
// does nothing until Continue. On Linux every thread has stopped when Pause
// returns; elsewhere the last ones may stop a little later.
func (r *Replica) Pause() error {
	if err := r.setPaused(true, syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pid := r.PID()
	return Wait(ctx, "replica "+r.ID+" has stopped", func(context.Context) error { return stopped(pid) })
}

// Continue resumes a paused process.
func (r *Replica) Continue() error { return r.setPaused(false, syscall.SIGCONT) }

func (r *Replica) setPaused(paused bool, s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return fmt.Errorf("%s to replica %s: it was never started", s, r.ID)
	}
	if err := r.process.signal(s); err != nil {
		return fmt.Errorf("%s to replica %s: %w", s, r.ID, err)
	}
	r.paused = paused
	return nil
}

// Terminate asks the process to stop cleanly (SIGTERM; a paused one is
// continued first) and waits until it has ended. It returns an error if the
// exit code is not 0, or if ctx ends first; the process then keeps running.
func (r *Replica) Terminate(ctx context.Context) error {
	p := r.latest()
	if p == nil || !p.running() {
		return fmt.Errorf("terminate replica %s: it is not running", r.ID)
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate replica %s: %w", r.ID, err)
	}
	_ = p.signal(syscall.SIGCONT)
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("replica %s did not stop after SIGTERM: %w", r.ID, ctx.Err())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("replica %s stopped with %s instead of exit code 0", r.ID, p.cmd.ProcessState)
	}
	return nil
}

// Restart is Terminate and Start; a replica that does not run is only started.
func (r *Replica) Restart(ctx context.Context) error {
	if r.Running() {
		if err := r.Terminate(ctx); err != nil {
			return err
		}
	}
	return r.Start()
}

// Running reports whether the process exists, even if it is paused.
func (r *Replica) Running() bool {
	p := r.latest()
	return p != nil && p.running()
}

// Paused reports whether the process was stopped by Pause.
func (r *Replica) Paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused && r.process != nil && r.process.running()
}

// Stopped reports whether every thread of the process has stopped, by any
// signal. On systems other than Linux, which do not show it, the result is true
// for each running process.
func (r *Replica) Stopped() bool { return r.Running() && stopped(r.PID()) == nil }

// PID returns the process id of the latest run, 0 before the first.
func (r *Replica) PID() int {
	if p := r.latest(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Exited returns a channel that is closed when the latest run has ended. Before
// the first run it is nil, and so blocks.
func (r *Replica) Exited() <-chan struct{} {
	if p := r.latest(); p != nil {
		return p.exited
	}
	return nil
}

// ExitState returns how the latest run ended: its exit code, or -1 after a
// signal or while it runs, and a description for people.
func (r *Replica) ExitState() (code int, words string) {
	p := r.latest()
	switch {
	case p == nil:
		return -1, "never started"
	case p.running():
		return -1, "running"
	}
	return p.cmd.ProcessState.ExitCode(), p.cmd.ProcessState.String()
}

// LogTail returns at most the last n lines of the replica's log.
func (r *Replica) LogTail(n int) string {
	content, err := os.ReadFile(r.LogFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

func (r *Replica) latest() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}
