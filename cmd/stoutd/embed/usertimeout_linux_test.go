package embed

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUserTimeout: the connections of callers have the limit.
func TestUserTimeout(t *testing.T) {
	l, err := listenTo("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	caller, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	broken := raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if broken != nil || err != nil || ms != 60_000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms: %v, %v", ms, broken, err)
	}
}
