package gate

import (
	"net"
	"net/netip"
	"sync"
)

// Source is who shares a part of the spare connections: one address, or, as one
// host may have as many of those as it likes, one network of IPv6.
type Source netip.Prefix

// SourceOf returns that of an address.
func SourceOf(a net.Addr) Source {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return Source{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return Source{}
	}
	return Source(prefix)
}

// Sources counts calls by the network that they come from, up to a bound for each.
type Sources struct {
	Most int // does not change

	mu sync.Mutex
	of map[Source]int
}

// Enter counts a call, if its source has fewer than Most.
func (a *Sources) Enter(from Source) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[from] >= a.Most {
		return false
	}
	if a.of == nil {
		a.of = map[Source]int{}
	}
	a.of[from]++
	return true
}

// Leave says that the call is over.
func (a *Sources) Leave(from Source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[from]--; a.of[from] == 0 {
		delete(a.of, from)
	}
}
