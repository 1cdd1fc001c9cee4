//go:build unix

package child

import (
	"runtime"
	"syscall"
)

// process is a running command and its group. The group's id is the command's
// pid.
type process struct {
	pid    int
	spares bool
	// changes receives each stop of the command and finally its end.
	changes chan syscall.WaitStatus
}

// start runs the command in a new process group, in the foreground of tty if
// required from the beginning. One goroutine, locked to its thread, starts it
// and waits for it: Linux sends the parent-death signal when the *thread* that
// started the child ends (go.dev/issue/27505).
func start(c Command, tty *terminal) (*process, error) {
	cmd := c.prepared()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killWithParent(cmd.SysProcAttr)
	tty.attach(cmd.SysProcAttr)

	p := &process{spares: c.Spares, changes: make(chan syscall.WaitStatus, 1)}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
			_ = cmd.Process.Release() // wait4 below waits for it
		}
		started <- err
		if err == nil {
			p.wait()
		}
	}()
	if err := <-started; err != nil {
		tty.reclaim()
		return nil, err
	}
	tty.attached(p.pid)
	return p, nil
}

// wait reports stops until the command has ended. It uses wait4 because
// exec.Cmd.Wait does not report stops. The rest of the group is killed before
// the end is reported, because it must not outlive the lock. Other children are
// orphans that the first process of a container inherits; they are reaped.
func (p *process) wait() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR || err == nil && pid != p.pid:
			continue
		case err != nil:
			// Only possible if other code reaped the child: it has ended with
			// unknown status.
			status = syscall.WaitStatus(255 << 8)
		}
		ended := !status.Stopped()
		if ended && !p.spares {
			p.signal(syscall.SIGKILL)
		}
		p.changes <- status
		if ended {
			return
		}
	}
}

// terminate asks the group to end. SIGCONT wakes a stopped group for that.
func (p *process) terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

// kill ends the group. It fails if none of it may be killed.
func (p *process) kill() error { return syscall.Kill(-p.pid, syscall.SIGKILL) }

// close does nothing after the end of the process.
func (p *process) close() {}

// signal sends sig to the whole group. A missing group is no error.
func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.pid, sig)
}
