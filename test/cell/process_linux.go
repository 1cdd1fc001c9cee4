package cell

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// childAttributes puts a replica into a separate process group, so that Ctrl-C
// reaches only the program that runs the cell. The kernel kills the replica
// when the thread that started it ends; launch keeps that thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// fill fills a pipe with empty lines, given its read end.
func fill(pipe *os.File) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		// Open the pipe again: the process's own write end stays blocking.
		end, err := syscall.Open(fmt.Sprintf("/proc/self/fd/%d", fd), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer syscall.Close(end)
		for size := 4096; size > 0; { // whole pages first
			if _, err := syscall.Write(end, bytes.Repeat([]byte("\n"), size)); err != nil {
				size /= 2
			}
		}
	})
}

// stopped returns nil when every thread of a process has stopped: kill(2)
// returns while the signal is still on its way. The state follows the program's
// name, which is in parentheses (proc_pid_stat(5)).
func stopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("process %d is gone", pid)
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		_, state, _ := bytes.Cut(stat, []byte(") "))
		if !bytes.HasPrefix(state, []byte("T")) {
			return fmt.Errorf("%s: %.1s", name, state)
		}
	}
	return nil
}
