// Package dial connects to hosts by name without waiting for the DNS where it has
// answered before.
//
// A Dialer remembers the addresses of each host. It dials these at once, looks
// the name up in the background, and dials what that finds too. So a DNS that
// hangs, fails or errs delays no call to a host that was reached before, and a
// host that moves is found after its old address has failed.
package dial

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	lookupTime = 5 * time.Second // bounds one lookup, and so the first dial of a host
	lookupGap  = time.Second     // between two lookups of a host
	// nextAddress is how long an address has to answer before the next is dialled
	// beside it.
	nextAddress   = 250 * time.Millisecond
	mostAddresses = 16  // of a host, that are dialled
	mostHosts     = 256 // that addresses are remembered of
)

// Resolver asks the DNS; *net.Resolver is one. LookupNetIP may return later than its
// context ends.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer makes connections. The zero value is ready; it is safe for concurrent use.
type Dialer struct {
	// Resolver defaults to net.DefaultResolver.
	Resolver Resolver
	// Dial connects to an address without a name. It defaults to that of a
	// net.Dialer with KeepAlive.
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	KeepAlive time.Duration

	mu    sync.Mutex // guards the following
	hosts map[string]*host
}

// host is what is known of one. The Dialer's mutex guards it.
type host struct {
	found  []netip.Addr // by the last lookup that found anything
	worked netip.Addr   // that was connected to last
	lookup *lookup      // the last one
}

// lookup is one that is under way until done is closed.
type lookup struct {
	done  chan struct{}
	ended time.Time // the following are of use once done is closed
	err   error
}

// DialContext connects to an address, which is a host and a port. Until ctx ends it
// tries the addresses of the host that are known, and those that a lookup finds
// meanwhile. The error is an *net.OpError whose Op is "dial".
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return d.connect(ctx, network, address)
	}
	a := attempt{d: d, network: network, name: name, port: port, results: make(chan result)}
	ctx, a.cancel = context.WithCancel(ctx)
	defer a.cancel()
	return a.run(ctx)
}

func (d *Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Dial != nil {
		return d.Dial(ctx, network, address)
	}
	return (&net.Dialer{KeepAlive: d.KeepAlive}).DialContext(ctx, network, address)
}

// begin begins a lookup of a host, unless one is under way or has just ended, and
// returns it and the addresses that are known, the likeliest first.
func (d *Dialer) begin(name string) (*lookup, []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[name]
	if h == nil {
		if d.hosts == nil {
			d.hosts = map[string]*host{}
		}
		for other := range d.hosts {
			if len(d.hosts) < mostHosts {
				break
			}
			delete(d.hosts, other)
		}
		h = &host{}
		d.hosts[name] = h
	}
	if l := h.lookup; l == nil || isClosed(l.done) && time.Since(l.ended) >= lookupGap {
		h.lookup = &lookup{done: make(chan struct{})}
		go d.lookUp(name, h, h.lookup)
	}
	return h.lookup, h.addresses()
}

// lookUp asks the DNS for a host.
func (d *Dialer) lookUp(name string, h *host, l *lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	type answer struct {
		found []netip.Addr
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		found, err := d.resolver().LookupNetIP(ctx, "ip", name)
		answers <- answer{found, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = unanswered(name)
	}
	var found []netip.Addr
	for _, ip := range a.found {
		if ip = ip.Unmap(); ip.IsValid() && !slices.Contains(found, ip) {
			found = append(found, ip)
		}
	}
	if a.err == nil && len(found) == 0 {
		a.err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(found) > 0 {
		h.found = found[:min(len(found), mostAddresses)]
	}
	l.err, l.ended = a.err, time.Now()
	close(l.done)
}

func (d *Dialer) resolver() Resolver {
	if d.Resolver != nil {
		return d.Resolver
	}
	return net.DefaultResolver
}

// unanswered is the error of a name that the DNS is silent about.
func unanswered(name string) error {
	return &net.DNSError{Err: "the DNS does not answer", Name: name, IsTimeout: true, IsTemporary: true}
}

// addresses are those to dial: what was found, the one that worked first, and that
// one last where it is not among them any more.
func (h *host) addresses() []netip.Addr {
	all := slices.Clone(h.found)
	if !h.worked.IsValid() {
		return all
	}
	if i := slices.Index(all, h.worked); i >= 0 {
		return slices.Insert(slices.Delete(all, i, i+1), 0, h.worked)
	}
	return append(all, h.worked)
}

// attempt is one call of DialContext.
type attempt struct {
	d                   *Dialer
	network, name, port string
	cancel              context.CancelFunc
	results             chan result

	tried []netip.Addr
	open  int // connections that are being made
	errs  []error
}

type result struct {
	ip   netip.Addr
	conn net.Conn
	err  error
}

func (a *attempt) run(ctx context.Context) (net.Conn, error) {
	l, all := a.d.begin(a.name)
	found := l.done
	if isClosed(found) {
		found = nil
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			if a.tryNext(ctx, all) {
				next.Reset(nextAddress)
			}
		case <-found:
			found = nil
			_, all = a.d.begin(a.name)
			next.Reset(0)
		case r := <-a.results:
			if a.open--; r.err == nil {
				a.d.note(a.name, r.ip)
				return r.conn, nil
			}
			a.errs = append(a.errs, r.err)
			next.Reset(0)
		case <-ctx.Done():
			return nil, a.failure(ctx.Err(), l, found)
		}
		if a.open == 0 && found == nil && a.next(all) < 0 {
			return nil, a.failure(nil, l, nil)
		}
	}
}

// next is the index of the first address that was not tried, or -1.
func (a *attempt) next(all []netip.Addr) int {
	return slices.IndexFunc(all, func(ip netip.Addr) bool { return !slices.Contains(a.tried, ip) })
}

// tryNext dials the next address, if there is one.
func (a *attempt) tryNext(ctx context.Context, all []netip.Addr) bool {
	i := a.next(all)
	if i < 0 {
		return false
	}
	ip := all[i]
	a.tried = append(a.tried, ip)
	a.open++
	go func() {
		conn, err := a.d.connect(ctx, a.network, net.JoinHostPort(ip.String(), a.port))
		select {
		case a.results <- result{ip, conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	return true
}

// note remembers the address that was connected to.
func (d *Dialer) note(name string, ip netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[name]; h != nil {
		h.worked = ip
	}
}

// failure is why no connection came about. over is the end of the context, and found
// is nil where the lookup is over.
func (a *attempt) failure(over error, l *lookup, found <-chan struct{}) error {
	err := errors.Join(a.errs...)
	switch {
	case len(a.errs) == 1:
		err = a.errs[0]
	case err == nil && found != nil && len(a.tried) == 0:
		err = unanswered(a.name)
	case err == nil && over == nil:
		err = l.err
	}
	err = cmp.Or(err, over)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return err
	}
	return &net.OpError{Op: "dial", Net: a.network, Err: err}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
