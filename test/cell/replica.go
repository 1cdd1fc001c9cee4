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
	URL      string // base URL of its API, not through any proxy
	RaftAddr string // where it listens for the others
	DataDir  string
	LogFile  string // what its processes wrote, one run after the other

	binary string
	args   []string
	env    []string
	via    *http.Client // of its calls

	mu      sync.Mutex
	process *process // the latest run; nil before the first
	paused  bool
}

// Addr is the host and port of its API.
func (r *Replica) Addr() string {
	_, addr, _ := strings.Cut(r.URL, "://")
	return addr
}

// AuditLog is the file of its audit log, with Options.Audit.
func (r *Replica) AuditLog() string { return r.DataDir + ".audit.log" }

// Start runs the replica's process, and fails where one runs already. It does
// not wait until the replica serves.
func (r *Replica) Start() error { return r.StartWith() }

// StartWith is Start with further arguments for this run alone.
func (r *Replica) StartWith(args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.running() {
		return fmt.Errorf("replica %s runs already", r.ID)
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

// HoldLog has nothing read of what the running process writes to its standard
// streams; on Linux their pipe is full from then on. FreeLog, or the end of the
// process, lets the reading go on: the log is whole then.
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

// FaultFile is the file of orders of its fault points, with Options.FaultPoints;
// see package faultpoint.
func (r *Replica) FaultFile() string { return r.DataDir + ".faults" }

// plainEnvironment is this program's environment without settings of stoutd.
func plainEnvironment() []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "STOUTD_") && !strings.HasPrefix(line, faultpoint.Variable+"=") {
			env = append(env, line)
		}
	}
	return env
}

// Use has the next Start run another release's stoutd.
func (r *Replica) Use(binary string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binary = binary
}

// Command is the command line that Start runs.
func (r *Replica) Command() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{r.binary}, r.args...)
}

// Kill ends the process as kill -9 does, and returns when it is gone. It is no
// error if there was none.
func (r *Replica) Kill() error {
	p := r.latest()
	if p == nil || !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && p.running() {
		return fmt.Errorf("kill replica %s: %w", r.ID, err)
	}
	<-p.exited // the kernel does not refuse a SIGKILL
	return nil
}

// Pause stops the process with SIGSTOP: it holds its ports and connections,
// and does nothing until Continue. On Linux every thread has stopped when it
// returns; elsewhere the last one may still be about to.
func (r *Replica) Pause() error {
	if err := r.setPaused(true, syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pid := r.PID()
	return Wait(ctx, "replica "+r.ID+" has stopped", func(context.Context) error { return stopped(pid) })
}

// Continue lets a paused process go on.
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

// Terminate asks the process to stop in good order (SIGTERM; a paused one goes
// on for it) and waits until it is gone. It is an error if the exit code is not
// 0, or if ctx ends first: the process is then left as it is.
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

// Restart is Terminate and Start; a process that does not run is only started.
func (r *Replica) Restart(ctx context.Context) error {
	if r.Running() {
		if err := r.Terminate(ctx); err != nil {
			return err
		}
	}
	return r.Start()
}

// Running reports whether the process is there; a paused one is.
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

// Stopped reports whether every thread of the process has stopped, by whichever
// signal; other systems than Linux do not show it, and the answer is true.
func (r *Replica) Stopped() bool { return r.Running() && stopped(r.PID()) == nil }

// PID is the process id of the latest run, 0 before the first.
func (r *Replica) PID() int {
	if p := r.latest(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Exited is closed when the latest run has ended. It is nil, and blocks, before
// the first.
func (r *Replica) Exited() <-chan struct{} {
	if p := r.latest(); p != nil {
		return p.exited
	}
	return nil
}

// ExitState says how the latest run ended: its exit code, -1 for a signal and
// while it runs, and words for a person.
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

// LogTail is at most the last n lines that the replica's processes wrote.
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
