package gate

import (
	"net"
	"net/netip"

	"github.com/stoutlock/stout/internal/audit"
)

// Source is a group of clients that share a part of the spare connections: one
// IPv4 address or one /64 network of IPv6. A host may have as many addresses in
// such a network as it likes.
type Source netip.Prefix

// SourceOf returns the source of an address.
func SourceOf(a net.Addr) Source {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return Source(audit.NetworkOf(tcp.AddrPort().Addr()))
	}
	return Source{}
}
