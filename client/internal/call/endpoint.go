package call

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
)

// Endpoint is the base URL of one replica's API, parsed once.
type Endpoint struct {
	URL    string // canonical text: scheme://host/path without a final slash
	scheme string
	host   string
	path   string
	addr   string // host:port for a direct connection; else empty
	name   string // verifies its certificate; empty means its host

	works atomic.Bool // it has answered since its last failure
}

// givenEndpoint parses a caller's URL, or host:port, which gets the given
// scheme.
func givenEndpoint(text, scheme string) (*Endpoint, error) {
	if strings.Contains(text, "://") {
		return parseEndpoint(text)
	}
	authority, _, _ := strings.Cut(text, "/")
	if host, port, err := net.SplitHostPort(authority); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("stout: %q is neither a URL nor host:port; write %s://host:port, for instance %[2]s://localhost:7101", text, scheme)
	}
	return parseEndpoint(scheme + "://" + text)
}

func parseEndpoint(text string) (*Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("stout: URL %q: %w", text, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("stout: URL %q: the scheme is %q; it must be http or https", text, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("stout: URL %q has no host", text)
	case !isPort(u.Port()):
		return nil, fmt.Errorf("stout: URL %q: port %s is not within 1..65535", text, u.Port())
	case u.User != nil:
		return nil, fmt.Errorf("stout: URL of host %q carries credentials; remove them", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("stout: URL %q has a query or a fragment; give the base URL only", text)
	}
	path := strings.TrimRight(u.Path, "/")
	return &Endpoint{URL: u.Scheme + "://" + u.Host + path, scheme: u.Scheme, host: u.Host, path: path, addr: directAddr(u)}, nil
}

// isPort reports whether a URL's port is valid or absent.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// directAddr returns the address to dial for a URL. It is "" if the URL needs a
// proxy, or needs another form of its host name (zones, non-Latin scripts).
func directAddr(u *url.URL) string {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	odd := func(r rune) bool { return r > unicode.MaxASCII || r == '%' }
	if proxy != nil || err != nil || strings.ContainsFunc(u.Host, odd) {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// address returns the URL of a route below the endpoint. Path segments are
// escaped when the request is written.
func (e *Endpoint) address(path, query string) *url.URL {
	return &url.URL{Scheme: e.scheme, Host: e.host, Path: e.path + path, RawQuery: query}
}
