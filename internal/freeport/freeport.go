// Package freeport reserves loopback ports for tests. The usual way is to let
// the system pick a port for a listener and then to close it. But another test
// program or an outgoing connection may take that port before it is used again.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// The ports lie below the range from which systems pick the ports of outgoing
// connections (32768 on Linux, 49152 elsewhere). An outgoing connection could
// otherwise take a replica's port while the replica is down.
const (
	firstPort = 15000
	lastPort  = 31999
	portBlock = 500
)

// ports allocates from the block of ports that this process has reserved.
var ports struct {
	mu    sync.Mutex
	lock  *os.File // holds the block's lock until the process ends
	first int
	next  int
}

// Get returns a loopback port on which no program listens. While this process
// runs, no other process gets the port from this package. It is safe for
// concurrent use.
func Get() (int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if ports.lock == nil {
		if err := reserveBlock(); err != nil {
			return 0, err
		}
	}
	for range portBlock {
		port := ports.first + ports.next%portBlock
		ports.next++
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// Listen listens on a free port. It tries again if a program that does not use
// this package has taken the port in the meantime.
func Listen() (net.Listener, error) {
	for tries := 0; ; tries++ {
		port, err := Get()
		if err != nil {
			return nil, err
		}
		if l, err := net.Listen("tcp", Address(port)); err == nil || tries == 10 {
			return l, err
		}
	}
}

// reserveBlock takes the first block of ports with a lock file that no running
// process holds. Test programs that run side by side would otherwise take ports
// that the other has just found free.
func reserveBlock() error {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("stout-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for first := firstPort; first+portBlock <= lastPort; first += portBlock {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(first)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			ports.lock, ports.first = f, first
			return nil
		}
		_ = f.Close()
	}
	return errors.New("every block of test ports is in use")
}

// Address returns the loopback address with a port.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
