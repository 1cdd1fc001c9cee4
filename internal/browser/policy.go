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
	Settings
	allowed map[Origin]bool
	names   map[string]bool
}

// New returns a policy.
func New(s Settings) *Policy {
	p := &Policy{allowed: map[Origin]bool{}, names: map[string]bool{"localhost": true}, Settings: s}
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
func (p *Policy) Check(r *http.Request) Verdict {
	origins, sites, asked := r.Header["Origin"], r.Header["Sec-Fetch-Site"], r.Header["Access-Control-Request-Method"]
	browser := len(origins) > 0 || len(sites) > 0
	if (browser || p.Loopback && r.Host != "") && !p.isOurs(r.Host) {
		return Verdict{Refusal: ForeignHost}
	}
	if !browser {
		return Verdict{}
	}
	method, preflight := r.Method, false
	if method == http.MethodOptions && len(origins) > 0 && len(asked) > 0 {
		method, preflight = asked[0], true
	}
	page, known := siteOf(origins)
	switch {
	case known && p.allowed[page]:
		return Verdict{Share: origins[0], Preflight: preflight}
	case isSafe(method), isOwnPage(sites) && (len(origins) == 0 || known && hasServed(r, page)):
		return Verdict{}
	}
	return Verdict{Refusal: ForeignPage}
}

// siteOf returns the site of the page, if the call names exactly one.
func siteOf(origins []string) (Origin, bool) {
	if len(origins) != 1 {
		return Origin{}, false
	}
	o, err := Parse(origins[0])
	return o, err == nil
}

// isOwnPage reports whether the call comes, by its browser, from a page of this
// host, or from no page: a person has typed the address. Old browsers send no header.
func isOwnPage(sites []string) bool {
	return len(sites) == 0 || len(sites) == 1 && (sites[0] == "same-origin" || sites[0] == "none")
}

// hasServed reports whether a page is this host's. Over TLS, a page without TLS is
// another site's.
func hasServed(r *http.Request, page Origin) bool {
	host, ok := ParseHost(r.Host)
	return ok && page.Host == host.without(page.Scheme) && (r.TLS == nil || page.Scheme == "https")
}

// isOurs reports whether a Host header names this API.
func (p *Policy) isOurs(header string) bool {
	h, ok := ParseHost(header)
	return ok && (h.isAddress() || p.names[h.Name] || p.Named != nil && p.Named(h.Name))
}

func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
