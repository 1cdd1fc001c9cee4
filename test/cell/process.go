package cell

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of a replica.
type process struct {
	cmd    *exec.Cmd
	output *os.File      // the end of its standard streams that is read
	exited chan struct{} // closed when the process is gone, and its log is whole
}

// launch starts a command whose output goes through a pipe to the end of logFile.
func launch(cmd *exec.Cmd, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	output, end, err := os.Pipe()
	if err == nil {
		err = syscall.SetNonblock(int(end.Fd()), false) // as a pipe of a shell is
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	cmd.Stdout, cmd.Stderr = end, end
	cmd.SysProcAttr = childAttributes()
	p := &process{cmd: cmd, output: output, exited: make(chan struct{})}
	started := make(chan error)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.copy(log)
	}()
	go func() {
		// The kernel's word to kill a child with its parent counts from the
		// thread that started it, so this thread stays until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = end.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stands in cmd.ProcessState
			p.free()
			<-copied
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// copy copies the output to the log until its end. While it is held, nothing is
// read.
func (p *process) copy(log *os.File) {
	defer log.Close()
	defer p.output.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.output.Read(buffer)
		_, failed := log.Write(buffer[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			time.Sleep(10 * time.Millisecond)
		case err != nil || failed != nil:
			return
		}
	}
}

// hold has nothing read of the output, and fills the pipe, as far as the system
// allows. free lets the reading go on. Both do nothing after the process's end.
func (p *process) hold() {
	if p.output.SetReadDeadline(time.Unix(1, 0)) == nil {
		fill(p.output)
	}
}

func (p *process) free() { _ = p.output.SetReadDeadline(time.Time{}) }

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
