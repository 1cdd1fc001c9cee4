package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Lease is what allows the command to run.
type Lease interface {
	// Remaining is the time left, on a clock that goes on while the machine
	// sleeps; zero or less once the lease has ended.
	Remaining() time.Duration
	// Done is closed when the lease has ended for good. It may be nil: Remaining is
	// looked at now and then.
	Done() <-chan struct{}
}

// Command is what to run, and how.
type Command struct {
	Args    []string // program and arguments; at least one
	Env     []string // as in os/exec
	Stdin   *os.File // nil is the null device, here and below
	Stdout  *os.File
	Stderr  *os.File
	Margins Margins
	// Revoked, if set, is closed when somebody took away what the lease stands
	// for, though the lease itself is still renewed. The command is asked to
	// stop at once, and killed Margins.Kill later, or when the lease has it so.
	Revoked <-chan struct{}
	// Signals are what to pass on: the channel of Signals, so that nothing that
	// arrives before the command has started is missed.
	Signals <-chan os.Signal
	// Spares has what the command leaves in its group go on. It does on Unix only.
	Spares bool
	// Notice, if set, is called once the command was asked to stop or killed, and
	// before this process stops with it. It must not block.
	Notice func(Event)
}

// Event is something that happens to a running command.
type Event int

// The events that Notice is called for.
const (
	Told    Event = iota // SIGTERM was sent, as the lease is about to end or was revoked
	Killed               // SIGKILL was sent, for the same reasons
	Stopped              // the command was stopped from the keyboard, and we stop too
)

// Result is how a command ended.
type Result struct {
	// Code is the command's exit code, or 128 + n if signal n ended it, as
	// shells have it.
	Code int
	// Lost says that the command was asked to stop or killed because its lease
	// was about to end or was revoked.
	Lost bool
	// Interrupted says that a Ctrl-C at the terminal ended the command. The
	// caller, when all is done, should end by DieOfInterrupt.
	Interrupted bool
}

// Codes for a command that did not start, as shells have them.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// StartError says why a command did not start. Nothing of it ran.
type StartError struct {
	Name string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("run %q: %v", e.Name, e.Err) }

// Unwrap gives the operating system's error.
func (e *StartError) Unwrap() error { return e.Err }

// Code is the exit code that shells give to this failure.
func (e *StartError) Code() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// Run starts the command and returns when it has ended and all that it left in
// its process group is killed. A command that did not start, because the
// program cannot be run, is a *StartError; where the lease is too short to
// start it, the Result says Lost. One command runs at a time: Run reaps every
// child of this process, as the first process of a container has to.
//
// While it runs, what arrives on Signals goes to the group. If this process is
// in the foreground of a terminal, the command is given the terminal, and job
// control works; see terminal.
func Run(cmd Command, lease Lease) (Result, error) {
	s := &supervisor{cmd: cmd, lease: lease, watch: watch{Margins: cmd.Margins}}
	if due, _ := s.watch.step(lease.Remaining()); due != 0 {
		return Result{Lost: true, Code: CodeNotExecutable}, nil
	}
	s.tty = openTerminal(cmd.Stdin, cmd.Stdout)
	defer s.tty.close()
	p, err := start(cmd, s.tty)
	if err != nil {
		return Result{}, &StartError{Name: cmd.Args[0], Err: err}
	}
	s.proc = p
	defer p.close()
	status := s.supervise(cmd.Signals)
	interrupted := s.tty.reclaim(status)
	return Result{Code: exitCode(status), Lost: s.watch.told, Interrupted: interrupted}, nil
}

// supervisor is one run: a single goroutine that alone decides what to signal.
type supervisor struct {
	cmd   Command
	lease Lease
	watch watch
	tty   *terminal
	proc  *process
	// revoked is when Command.Revoked was seen closed; zero before.
	revoked time.Time
}

// supervise returns how the command ended.
func (s *supervisor) supervise(signals <-chan os.Signal) syscall.WaitStatus {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done, revoked, over := s.lease.Done(), s.cmd.Revoked, false
	for {
		var sig os.Signal
		select {
		case status := <-s.proc.changes:
			if !status.Stopped() {
				return status
			}
			s.stopped(status.StopSignal())
		case sig = <-signals:
		case <-done:
			done, over = nil, true
		case <-revoked:
			revoked, s.revoked = nil, time.Now()
		case <-timer.C:
		}
		// The lease is looked at before anything else is passed on: a SIGCONT
		// must not wake a command whose lease ended while it was stopped.
		timer.Reset(s.look(over))
		if sig != nil && !s.watch.killed {
			s.pass(sig.(syscall.Signal))
		}
	}
}

// look sends what the lease demands and returns when to look again.
func (s *supervisor) look(over bool) time.Duration {
	remaining := s.lease.Remaining()
	if over {
		remaining = 0
	}
	if !s.revoked.IsZero() {
		remaining = min(remaining, s.watch.revoke(time.Since(s.revoked)))
	}
	due, nap := s.watch.step(remaining)
	switch due {
	case syscall.SIGTERM:
		s.proc.terminate()
		s.notice(Told)
	case syscall.SIGKILL:
		s.proc.kill()
		s.notice(Killed)
	}
	return nap
}

func (s *supervisor) notice(e Event) {
	if s.cmd.Notice != nil {
		s.cmd.Notice(e)
	}
}
