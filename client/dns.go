package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resolver asks the DNS; *net.Resolver is one. Its methods return when their
// context ends.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

const (
	lookupTime = 5 * time.Second // for all that a name takes
	lookupGap  = time.Second     // between two lookups of a name that fail
	mostFound  = 32              // addresses that a name stands for
)

// dnsName is a name of the DNS that stands for replicas.
type dnsName struct {
	text   string // as it was given
	scheme string
	host   string // of addresses, or else empty
	port   string // of those
	srv    string // of SRV records, or else empty
	cert   string // the name that certificates are judged by

	mu    sync.Mutex // guards the following
	found []*endpoint
	under *lookup // under way, or the last one
	ended time.Time
}

// lookup is one under way. err is of use once done is closed.
type lookup struct {
	done chan struct{}
	err  error
}

// isName says whether what the caller wrote is a name of the DNS rather than a
// URL: dns:NAME:PORT, dns:NAME, or either behind dns+http: or dns+https:.
func isName(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	scheme = strings.ToLower(scheme)
	return ok && (scheme == "dns" || strings.HasPrefix(scheme, "dns+"))
}

// parseName reads what isName says is one. scheme is what replicas are called by
// where it does not say.
func parseName(text, scheme string) (*dnsName, error) {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("stout: %q: %s", text, fmt.Sprintf(format, args...))
	}
	how, rest, _ := strings.Cut(text, ":")
	switch how = strings.ToLower(how); how {
	case "dns":
	case "dns+http", "dns+https":
		scheme = strings.TrimPrefix(how, "dns+")
	default:
		return nil, wrong("%s is not known; write dns:NAME:PORT, or dns+https:NAME:PORT", how)
	}
	if after, slashes := strings.CutPrefix(rest, "//"); slashes {
		return nil, wrong("no slashes belong there; write %s:%s", how, strings.Trim(after, "/"))
	}
	if rest == "" {
		return nil, wrong("no name; write %s:NAME:PORT, for instance %s:stout.example.com:7101", how, how)
	}
	n := &dnsName{text: text, scheme: scheme}
	if strings.Contains(rest, ":") {
		host, port, err := net.SplitHostPort(rest)
		switch {
		case err != nil:
			return nil, wrong("%v; write %s:NAME:PORT, and an address of IPv6 in brackets", err, how)
		case port == "" || !isPort(port):
			return nil, wrong("port %q is not within 1..65535", port)
		case strings.HasPrefix(host, "_"):
			return nil, wrong("an SRV record has its own ports; write %s:%s", how, host)
		}
		n.host, n.port, n.cert = host, port, strings.TrimSuffix(host, ".")
		if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
			return n, nil
		}
		return n, n.check(wrong, host)
	}
	if _, err := strconv.Atoi(rest); err == nil {
		return nil, wrong("that is a port, and no name; write %s:NAME:%s, or %s://dns:%[2]s for a host that is called dns", how, rest, scheme)
	}
	n.srv, n.cert = "_stout._tcp."+rest, strings.TrimSuffix(rest, ".")
	if strings.HasPrefix(rest, "_") {
		parts := strings.SplitN(rest, ".", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[1], "_") || parts[2] == "" {
			return nil, wrong("the name of an SRV record is _SERVICE._PROTO.NAME, for instance _stout._tcp.example.com")
		}
		n.srv, n.cert = rest, strings.TrimSuffix(parts[2], ".")
	}
	return n, n.check(wrong, n.srv)
}

// check says what is wrong with a name that is to be asked for.
func (n *dnsName) check(wrong func(string, ...any) error, asked string) error {
	plain := strings.TrimSuffix(asked, ".")
	if len(plain) > 253 {
		return wrong("a name of the DNS has at most 253 bytes, and this one has %d", len(plain))
	}
	for label := range strings.SplitSeq(plain, ".") {
		odd := func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}
		i := strings.IndexFunc(label, odd)
		switch {
		case label == "" || len(label) > 63:
			return wrong("a part of the name between dots has 1 to 63 bytes, and %q has %d", label, len(label))
		case i >= 0 && label[i] >= 0x80:
			return wrong("%q is not in ASCII; write the name as the DNS has it, with xn--", label)
		case i >= 0:
			return wrong("%q does not belong into the name of a host; write dns:NAME:PORT and nothing more", label[i:i+1])
		case label[0] == '-' || label[len(label)-1] == '-':
			return wrong("%q begins or ends with a hyphen", label)
		}
	}
	return nil
}

