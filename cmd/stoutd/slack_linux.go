package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how much later than ordered the kernel may wake a thread, 50 µs
// by default. While a thread is in a system call, as with each write of the log,
// Go's sysmon sleeps for 20 µs at a time. With the default that takes up to a
// fifth of a replica's CPU. Every timer may end that much later; nothing in Stout
// relies on less.
const timerSlack = 500 * time.Microsecond

// executed marks the second execution in the environment.
const executed = "STOUT_EXECUTED"

// raiseTimerSlack executes the program again with timerSlack, unless it has as
// much already. The thread of sysmon exists before main, and a process without
// privileges cannot set another thread's slack; but all threads begin with that
// of the thread that executed the program. If any step fails, the process
// continues as it is.
func raiseTimerSlack() {
	if os.Getenv(executed) != "" {
		os.Unsetenv(executed)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack >= int(timerSlack) {
		return
	}
	program, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, append(os.Environ(), executed+"=1"))
}
