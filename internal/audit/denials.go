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
	// denialsOfOne bounds the lines per second for the denials of one caller at
	// one address. denialsOfAll is the bound for all known callers together,
	// and again for all other callers together.
	denialsOfOne = 10
	denialsOfAll = 1000
	// anonymous is the principal of a call that is permitted without a credential.
	anonymous = "anonymous"
	// mostCounted bounds the callers and addresses counted separately in a
	// second.
	mostCounted = 4096
)

// denials decides which denials get a line. It counts from the first denial for
// one second, and then starts again. For IPv6 an address means its network of
// 64 bits, which a single host has. Each principal is counted separately at
// each address. Denials without a known caller are counted apart, so they
// cannot use up a principal's lines.
type denials struct {
	tell       func(Record)
	suppressed atomic.Uint64

	mu    sync.Mutex
	of    map[source]*denied
	lines lines
}

// source identifies the origin of denials. The zero source is for denials that
// are not counted separately.
type source struct {
	from      netip.Prefix // zero if the remote is not an address
	principal string       // empty if unknown
}

type denied struct{ lines, more uint64 }

// lines counts lines for known callers, and for others.
type lines struct{ known, others int }

func (l *lines) of(principal string) *int {
	if principal != "" && principal != anonymous {
		return &l.known
	}
	return &l.others
}

// admit counts a denial of a principal, empty if unknown, and reports whether
// it gets a line.
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
		from = source{principal: principal} // no room to count it separately
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

// flush reports how many denials got no line, and starts again.
func (d *denials) flush() {
	d.mu.Lock()
	of := d.of
	d.of, d.lines = nil, lines{}
	d.mu.Unlock()
	// If there are many counts, one line sums up those beyond the first
	// denialsOfAll.
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

// host returns the host of a host and port; "" if there is no port.
func host(remote string) string {
	host, _, _ := net.SplitHostPort(remote)
	return host
}

// NetworkOf returns the addresses that a single host has: its address or, for
// IPv6, its network of 64 bits.
func NetworkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}
