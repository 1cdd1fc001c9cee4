package browser

import (
	"fmt"
	"net/netip"
	"strings"
)

// Origin is a site as browsers define it: scheme, host and port. Two equal
// origins are the same site.
type Origin struct {
	Scheme string // http or https
	Host   Host
}

// Host is the name or address of a host, and a port.
type Host struct {
	Name string // lower case, without the final dot; an address in canonical form
	Port string // decimal, without leading zeros; empty if not given
}

// Parse reads an origin in the form of the header Origin: scheme://host or
// scheme://host:port. It omits the default port of the scheme.
func Parse(s string) (Origin, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return Origin{}, fmt.Errorf("it begins with http:// or https://")
	}
	if strings.ContainsAny(rest, "/?#@\\") {
		return Origin{}, fmt.Errorf("it must have only scheme, host and port, as in https://stout.example.com")
	}
	host, ok := ParseHost(rest)
	if !ok {
		return Origin{}, fmt.Errorf("%q is not a host with an optional port; write a name beyond ASCII in its xn-- form", rest)
	}
	return Origin{scheme, host.without(scheme)}, nil
}

// String returns the origin as browsers write it.
func (o Origin) String() string { return o.Scheme + "://" + o.Host.String() }

// without removes the default port of the scheme.
func (h Host) without(scheme string) Host {
	if scheme == "http" && h.Port == "80" || scheme == "https" && h.Port == "443" {
		h.Port = ""
	}
	return h
}

// String returns the host in the form of URLs.
func (h Host) String() string {
	name := h.Name
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if h.Port == "" {
		return name
	}
	return name + ":" + h.Port
}

func (h Host) isAddress() bool {
	_, err := netip.ParseAddr(h.Name)
	return err == nil
}

// ParseHost reads a host in the form of the header Host: a name or an address
// (IPv6 in brackets), and an optional port.
func ParseHost(s string) (Host, bool) {
	name, port, ok := cutPort(s)
	if !ok {
		return Host{}, false
	}
	if inner, is := strings.CutPrefix(name, "["); is {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() {
			return Host{}, false
		}
		return Host{addr.String(), port}, true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !isName(name) {
		return Host{}, false
	}
	return Host{name, port}, true
}

// cutPort cuts the port off, and removes its leading zeros.
func cutPort(s string) (name, port string, ok bool) {
	end := strings.LastIndexByte(s, ':')
	if end <= strings.LastIndexByte(s, ']') {
		return s, "", true
	}
	name, port = s[:end], strings.TrimLeft(s[end+1:], "0")
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return "", "", false
		}
	}
	if len(port) > 5 || len(port) == 5 && port > "65535" || port == "" && end+1 < len(s) {
		return "", "", false
	}
	return name, port, true
}

// isName reports whether s could be a host name or an IPv4 address.
func isName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '.' || strings.Contains(s, "..") || s[len(s)-1] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}
