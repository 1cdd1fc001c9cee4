package cell

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// pair is a connection from replica a to replica b through a proxy.
type pair struct {
	network *Network
	a, b    net.Conn
	fromA   *bufio.Reader // received by b
	fromB   *bufio.Reader // received by a
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	n := newNetwork()
	t.Cleanup(n.close)
	address, err := n.link("a", "b", l.Addr().String())
	must(t, err)
	p := &pair{network: n}
	if p.a, err = net.Dial("tcp", address); err != nil {
		t.Fatal(err)
	}
	if p.b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{p.a, p.b} {
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(Step))
	}
	p.fromA, p.fromB = bufio.NewReader(p.b), bufio.NewReader(p.a)
	return p
}

func send(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("received %q, %v; want %q", got, err, want)
	}
}

func receiveNothingButTheEnd(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if got, err := r.ReadString('\n'); err == nil || got != "" {
		t.Fatalf("received %q, %v; want a broken connection", got, err)
	}
}

func TestNetworkPassesBothWays(t *testing.T) {
	p := newPair(t)
	send(t, p.a, "ping")
	receive(t, p.fromA, "ping")
	send(t, p.b, "pong")
	receive(t, p.fromB, "pong")
	_ = p.a.Close()
	receiveNothingButTheEnd(t, p.fromA)
}

// TestCutOneWayDropsReplies: the request arrives and the reply vanishes. The
// heal breaks the connection instead of leaving a gap in it.
func TestCutOneWayDropsReplies(t *testing.T) {
	p := newPair(t)
	p.network.CutOneWay("b", "a")
	send(t, p.b, "lost")
	send(t, p.a, "ping")
	receive(t, p.fromA, "ping")
	awaitLoss(t, p.network, direction{"b", "a"})
	p.network.Heal()
	receiveNothingButTheEnd(t, p.fromB)
	receiveNothingButTheEnd(t, p.fromA)
}

// TestCutHidesTheEnd: a cut hides from a that b closed the connection.
func TestCutHidesTheEnd(t *testing.T) {
	p := newPair(t)
	p.network.Isolate("a")
	_ = p.b.Close()
	awaitLoss(t, p.network, direction{"b", "a"})
	_ = p.a.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := p.fromB.ReadByte(); !isTimeout(err) {
		t.Fatalf("a received %v through a cut, want nothing", err)
	}
	_ = p.a.SetReadDeadline(time.Now().Add(Step))
	p.network.HealBetween("a", "b")
	if _, err := p.fromB.ReadByte(); err == nil || isTimeout(err) {
		t.Fatalf("after the heal a received %v, want a broken connection", err)
	}
}

// awaitLoss waits until the network has dropped bytes, or the end, of a
// direction.
func awaitLoss(t *testing.T, n *Network, d direction) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := Wait(ctx, "something is lost", func(context.Context) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		for c := range n.conns {
			if c.lost[d] {
				return nil
			}
		}
		return io.ErrNoProgress
	})
	must(t, err)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}
