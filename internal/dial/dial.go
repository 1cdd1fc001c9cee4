// Package dial connects to hosts by name, without waiting for the DNS if it has
// answered before.
//
// A Dialer remembers the addresses of each host. It dials these at once and
// looks the name up in the background, then also dials what the lookup finds.
// So a DNS that hangs, fails or errs does not delay a connection to a host that
// was reached before. A host that has moved is found after its old address has
// failed.
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

	"github.com/stoutlock/stout/internal/wait"
)

const (
	lookupTime = 5 * time.Second // bounds one lookup, and so the first dial to a host
	lookupGap  = time.Second     // between two lookups of a host
	// nextAddress is how long an address has to answer before the next is
	// dialled in parallel.
	nextAddress   = 250 * time.Millisecond
	mostAddresses = 16  // addresses to dial per host
	mostHosts     = 256 // hosts with remembered addresses
)

// Resolver queries the DNS; *net.Resolver is one. LookupNetIP may return after
// its context has ended.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer makes connections. The zero value is ready; it is safe for concurrent use.
type Dialer struct {
	// Resolver defaults to net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a numeric address. The default is the DialContext of a
	// net.Dialer with KeepAlive.
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	KeepAlive time.Duration

	mu    sync.Mutex // guards the following
	hosts map[string]*host
}

// host is the state of one host. The Dialer's mutex guards it.
type host struct {
	found  []netip.Addr // by the last lookup that found any
	worked netip.Addr   // of the last connection
	lookup *lookup      // the last lookup
}

// lookup is one lookup, in progress until done is closed.
type lookup struct {
	done  chan struct{}
	ended time.Time // ended and err are set before done is closed
	err   error
}

// DialContext connects to an address, a host and a port. Until ctx ends it
// tries the known addresses of the host, and any that a lookup finds in the
// meantime. The error is an *net.OpError with Op "dial".
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

// begin starts a lookup of a host, unless one is in progress or has just ended.
// It returns the lookup and the known addresses, most likely first.
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

func (d *Dialer) lookUp(name string, h *host, l *lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	answer, err := wait.Get(ctx, func() ([]netip.Addr, error) { return d.resolver().LookupNetIP(ctx, "ip", name) })
	if ctx.Err() != nil {
		err = unanswered(name)
	}
	var found []netip.Addr
	for _, ip := range answer {
		if ip = ip.Unmap(); ip.IsValid() && !slices.Contains(found, ip) {
			found = append(found, ip)
		}
	}
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(found) > 0 {
		h.found = found[:min(len(found), mostAddresses)]
	}
	l.err, l.ended = err, time.Now()
	close(l.done)
}

func (d *Dialer) resolver() Resolver {
	if d.Resolver != nil {
		return d.Resolver
	}
	return net.DefaultResolver
}

func unanswered(name string) error {
	return &net.DNSError{Err: "the DNS does not answer", Name: name, IsTimeout: true, IsTemporary: true}
}

// addresses returns the addresses to dial: the last lookup's, with the address
// that worked first. If that one was not in the lookup, it comes last.
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

type attempt struct {
	d                   *Dialer
	network, name, port string
	cancel              context.CancelFunc
	results             chan result

	tried []netip.Addr
	open  int // dials in progress
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

// next returns the index of the first untried address, or -1.
func (a *attempt) next(all []netip.Addr) int {
	return slices.IndexFunc(all, func(ip netip.Addr) bool { return !slices.Contains(a.tried, ip) })
}

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

func (d *Dialer) note(name string, ip netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[name]; h != nil {
		h.worked = ip
	}
}

// failure returns the error of a failed attempt. over is the context's error,
// if any; found is nil once the lookup has ended.
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
