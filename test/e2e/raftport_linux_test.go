package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// resident returns the resident memory of a replica's process, in KiB.
func resident(t *testing.T, r *cell.Replica) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	_, err = fmt.Sscan(rest, &kib)
	must(t, err)
	return kib
}

// TestReplicasPortUnderAttack: ten thousand connections to the replicas' ports,
// with garbage, partial messages, huge lengths and nothing, take few files and
// little memory. The master stays, calls are served and forwarded, and a
// replica that starts during the attack finds the others.
func TestReplicasPortUnderAttack(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			c := cell.New(t, cell.Options{Args: still, Secure: secure})
			master := c.Ready(t)
			epoch := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil).Epoch
			other := c.Others(master)[0]
			s := open(t, other, aWhile)
			memory, open := resident(t, master), files(t, master)
			attack := startAttack(t, 10_000, c.Replicas()...)
			most, mostFiles := 0, 0
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for i := 0; i == 0 || !attack.isOver(); i++ {
				<-tick.C
				release(t, other, acquire(t, other, "/under/attack", ask(s.ID, "", 0)))
				most, mostFiles = max(most, resident(t, master)), max(mostFiles, files(t, master))
				if i == 3 {
					must(t, c.Others(master)[1].Restart(cell.Bounded(t)))
				}
			}
			if n := attack.failed.Load(); n > 1000 {
				t.Errorf("%d connections failed: nothing was attacked", n)
			}
			c.Ready(t)
			if now := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil).Epoch; now != epoch {
				t.Errorf("epoch %d, then %d", epoch, now)
			}
			t.Logf("the master takes up to %d MiB more and %d files more", (most-memory)>>10, mostFiles-open)
			if most-memory > 256<<10 || mostFiles-open > 500 {
				t.Errorf("the master takes up to %d MiB more and %d files more", (most-memory)>>10, mostFiles-open)
			}
		})
	}
}

type attack struct {
	failed atomic.Int64
	over   chan struct{}
}

func (a *attack) isOver() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

// startAttack opens n connections from an address that no replica uses. Each
// sends something other than a valid opening. It stays until the other end
// closes it, or until some more were opened.
func startAttack(t *testing.T, n int, victims ...*cell.Replica) *attack {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: cell.Step}
	probe, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err) // 127.0.0.2 is not a local address on every system
	}
	must(t, probe.Close())
	const magic = "stout-replica-1\n"
	sends := []string{
		"", magic, magic + "\xff\xff\xff\xff", magic + "\x00\x01\x00\x00" + strings.Repeat("x", 5000), magic + "\x00\x00\x00\x02\xbf\xff",
		"\x16\x03\x01", "\x16\x03\x01\xff\xff" + strings.Repeat("\x01", 5000), "\x16\x03\x01\x00\x04\x01\xff\xff\xff",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x81\xa7Entries\xdd\x7f\xff\xff\xff", strings.Repeat("\xff", 5000),
	}
	a := &attack{over: make(chan struct{})}
	var next atomic.Int64
	var attackers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); <-a.over })
	for range 100 {
		attackers.Go(func() {
			var held []net.Conn
			for i := int(next.Add(1)); i <= n && ctx.Err() == nil; i = int(next.Add(1)) {
				conn, err := dialer.DialContext(ctx, "tcp", victims[i%len(victims)].RaftAddr)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						a.failed.Add(1)
					}
					continue
				}
				_, _ = io.WriteString(conn, sends[i/len(victims)%len(sends)])
				if held = append(held, conn); len(held) == 5 {
					_ = held[0].Close()
					held = held[1:]
				}
			}
			for _, conn := range held {
				_ = conn.Close()
			}
		})
	}
	go func() {
		attackers.Wait()
		close(a.over)
	}()
	return a
}
