package bubble

import (
	"syscall"
	"time"
)

// realSleep sleeps in a system call, on the real clock.
func realSleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil)
}
