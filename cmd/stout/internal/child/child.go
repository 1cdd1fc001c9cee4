package child

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/exit"
)

// Command is what to run, and how.
type Command struct {
	Args    []string // program and arguments; at least one
	Env     []string // as in os/exec
	Stdin   *os.File // nil is the null device, here and below
	Stdout  *os.File
	Stderr  *os.File
	Margins Margins
	// Lease returns the time left of the lease, on a clock that continues while
	// the machine sleeps; zero or less after its end. It is called regularly. Nil
	// is a lease without end.
	Lease func() time.Duration
	// Revoked, if set, is closed when another caller took away what the lease
	// protects, although the lease is still renewed. The command is asked to
	// stop at once, and killed Margins.Kill later or when the lease requires
	// it.
	Revoked <-chan struct{}
	// Signals are forwarded to the command. The channel comes from Signals, so
	// no signal before the command's start is lost.
	Signals <-chan os.Signal
	// Spares lets processes that the command leaves in its group continue. On
	// Windows they always end.
	Spares bool
	// Notice is called after the command was asked to stop or killed, and before
	// this process stops with it. It must not block.
	Notice func(Event)
}

func (c *Command) prepared() *exec.Cmd {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	if c.Stdin != nil { // a nil *os.File in an interface is not nil
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	return cmd
}

// Event is something that happens to a running command.
type Event int

// The events that Notice is called for.
const (
	Asked   Event = iota // SIGTERM was sent because the lease is about to end or was revoked
	Killed               // SIGKILL was sent for the same reasons
	Refused              // SIGKILL was refused: the command runs as another user
	Stopped              // the command was stopped from the keyboard; this process stops too
)

// Result is how a command ended.
type Result struct {
	// Code is the command's exit code, or 128 + n if signal n ended it, as in
	// shells.
	Code int
	// Lost reports that the command was asked to stop or killed because its
	// lease was about to end or was revoked.
	Lost bool
	// Interrupted reports that Ctrl-C at the terminal ended the command. The
	// caller should finally call DieOfInterrupt.
	Interrupted bool
}

// Exit codes of a command that did not start, as in shells.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// Run starts the command and returns when it has ended and the rest of its
// process group is killed. The error of a command that cannot be executed is an
// *exit.Failure. If the lease is too short to start, the Result has Lost set. Only
// one command may run at a time, because Run reaps every child of this process, as
// the first process of a container must.
//
// While it runs, Signals are forwarded to the group. If this process is in the
// foreground of a terminal, the command gets the terminal and job control
// works; see terminal.
func Run(cmd Command) (Result, error) {
	if cmd.Lease == nil {
		cmd.Lease = func() time.Duration { return math.MaxInt64 }
	}
	s := &supervisor{cmd: cmd, watch: watch{Margins: cmd.Margins}}
	if due, _ := s.watch.step(cmd.Lease()); due != 0 {
		return Result{Lost: true, Code: codeNotExecutable}, nil
	}
	s.tty = openTerminal(cmd.Stdin, cmd.Stdout)
	defer s.tty.close()
	keyboard, end := keyboardStops() // before the command runs, so that they stop together
	defer end()
	p, err := start(cmd, s.tty)
	if err != nil {
		code := codeNotExecutable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = codeNotFound
		}
		return Result{}, exit.Errorf(code, "run %q: %v", cmd.Args[0], err)
	}
	s.proc = p
	defer p.close()
	status := s.supervise(cmd.Signals, keyboard)
	interrupted := s.tty.restore(status)
	return Result{Code: exitCode(status), Lost: s.watch.asked, Interrupted: interrupted}, nil
}

// supervisor is one run: a single goroutine that decides about all signals.
type supervisor struct {
	cmd   Command
	watch watch
	tty   *terminal
	proc  *process
	// suspending is set while this process stops because the command did.
	suspending bool
	// revoked is when Command.Revoked was seen closed; zero before.
	revoked time.Time
}

func (s *supervisor) supervise(signals, keyboard <-chan os.Signal) syscall.WaitStatus {
	timer := time.NewTimer(0)
	defer timer.Stop()
	revoked := s.cmd.Revoked
	for {
		var sig os.Signal
		select {
		case status := <-s.proc.changes:
			if !status.Stopped() {
				return status
			}
			s.stopped(status.StopSignal())
		case sig = <-signals:
		case <-keyboard:
			s.suspend()
		case <-revoked:
			revoked, s.revoked = nil, time.Now()
		case <-timer.C:
		}
		// The lease is checked before a signal is forwarded: a SIGCONT must not
		// wake a stopped command after the end of its lease.
		timer.Reset(s.check())
		if sig != nil && !s.watch.killed {
			s.pass(sig.(syscall.Signal))
		}
	}
}

// check sends the signals that the lease requires and returns when to check
// again.
func (s *supervisor) check() time.Duration {
	remaining := s.cmd.Lease()
	if !s.revoked.IsZero() {
		remaining = min(remaining, s.watch.revoke(time.Since(s.revoked)))
	}
	due, nap := s.watch.step(remaining)
	switch due {
	case syscall.SIGTERM:
		s.proc.terminate()
		s.cmd.Notice(Asked)
	case syscall.SIGKILL:
		event := Killed
		if errors.Is(s.proc.kill(), fs.ErrPermission) {
			event = Refused
		}
		s.cmd.Notice(event)
	}
	return nap
}
