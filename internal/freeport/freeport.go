// Package freeport gives tests loopback ports that stay theirs. A port that the
// system picks for a listener and that the listener gives back may be taken by
// another test program, or by an outgoing connection, before it is used again.
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

// Ports are taken from below the range from which systems pick the ports of
// outgoing connections (32768 on Linux, 49152 elsewhere): one of those could
// otherwise take a replica's port while the replica is down.
const (
	firstPort = 15000
	lastPort  = 31999
	portBlock = 500
)

// ports hands out the ports of the block that this process has for itself.
var ports struct {
	mu    sync.Mutex
	claim *os.File // keeps the block's lock until the process ends
	first int
	next  int
}

// Get returns a loopback port on which no program listens. No other process gets
// it from here while this one runs. Safe for concurrent use.
func Get() (int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if ports.claim == nil {
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

// Listen listens on a free port. It tries again where a program that does not use
// this package has taken the port meanwhile.
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

// reserveBlock takes the first block of ports whose lock file no living process
// holds. Test programs run side by side, and would otherwise take a port that
// the other has just found free.
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
			ports.claim, ports.first = f, first
			return nil
		}
		_ = f.Close()
	}
	return errors.New("every block of test ports is in use")
}

// Address returns the loopback address with a port.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
