package gate

import (
	"net"
	"net/netip"
	"sync"
)

// Source is a group of clients that share a part of the spare connections: one
// IPv4 address or one /64 network of IPv6. A host may have as many addresses in
// such a network as it likes.
type Source netip.Prefix

// SourceOf returns the source of an address.
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

// Sources counts the calls of each source, with a bound per source.
type Sources struct {
	Most int // does not change

	mu sync.Mutex
	of map[Source]int
}

// Enter counts a call if its source has fewer than Most.
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

// Leave records the end of a call.
func (a *Sources) Leave(from Source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[from]--; a.of[from] == 0 {
		delete(a.of, from)
	}
}
