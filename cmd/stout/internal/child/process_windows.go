package child

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// process is a running command with its descendants: a job, which Windows ends
// when its last handle is closed, by us or by our end.
type process struct {
	pid     int
	job     windows.Handle
	changes chan syscall.WaitStatus // receives the end of the command
}

// start runs the command in a job and a process group of its own. Processes
// that it starts before it joins the job escape the job.
func start(c Command, _ *terminal) (*process, error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("make a job for it: %w", err)
	}
	p := &process{job: job, changes: make(chan syscall.WaitStatus, 1)}
	cmd := c.prepared()
	// A new group receives only Ctrl-Break, and only from this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		p.close()
		return nil, err
	}
	p.pid = cmd.Process.Pid
	if err := p.assign(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		p.close()
		return nil, fmt.Errorf("put it into its job: %w", err)
	}
	go func() {
		_ = cmd.Wait()
		_ = p.kill() // the rest must not outlive the lock
		p.changes <- cmd.ProcessState.Sys().(syscall.WaitStatus)
	}()
	return p, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func (p *process) assign() error {
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	h, err := windows.OpenProcess(access, false, uint32(p.pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.AssignProcessToJobObject(p.job, h)
}

func (p *process) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.pid))
}

func (p *process) kill() error { return windows.TerminateJobObject(p.job, CodeKilled) }

// CodeKilled is the exit code of a killed command, like 128 + 9 elsewhere.
const CodeKilled = 137

// close closes the job; its remaining processes end.
func (p *process) close() { _ = windows.CloseHandle(p.job) }
