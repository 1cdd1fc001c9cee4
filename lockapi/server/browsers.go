package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/lockapi"
)

// isMember reports whether a member's URL has this host name.
func (s *Server) isMember(name string) bool {
	at := s.attached.Load()
	if at == nil {
		return false
	}
	for _, r := range at.View().Cell.Replicas {
		u, err := url.Parse(r.URL)
		if err != nil {
			continue
		}
		if h, ok := browser.ParseHost(u.Host); ok && h.Name == name {
			return true
		}
	}
	return false
}

// Header values for pages of allowed sites. They are never modified. The API
// ignores credentials that browsers send on their own, so wildcards are safe.
var (
	varyOrigin   = []string{"Origin"}
	varyCaller   = []string{"Authorization, Origin"}
	noStore      = []string{"no-store"}
	allHeaders   = []string{"*"}
	allMethods   = []string{"GET, HEAD, PUT, POST, DELETE, PATCH"}
	askedHeaders = []string{"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Stout-Forward, X-Consul-Token"}
	tenMinutes   = []string{"600"}
	yes          = []string{"true"}
)

// screen refuses a call if its Host or Origin is not allowed, and sets the
// headers that let allowed pages read the answer. It reports whether the call
// was a preflight, which is then answered.
func (x *exchange) screen() (answered bool, err error) {
	policy := x.browsers
	if x.route.door {
		policy = x.doorBrowsers
	}
	v := policy.Check(x.c.Request)
	h := x.c.Writer.Header()
	switch {
	case strings.HasPrefix(x.c.Request.URL.Path, "/v1/"): // an answer is for one caller at one time
		h["Cache-Control"], h["Vary"] = noStore, varyCaller
	case policy.Shares():
		h["Vary"] = varyOrigin
	}
	switch {
	case v.Refusal != browser.Fine:
		return false, x.errCrossOrigin(v.Refusal)
	case v.Share == "":
		return false, nil
	}
	h["Access-Control-Allow-Origin"] = []string{v.Share}
	h["Access-Control-Expose-Headers"] = allHeaders
	if !v.Preflight {
		return false, nil
	}
	h["Access-Control-Allow-Methods"] = allMethods
	h["Access-Control-Allow-Headers"] = askedHeaders
	h["Access-Control-Max-Age"] = tenMinutes
	if x.c.Request.Header.Get("Access-Control-Request-Private-Network") != "" {
		h["Access-Control-Allow-Private-Network"] = yes
	}
	return true, x.reply(http.StatusNoContent, nil)
}

func (x *exchange) errCrossOrigin(why browser.Refusal) error {
	r := x.c.Request
	if why == browser.ForeignHost {
		return lockapi.Errorf(lockapi.CodeCrossOrigin, "the call is addressed to host %q; this API accepts localhost, its addresses, "+
			"the hosts of its members' URLs, and the hosts in --api-host and --allow-origin; if the host is right, add it to stoutd with --api-host", lockapi.Clip(r.Host))
	}
	from := "another site"
	if sites := r.Header["Origin"]; len(sites) == 1 {
		from = lockapi.Clip(sites[0])
	}
	return lockapi.Errorf(lockapi.CodeCrossOrigin, "a page of %q sends this call to host %q, which is another site; "+
		"to let pages of that site use this API, add it to stoutd with --allow-origin", from, lockapi.Clip(r.Host))
}
