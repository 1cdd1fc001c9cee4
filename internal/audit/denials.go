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
	// denialsOfOne is how many denials of a caller at an address have lines in a
	// second, and denialsOfAll how many of all known callers together, and of all
	// others.
	denialsOfOne = 10
	denialsOfAll = 1000
	// mostCounted is how many callers and addresses are told apart in a second.
	mostCounted = 4096
)

// denials says which of them have lines. It counts from the first of a second to its
// end, and forgets then. An address is a network of 64 bits where it is one of IPv6,
// which is what a single host has. Each principal is counted for itself at each
// address, and those of no known caller apart: they cannot use up its lines.
type denials struct {
	tell       func(Record)
	suppressed atomic.Uint64

	mu    sync.Mutex
	of    map[source]*denied
	lines lines
}

// source is where denials come from. The zero one is those that are not told apart.
type source struct {
	from      netip.Prefix // zero where it is no address
	principal string       // empty for nobody known
}

type denied struct{ lines, more uint64 }

// lines are how many there were of known callers, and of others.
type lines struct{ known, others int }

// of is those of one kind.
func (l *lines) of(principal string) *int {
	if principal != "" {
		return &l.known
	}
	return &l.others
}

// admit counts one of a principal, empty for nobody known, and reports whether it has
// a line.
func (d *denials) admit(remote, principal string) bool {
	from := source{principal: principal}
	if a, err := netip.ParseAddr(cmp.Or(host(remote), remote)); err == nil {
		from.from = NetworkOf(a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[source]*denied{}
		time.AfterFunc(time.Second, d.flush)
	}
	one := d.of[from]
	if one == nil && len(d.of) >= mostCounted {
		from = source{principal: principal} // those that there is no room to tell apart
		if one = d.of[from]; one == nil && len(d.of) >= 2*mostCounted {
			from = source{}
			one = d.of[from]
		}
	}
	if one == nil {
		one = &denied{}
		d.of[from] = one
	}
	all := d.lines.of(principal)
	if one.lines >= denialsOfOne || *all >= denialsOfAll {
		one.more++
		d.suppressed.Add(1)
		return false
	}
	one.lines++
	*all++
	return true
}

// flush tells how many have no lines, and begins anew.
func (d *denials) flush() {
	d.mu.Lock()
	of := d.of
	d.of, d.lines = nil, lines{}
	d.mu.Unlock()
	// Where there are many, those beyond the first are told of in one line.
	type count struct {
		source
		more uint64
	}
	var counts []count
	for from, one := range of {
		if one.more > 0 {
			counts = append(counts, count{from, one.more})
		}
	}
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.more, a.more), a.from.Addr().Compare(b.from.Addr()), cmp.Compare(a.principal, b.principal))
	})
	var rest uint64
	for i, c := range counts {
		switch {
		case i >= denialsOfAll || !c.from.IsValid():
			rest += c.more
		case c.from.IsSingleIP():
			d.tell(Record{Event: Suppressed, Principal: c.principal, Remote: c.from.Addr().String(), Count: c.more})
		default:
			d.tell(Record{Event: Suppressed, Principal: c.principal, Remote: c.from.String(), Count: c.more})
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
