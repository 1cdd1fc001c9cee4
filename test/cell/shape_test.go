package cell

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestShapeDelays: bytes in a slow direction arrive late, complete and in
// order; the other direction stays fast.
func TestShapeDelays(t *testing.T) {
	const latency = 60 * time.Millisecond
	p := newPair(t)
	p.network.Shape("a", "b", Shape{Latency: latency, Jitter: latency})
	sent := time.Now()
	for i := range 20 {
		send(t, p.a, fmt.Sprint("ping ", i))
	}
	for i := range 20 {
		receive(t, p.fromA, fmt.Sprint("ping ", i))
		if took := time.Since(sent); took < latency {
			t.Fatalf("a line took %v, want at least %v", took, latency)
		}
	}
	// A reply overtakes a line that is still under way.
	send(t, p.a, "slow")
	send(t, p.b, "fast")
	receive(t, p.fromB, "fast")
	receive(t, p.fromA, "slow")
	_ = p.a.Close()
	receiveNothingButTheEnd(t, p.fromA)
}

// TestShapeStalls: a lost chunk delays the chunks behind it until it is sent
// again; all of them arrive.
func TestShapeStalls(t *testing.T) {
	const stall = 80 * time.Millisecond
	p := newPair(t)
	p.network.Shape("a", "b", Shape{Stall: 1, StallFor: stall})
	sent := time.Now()
	send(t, p.a, "lost once")
	receive(t, p.fromA, "lost once")
	if took := time.Since(sent); took < stall {
		t.Errorf("it took %v, want at least %v", took, stall)
	}
}

// TestShapeResets: a connection that breaks is broken at both ends, and the
// next one works after the heal.
func TestShapeResets(t *testing.T) {
	p := newPair(t)
	p.network.Shape("a", "b", Shape{Reset: 1})
	send(t, p.b, "not concerned")
	receive(t, p.fromB, "not concerned")
	send(t, p.a, "lost")
	receiveNothingButTheEnd(t, p.fromA)
	receiveNothingButTheEnd(t, p.fromB)
}

// TestHealEndsShapes: after a heal, of all or of a pair, bytes arrive at once.
func TestHealEndsShapes(t *testing.T) {
	const never = time.Hour
	for name, heal := range map[string]func(*Network){
		"all": (*Network).Heal, "pair": func(n *Network) { n.HealBetween("b", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.network.Shape("a", "b", Shape{Latency: never})
			p.network.Shape("b", "a", Shape{Latency: never})
			heal(p.network)
			send(t, p.a, "ping")
			receive(t, p.fromA, "ping")
			send(t, p.b, "pong")
			receive(t, p.fromB, "pong")
		})
	}
}

// TestCutLosesWhatIsUnderWay: a cut drops the bytes that a slow direction has
// under way. On a slow machine they must be under way for longer.
func TestCutLosesWhatIsUnderWay(t *testing.T) {
	var p *pair
	for latency, late := 50*time.Millisecond, true; late; latency *= 2 {
		p = newPair(t)
		p.network.Shape("a", "b", Shape{Latency: latency})
		sent := time.Now()
		send(t, p.a, "lost")
		p.network.Cut("a", "b")
		late = time.Since(sent) >= latency
	}
	awaitLoss(t, p.network, direction{"a", "b"})
	p.network.Heal()
	receiveNothingButTheEnd(t, p.fromA)
}

// TestShapeHoldsWhatIsLarge: a large chunk, and everything behind it, arrives
// when large chunks pass again. Smaller ones and the other direction are not
// affected.
func TestShapeHoldsWhatIsLarge(t *testing.T) {
	p := newPair(t)
	p.network.Shape("a", "b", Shape{Largest: 1200})
	send(t, p.a, "small")
	receive(t, p.fromA, "small")
	large := strings.Repeat("x", 2000)
	send(t, p.a, large)
	send(t, p.b, large)
	receive(t, p.fromB, large)
	send(t, p.a, "behind")
	got := make(chan string, 1)
	go func() {
		line, _ := p.fromA.ReadString('\n')
		got <- line
	}()
	select {
	case line := <-got:
		t.Fatalf("%.20q has arrived", line)
	default:
	}
	p.network.HealBetween("a", "b")
	if line := <-got; line != large+"\n" {
		t.Errorf("received %.20q", line)
	}
	receive(t, p.fromA, "behind")
}