// begin begins to look a name up, unless that is under way, or has failed a
// moment ago.
func (f *finder) begin(n *dnsName) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.under; l != nil {
		select {
		case <-l.done:
			if l.err != nil && time.Since(n.ended) < lookupGap {
				return l
			}
		default:
			return l
		}
	}
	l := &lookup{done: make(chan struct{})}
	n.under = l
	go func() {
		ctx, cancel := context.WithTimeout(f.ctx, lookupTime)
		defer cancel()
		found, err := n.resolve(ctx, f.dns)
		n.mu.Lock()
		if len(found) > 0 {
			n.found = found
		}
		l.err, n.ended = err, time.Now()
		n.mu.Unlock()
		if err != nil {
			f.log.Debug("stout: name not found", "name", n.text, "error", err)
		}
		f.publish()
		close(l.done)
	}()
	return l
}

// publish tells the targets what was given and found.
func (f *finder) publish() {
	f.publishing.Lock()
	defer f.publishing.Unlock()
	given := f.fixed
	for _, n := range f.names {
		n.mu.Lock()
		given = append(given[:len(given):len(given)], n.found...)
		n.mu.Unlock()
	}
	f.c.targets.setGiven(given)
	if len(given) > 0 && !f.isFound {
		f.isFound = true
		close(f.found)
	}
}

// lookUp looks all names up, as far as that is done before ctx ends.
func (f *finder) lookUp(ctx context.Context) {
	var under []*lookup
	for _, n := range f.names {
		under = append(under, f.begin(n))
	}
	for _, l := range under {
		if await(ctx, l.done) != nil {
			return
		}
	}
}

// first waits until a replica is known, where there is only the DNS to tell of one.
func (f *finder) first(ctx context.Context) error {
	var under []*lookup
	for _, n := range f.names {
		under = append(under, f.begin(n))
	}
	var errs []error
	for i, l := range under {
		select {
		case <-f.found:
			return nil
		case <-l.done:
			if l.err != nil {
				errs = append(errs, &attemptError{base: f.names[i].text, err: l.err})
			}
		case <-ctx.Done():
			return &attemptError{base: f.names[i].text, err: context.Cause(ctx)}
		}
	}
	if f.c.targets.pick() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// resolve asks the DNS for what a name stands for. Where it does not answer in
// part, what was found before stays beside what is found now; where it does not
// answer at all, or with nothing, found is empty.
func (n *dnsName) resolve(ctx context.Context, dns Resolver) (found []*endpoint, err error) {
	if n.srv == "" {
		addrs, err := n.addresses(ctx, dns, n.host, n.port)
		return n.endpoints(addrs), err
	}
	_, records, err := dns.LookupSRV(ctx, "", "", n.srv)
	if len(records) == 0 {
		if err == nil {
			err = errors.New("no SRV record for " + n.srv)
		}
		return nil, err
	}
	records = records[:min(len(records), mostFound)]
	addrs, errs := make([][]netip.AddrPort, len(records)), make([]error, len(records))
	var wg sync.WaitGroup
	for i, r := range records {
		if r.Target == "." || r.Port == 0 {
			continue // there is no such service
		}
		wg.Go(func() { addrs[i], errs[i] = n.addresses(ctx, dns, r.Target, strconv.Itoa(int(r.Port))) })
	}
	wg.Wait()
	var all []netip.AddrPort
	for _, a := range addrs {
		all = append(all, a...)
	}
	found, err = n.endpoints(all), errors.Join(errs...)
	if err != nil && len(found) > 0 {
		n.mu.Lock()
		found = append(found, n.found...)[:min(len(found)+len(n.found), mostFound)]
		n.mu.Unlock()
	}
	if err == nil && len(found) == 0 {
		err = errors.New("the SRV records for " + n.srv + " name no host")
	}
	return found, err
}

// addresses are those of a host.
func (n *dnsName) addresses(ctx context.Context, dns Resolver, host, port string) (out []netip.AddrPort, err error) {
	p, _ := strconv.ParseUint(port, 10, 16) // was checked
	ips, err := dns.LookupNetIP(ctx, "ip", host)
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.IsValid() && ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast() {
			out = append(out, netip.AddrPortFrom(ip, uint16(p)))
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("no address for " + host)
	}
	return out, err
}

// endpoints are those at addresses, in an order that differs from client to client
// and from time to time: as many as there is room for.
func (n *dnsName) endpoints(at []netip.AddrPort) (out []*endpoint) {
	rand.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
	for _, a := range at[:min(len(at), mostFound)] {
		e, err := parseEndpoint(n.scheme + "://" + a.String())
		if err != nil {
			continue // of no form that an address has
		}
		if n.scheme == "https" {
			e.name = n.cert
			e.base += " (" + n.cert + ")"
		}
		out = append(out, e)
	}
	return out
}
