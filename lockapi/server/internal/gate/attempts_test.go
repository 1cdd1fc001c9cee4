package gate

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestAttemptsAreSlowedDown: attempts from one address are delayed for as long
// as they continue.
func TestAttemptsAreSlowedDown(t *testing.T) {
	const every, most = 100 * time.Millisecond, 2 * time.Second
	a := Attempts{Every: every}
	mallory, alice := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for n := range 200 {
		want := min(max(0, time.Duration(n+1-fewAttempts)*every), most)
		if got := a.Failed(mallory, time.Hour); got != want {
			t.Fatalf("attempt %d waits for %v, want %v", n+1, got, want)
		}
	}
	if got := a.Failed(alice, time.Hour); got != 0 {
		t.Errorf("another address waits for %v", got)
	}
	if got := a.Failed(mallory, time.Hour+most); got == 0 || got >= most {
		t.Errorf("after a pause the next attempt waits for %v", got)
	}
	if got := a.Failed(mallory, 2*time.Hour); got != 0 {
		t.Errorf("after an hour the next attempt waits for %v", got)
	}
}

// TestAttemptsOfANetwork: addresses of the same IPv6 network count as one.
func TestAttemptsOfANetwork(t *testing.T) {
	a := Attempts{Every: 100 * time.Millisecond}
	for n := range 100 {
		a.Failed(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n)), 0)
	}
	if got := a.Failed(netip.MustParseAddr("2001:db8::ffff"), 0); got == 0 {
		t.Error("another address of the network does not wait")
	}
	if got := a.Failed(netip.MustParseAddr("2001:db8:0:1::1"), 0); got != 0 {
		t.Errorf("another network waits for %v", got)
	}
	for n := range 100 {
		a.Failed(netip.MustParseAddr("::ffff:10.0.0.1"), time.Duration(n))
	}
	if got := a.Failed(netip.MustParseAddr("10.0.0.1"), 100); got == 0 {
		t.Error("an address in another form does not wait")
	}
}

// TestAttemptsAreBoundedInMemory: addresses that are worked off are forgotten
// first.
func TestAttemptsAreBoundedInMemory(t *testing.T) {
	a := Attempts{Every: 100 * time.Millisecond}
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}) }
	for n := range mostAddresses - 1 {
		a.Failed(address(n), 0)
	}
	mallory := netip.MustParseAddr("192.0.2.1")
	for range 100 {
		a.Failed(mallory, time.Minute)
	}
	for n := range 10 {
		a.Failed(address(n+mostAddresses), time.Minute)
	}
	if got := a.Failed(mallory, time.Minute); got != 2*time.Second {
		t.Errorf("the one address that goes on waits for %v", got)
	}
	for n := range 3 * mostAddresses {
		a.Failed(address(n), time.Minute)
		if len(a.of) > mostAddresses {
			t.Fatalf("%d addresses are remembered", len(a.of))
		}
	}
}
