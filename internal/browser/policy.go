package browser

import "net/http"

// Settings configure a Policy.
type Settings struct {
	// Allowed are the sites with pages that may use the API, besides the API's
	// own.
	Allowed []Origin
	// Names are the names of the API, besides localhost, addresses and the
	// hosts of Allowed.
	Names []string
	// Named is called for any other name, and reports whether it is one of
	// ours. It may be nil.
	Named func(name string) bool
	// Loopback is set if only programs on this machine reach the API. For
	// anyone else a browser may be the only way to it.
	Loopback bool
}

// Policy decides which calls from browsers are accepted.
type Policy struct {
	allowed  map[Origin]bool
	names    map[string]bool
	named    func(name string) bool
	loopback bool
}

// New returns a policy.
func New(s Settings) *Policy {
	p := &Policy{allowed: map[Origin]bool{}, names: map[string]bool{"localhost": true}, named: s.Named, loopback: s.Loopback}
	for _, o := range s.Allowed {
		p.allowed[o], p.names[o.Host.Name] = true, true
	}
	for _, n := range s.Names {
		if h, ok := ParseHost(n); ok {
			p.names[h.Name] = true
		}
	}
	return p
}

// Shares reports whether pages of any other sites may read answers.
func (p *Policy) Shares() bool { return len(p.allowed) > 0 }

// Call has the parts of a call that a policy checks. Origin, Site and Preflight
// are the values of the headers Origin, Sec-Fetch-Site and
// Access-Control-Request-Method.
type Call struct {
	Method, Host            string
	Origin, Site, Preflight []string
	// TLS is set if the call came over TLS. A page that did not is then another
	// site's.
	TLS bool
}

// CallOf returns the Call of a request.
func CallOf(r *http.Request) Call {
	c := Call{Method: r.Method, Host: r.Host, Origin: r.Header["Origin"], Site: r.Header["Sec-Fetch-Site"], TLS: r.TLS != nil}
	if len(c.Origin) > 0 {
		c.Preflight = r.Header["Access-Control-Request-Method"]
	}
	return c
}

// Verdict is the result of checking a call.
type Verdict struct {
	// Refusal is why the call is refused; zero if it is not.
	Refusal Refusal
	// Share is the site that may read the answer, for the header
	// Access-Control-Allow-Origin; empty without one.
	Share string
	// Preflight is set if a browser asks, for that site, whether it may make
	// such a call.
	Preflight bool
}

// Refusal is the reason for refusing a call.
type Refusal int

// Reasons to refuse a call.
const (
	Fine        Refusal = iota
	ForeignHost         // it is addressed to a name that is not ours
	ForeignPage         // it would change something, and comes from another site's page
)

// Check alone decides whether a call is accepted from its origin.
func (p *Policy) Check(c Call) Verdict {
	browser := len(c.Origin) > 0 || len(c.Site) > 0
	if (browser || p.loopback && c.Host != "") && !p.isOurs(c.Host) {
		return Verdict{Refusal: ForeignHost}
	}
	if !browser {
		return Verdict{}
	}
	method, preflight := c.Method, false
	if method == http.MethodOptions && len(c.Origin) > 0 && len(c.Preflight) > 0 {
		method, preflight = c.Preflight[0], true
	}
	page, known := c.page()
	switch {
	case known && p.allowed[page]:
		return Verdict{Share: c.Origin[0], Preflight: preflight}
	case isSafe(method), c.ownPage(page, known):
		return Verdict{}
	}
	return Verdict{Refusal: ForeignPage}
}

// page returns the site of the page, if the call names exactly one.
func (c *Call) page() (Origin, bool) {
	if len(c.Origin) != 1 {
		return Origin{}, false
	}
	o, err := Parse(c.Origin[0])
	return o, err == nil
}

// ownPage reports whether the call comes from a page that this host has served,
// or from no page: a person has typed the address.
func (c *Call) ownPage(page Origin, known bool) bool {
	if len(c.Site) > 1 || len(c.Site) == 1 && c.Site[0] != "same-origin" && c.Site[0] != "none" {
		return false
	}
	if len(c.Origin) == 0 {
		return true
	}
	host, ok := ParseHost(c.Host)
	return known && ok && page.Host == host.without(page.Scheme) && (!c.TLS || page.Scheme == "https")
}

// isOurs reports whether a Host header names this API.
func (p *Policy) isOurs(header string) bool {
	h, ok := ParseHost(header)
	return ok && (h.IsAddress() || p.names[h.Name] || p.named != nil && p.named(h.Name))
}

// isSafe reports whether a method changes nothing.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
