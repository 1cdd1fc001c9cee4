package cell

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports are taken from below the range from which systems pick the ports of
// outgoing connections (32768 on Linux, 49152 elsewhere): one of those could
// otherwise take a replica's port while the replica is down.
const (
	firstPort = 15000
	lastPort  = 31999
	portBlock = 64 // where a program begins to look, by its process id
)

var nextPort atomic.Int64

func init() {
	blocks := (lastPort - firstPort + 1) / portBlock
	nextPort.Store(int64(os.Getpid() % blocks * portBlock))
}

// freePort finds a loopback port that nobody listens on.
func freePort() (int, error) {
	for range lastPort - firstPort {
		port := firstPort + int(nextPort.Add(1))%(lastPort-firstPort+1)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
