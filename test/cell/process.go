package cell

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one run of a replica.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// launch starts a command whose output goes to the end of logFile.
func launch(cmd *exec.Cmd, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel's word to kill a child with its parent counts from the
		// thread that started it, so this thread stays until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stands in cmd.ProcessState
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal; an error says that the process is gone.
func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return fmt.Errorf("it is not running (%s)", p.cmd.ProcessState)
	}
	return p.cmd.Process.Signal(s)
}
