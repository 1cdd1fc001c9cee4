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

type process struct {
	cmd    *exec.Cmd
	output *os.File      // read end of its standard output and error
	exited chan struct{} // closed when the process has ended and its log is complete
	paused chan struct{} // receives when copy has read nothing because of a hold
	copied chan struct{} // closed when copy has ended
}

// launch starts a command. A pipe carries its output to the end of logFile.
func launch(cmd *exec.Cmd, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	output, end, err := os.Pipe()
	if err == nil {
		err = syscall.SetNonblock(int(end.Fd()), false) // like a shell's pipe
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	cmd.Stdout, cmd.Stderr = end, end
	cmd.SysProcAttr = childAttributes()
	p := &process{cmd: cmd, output: output, exited: make(chan struct{}), paused: make(chan struct{}, 1), copied: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.copied)
		p.copy(log)
	}()
	go func() {
		// The kernel's order to kill a child with its parent is bound to the
		// thread that started the child, so this thread stays until the child
		// has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = end.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState has the result
			p.free()
			<-p.copied
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// copy copies the output to the log until its end. It reads nothing during a
// hold.
func (p *process) copy(log *os.File) {
	defer log.Close()
	defer p.output.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.output.Read(buffer)
		_, failed := log.Write(buffer[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			select {
			case p.paused <- struct{}{}:
			default:
			}
			time.Sleep(10 * time.Millisecond)
		case err != nil || failed != nil:
			return
		}
	}
}

// hold stops reading the output and fills the pipe if the system allows it.
// free resumes reading. Both do nothing after the process's end.
func (p *process) hold() {
	select {
	case <-p.paused: // from an earlier hold
	default:
	}
	if p.output.SetReadDeadline(time.Unix(1, 0)) != nil {
		return
	}
	select { // a read that is under way empties the pipe
	case <-p.paused:
		fill(p.output)
	case <-p.copied:
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

// signal sends a signal. An error means that the process has ended.
func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return fmt.Errorf("it is not running (%s)", p.cmd.ProcessState)
	}
	return p.cmd.Process.Signal(s)
}
