package browser

import "net/http"

// Settings make a Policy.
type Settings struct {
	// Allowed are the sites whose pages may use the API besides its own.
	Allowed []Origin
	// Names are the names that the API is called by, besides localhost,
	// addresses and the hosts of Allowed.
	Names []string
	// Named is asked for a name that is not among them; nil where nobody knows
	// more.
	Named func(name string) bool
	// Loopback says that only programs of this machine reach the API: a browser
	// may be the only way to it for anybody else.
	Loopback bool
}

// Policy says who may call from a browser.
type Policy struct {
	allowed  map[Origin]bool
	names    map[string]bool
	named    func(name string) bool
	loopback bool
}

// New makes a policy.
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

// Shares reports whether there are sites whose pages may read answers.
func (p *Policy) Shares() bool { return len(p.allowed) > 0 }

// Call is what is judged of a call. Origin, Site and Preflight are the values
// of the headers Origin, Sec-Fetch-Site and Access-Control-Request-Method.
type Call struct {
	Method, Host            string
	Origin, Site, Preflight []string
	// TLS says that it came over TLS. Pages that did not are another site's then.
	TLS bool
}

// CallOf is the call that a request makes.
func CallOf(r *http.Request) Call {
	c := Call{Method: r.Method, Host: r.Host, Origin: r.Header["Origin"], Site: r.Header["Sec-Fetch-Site"], TLS: r.TLS != nil}
	if len(c.Origin) > 0 {
		c.Preflight = r.Header["Access-Control-Request-Method"]
	}
	return c
}

// Verdict is what a policy says to a call.
type Verdict struct {
	// Refusal is why it is refused, and what makes it allowed; empty where it
	// is not.
	Refusal Refusal
	// Share is the site that may read the answer, to be told in the header
	// Access-Control-Allow-Origin; empty where there is none.
	Share string
	// Preflight says that a browser asks, for that site, whether such a call
	// may be made.
	Preflight bool
}

// Refusal is why a call is refused.
type Refusal int

// Reasons to refuse a call.
const (
	Fine        Refusal = iota
	ForeignHost         // it is addressed to a name that is not one of ours
	ForeignPage         // it would change something, and comes from another site's page
)

// Check is the one place where it is decided whether a call may come from where
// it comes from.
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

// page is the site that the call comes from, where it says so and clearly.
func (c *Call) page() (Origin, bool) {
	if len(c.Origin) != 1 {
		return Origin{}, false
	}
	o, err := Parse(c.Origin[0])
	return o, err == nil
}

// ownPage reports whether the call comes from a page that this very host has
// served, or from none: a person has typed the address.
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
