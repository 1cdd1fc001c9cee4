package gate

import (
	"net"
	"net/netip"
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
