package browser

import (
	"fmt"
	"net/netip"
	"strings"
)

// Origin is a site as browsers tell sites apart: scheme, host and port. Two are
// the same site if they are equal.
type Origin struct {
	Scheme string // http or https
	Host   Host
}

// Host is a host's name or address, and a port.
type Host struct {
	Name string // lower case, without the dot of the root; an address in its canonical form
	Port string // in decimal, without zeros in front; empty where none is given
}

// Parse reads an origin as the header Origin has it: scheme://host or
// scheme://host:port, and no more. The port of the scheme counts as none.
func Parse(s string) (Origin, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return Origin{}, fmt.Errorf("it begins with http:// or https://")
	}
	if strings.ContainsAny(rest, "/?#@\\") {
		return Origin{}, fmt.Errorf("it is scheme, host and port only, like https://stout.example.com")
	}
	host, ok := ParseHost(rest)
	if !ok {
		return Origin{}, fmt.Errorf("%q is not a host, with a port or without; a name beyond ASCII is written in its form that begins with xn--", rest)
	}
	return Origin{scheme, host.without(scheme)}, nil
}

// String is the origin as browsers write it.
func (o Origin) String() string { return o.Scheme + "://" + o.Host.String() }

// without leaves out the port of the scheme.
func (h Host) without(scheme string) Host {
	if scheme == "http" && h.Port == "80" || scheme == "https" && h.Port == "443" {
		h.Port = ""
	}
	return h
}

// String is the host as a URL has it.
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

// IsAddress reports whether it is an address rather than a name.
func (h Host) IsAddress() bool {
	_, err := netip.ParseAddr(h.Name)
	return err == nil
}

// ParseHost reads a host as the header Host has it: a name or an address, the
// one of IPv6 in brackets, and perhaps a port.
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

// cutPort cuts the port off, without zeros in front.
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

// isName reports whether s could be a host's name or an address of IPv4.
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
