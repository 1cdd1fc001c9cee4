package call

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/timing"
)

const (
	lookupTime = 5 * time.Second // for all queries of a name
	lookupGap  = time.Second     // between two lookups of a name
	mostFound  = 32              // addresses of a name
)

// dnsName is a DNS name of replicas.
type dnsName struct {
	text   string // as it was given
	scheme string
	host   string // with addresses; else empty
	port   string // of host
	srv    string // with SRV records; else empty
	cert   string // the name that certificates are verified against

	mu    sync.Mutex // guards the following
	found []*Endpoint
	under *lookup // the present or last one
	ended time.Time
}

// lookup is one lookup of a name. err is valid once done is closed.
type lookup struct {
	done chan struct{}
	err  error
}

// isName reports whether a caller's text is a DNS name rather than a URL:
// dns:NAME:PORT, dns:NAME, or either behind dns+http: or dns+https:.
func isName(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	scheme = strings.ToLower(scheme)
	return ok && (scheme == "dns" || strings.HasPrefix(scheme, "dns+"))
}

// parseName parses a text for which isName holds. scheme is the default scheme
// of its replicas.
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
		return nil, wrong("remove the slashes; write %s:%s", how, strings.Trim(after, "/"))
	}
	if rest == "" {
		return nil, wrong("no name; write %s:NAME:PORT, for instance %s:stout.example.com:7101", how, how)
	}
	n := &dnsName{text: text, scheme: scheme}
	if strings.Contains(rest, ":") {
		host, port, err := net.SplitHostPort(rest)
		switch {
		case err != nil:
			return nil, wrong("%v; write %s:NAME:PORT, with an IPv6 address in brackets", err, how)
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
		return nil, wrong("this is a port without a name; write %s:NAME:%s, or %s://dns:%[2]s for a host named dns", how, rest, scheme)
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

// check returns an error if a name cannot be resolved.
func (n *dnsName) check(wrong func(string, ...any) error, asked string) error {
	plain := strings.TrimSuffix(asked, ".")
	if len(plain) > 253 {
		return wrong("a DNS name has at most 253 bytes, and this one has %d", len(plain))
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
			return wrong("%q is not in ASCII; write the name in its DNS form, with xn--", label)
		case i >= 0:
			return wrong("a host name cannot contain %q; write only dns:NAME:PORT", label[i:i+1])
		case label[0] == '-' || label[len(label)-1] == '-':
			return wrong("%q begins or ends with a hyphen", label)
		}
	}
	return nil
}

// begin starts the lookup of a name, unless one is under way or has just ended.
func (f *finder) begin(n *dnsName) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.under; l != nil {
		select {
		case <-l.done:
			if time.Since(n.ended) < lookupGap {
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
		found, err := n.resolve(ctx, f.c.Resolver)
		n.mu.Lock()
		if len(found) > 0 {
			n.found = found
		}
		l.err, n.ended = err, time.Now()
		n.mu.Unlock()
		if err != nil {
			f.c.Log.Debug("stout: name not found", "name", n.text, "error", err)
		}
		f.publish()
		close(l.done)
	}()
	return l
}

// publish passes the given and resolved endpoints to the router.
func (f *finder) publish() {
	f.publishing.Lock()
	defer f.publishing.Unlock()
	given := f.fixed
	for _, n := range f.names {
		n.mu.Lock()
		given = append(given[:len(given):len(given)], n.found...)
		n.mu.Unlock()
	}
	f.c.router.set(given, nil)
	if len(given) > 0 {
		f.foundOnce.Do(func() { close(f.found) })
	}
}

// beginAll begins the lookups of all names.
func (f *finder) beginAll() (under []*lookup) {
	for _, n := range f.names {
		under = append(under, f.begin(n))
	}
	return under
}

// first waits until a replica is known, when only DNS names were given.
func (f *finder) first(ctx context.Context) error {
	var errs []error
	for i, l := range f.beginAll() {
		select {
		case <-f.found:
			return nil
		case <-l.done:
			if l.err != nil {
				errs = append(errs, &AttemptError{URL: f.names[i].text, Err: l.err})
			}
		case <-ctx.Done():
			return &AttemptError{URL: f.names[i].text, Err: context.Cause(ctx)}
		}
	}
	if f.c.router.pick() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// lookUpNow returns the endpoints of a DNS name that was given to the client.
func (f *finder) lookUpNow(ctx context.Context, text string) ([]*Endpoint, error) {
	i := slices.IndexFunc(f.names, func(n *dnsName) bool { return n.text == text })
	if i < 0 {
		return nil, fmt.Errorf("stout: %q is not among the DNS names of this client", text)
	}
	n := f.names[i]
	l := f.begin(n)
	if err := timing.Await(ctx, l.done); err != nil {
		return nil, &AttemptError{URL: n.text, Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.found) == 0 {
		return nil, &AttemptError{URL: n.text, Err: l.err}
	}
	return n.found, nil
}

// resolve asks the DNS for the endpoints of a name. If part of the DNS does not
// answer, earlier endpoints are kept in addition to the new ones. If no answer
// comes at all, or an empty one, found is empty.
func (n *dnsName) resolve(ctx context.Context, dns resolver) (found []*Endpoint, err error) {
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

// addresses returns the usable addresses of a host.
func (n *dnsName) addresses(ctx context.Context, dns resolver, host, port string) (out []netip.AddrPort, err error) {
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

// endpoints returns at most mostFound endpoints of addresses, in random order,
// so that clients differ.
func (n *dnsName) endpoints(at []netip.AddrPort) (out []*Endpoint) {
	rand.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
	for _, a := range at[:min(len(at), mostFound)] {
		e, err := parseEndpoint(n.scheme + "://" + a.String())
		if err != nil {
			continue // not an address form
		}
		if n.scheme == "https" {
			e.name = n.cert
			e.URL += " (" + n.cert + ")"
		}
		out = append(out, e)
	}
	return out
}
