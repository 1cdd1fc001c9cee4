package embed

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout is how long data that is sent to a caller may stay without an
// acknowledgement. The system's own limit is about 15 minutes. A caller keeps its
// places and quotas for so long after its machine has lost power.
const userTimeout = time.Minute

// setUserTimeout sets userTimeout for the connections that a listener accepts. A
// system that cannot is used as it is.
func setUserTimeout(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
}
