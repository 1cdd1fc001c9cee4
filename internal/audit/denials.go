package audit

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// denialsOfOne is how many denials of an address have lines in a second, and
	// denialsOfAll how many of all together.
	denialsOfOne = 10
	denialsOfAll = 1000
	// mostCounted is how many addresses are told apart in a second.
	mostCounted = 4096
)

// denials says which of them have lines. It counts from the first of a second to its
// end, and forgets then. An address is a network of 64 bits where it is one of IPv6,
// which is what a single host has.
type denials struct {
	tell       func(Record)
	suppressed atomic.Uint64

	mu    sync.Mutex
	of    map[netip.Prefix]*denied
	lines int
}

type denied struct{ lines, more uint64 }

// admit counts one, and reports whether it has a line.
func (d *denials) admit(remote string) bool {
	var from netip.Prefix // the zero one where it is no address
	if a, err := netip.ParseAddr(cmp.Or(host(remote), remote)); err == nil {
		from = NetworkOf(a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[netip.Prefix]*denied{}
		time.AfterFunc(time.Second, d.flush)
	}
	one := d.of[from]
	if one == nil && len(d.of) >= mostCounted {
		from = netip.Prefix{} // those that there is no room to tell apart
		one = d.of[from]
	}
	if one == nil {
		one = &denied{}
		d.of[from] = one
	}
	if one.lines >= denialsOfOne || d.lines >= denialsOfAll {
		one.more++
		d.suppressed.Add(1)
		return false
	}
	one.lines++
	d.lines++
	return true
}

// flush tells how many have no lines, and begins anew.
func (d *denials) flush() {
	d.mu.Lock()
	of := d.of
	d.of, d.lines = nil, 0
	d.mu.Unlock()
	// Where there are many, those beyond the first are told of in one line.
	type count struct {
		from netip.Prefix
		more uint64
	}
	var counts []count
	for from, one := range of {
		if one.more > 0 {
			counts = append(counts, count{from, one.more})
		}
	}
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.more, a.more), a.from.Addr().Compare(b.from.Addr()))
	})
	var rest uint64
	for i, c := range counts {
		switch {
		case i >= denialsOfAll || !c.from.IsValid():
			rest += c.more
		case c.from.IsSingleIP():
			d.tell(Record{Event: Suppressed, Remote: c.from.Addr().String(), Count: c.more})
		default:
			d.tell(Record{Event: Suppressed, Remote: c.from.String(), Count: c.more})
		}
	}
	if rest > 0 {
		d.tell(Record{Event: Suppressed, Count: rest})
	}
}

// host is that of a host and port; "" where there is no port.
func host(remote string) string {
	host, _, _ := net.SplitHostPort(remote)
	return host
}

// NetworkOf is what a single host has: its address or, of IPv6, its network of 64
// bits.
func NetworkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}
