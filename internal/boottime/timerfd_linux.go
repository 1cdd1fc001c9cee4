package boottime

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const timerAbstime = 1 // TFD_TIMER_ABSTIME of linux/timerfd.h

var timers = queue{now: Now, newAlarm: newAlarm}

// theQueue returns the queue for a new timer. In a testing/synctest bubble each
// timer has its own queue, because a goroutine that waits for the system would
// stop the bubble's time.
func theQueue() *queue {
	if virtual() {
		return polled()
	}
	return &timers
}

// virtual reports whether Go's clock is not the system's.
func virtual() bool {
	const realtime = 0 // CLOCK_REALTIME
	apart := time.Duration(time.Now().UnixNano() - int64(read(realtime)))
	return apart.Abs() > time.Hour
}

// timerfd is an alarm of the system (timerfd_create(2), CLOCK_BOOTTIME). If it
// is due when the machine wakes up, it rings at once.
type timerfd struct {
	fd   int
	file *os.File
}

// newAlarm returns a timerfd. It returns a poller if the process has no file
// descriptor left or may not make the call.
func newAlarm(ring func()) alarm {
	// TFD_NONBLOCK and TFD_CLOEXEC are the flags of open(2).
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return newPoller(Now, ring)
	}
	a := &timerfd{fd: int(fd), file: os.NewFile(fd, "timerfd")}
	if a.file.SetReadDeadline(time.Time{}) != nil { // it would need a thread to wait
		a.close()
		return newPoller(Now, ring)
	}
	go a.watch(ring)
	return a
}

// watch rings until the alarm is closed. It waits without a thread.
func (a *timerfd) watch(ring func()) {
	var times [8]byte
	for {
		if _, err := a.file.Read(times[:]); err != nil {
			return
		}
		ring()
	}
}

func (a *timerfd) set(at time.Duration) {
	when := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(int64(max(at, 1)))} // 0 would disarm it
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), timerAbstime, uintptr(unsafe.Pointer(&when)), 0, 0, 0); errno != 0 {
		panic("boottime: timerfd_settime: " + errno.Error()) // the descriptor is ours and the instant valid
	}
}

func (a *timerfd) close() { _ = a.file.Close() }
