package cell

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// childAttributes puts a replica in a process group of its own, so that a
// Ctrl-C reaches only the program that runs the cell, and has the kernel kill
// it when the thread that started it ends. launch keeps that thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped is nil when every thread of a process has stopped: a signal is only
// on its way when kill(2) returns. The state follows the program's name, which
// is in parentheses (proc_pid_stat(5)).
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
