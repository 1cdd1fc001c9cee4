package boottime

import (
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME of linux/time.h

// Now returns the time since the machine booted, including suspended time
// (clock_gettime(2), CLOCK_BOOTTIME). It is safe for concurrent use.
func Now() time.Duration { return read(clockBoottime) }

func read(clock uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("boottime: clock " + strconv.Itoa(int(clock)) + " of clock_gettime(2) is not available: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}
