package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/lockapi"
)

// newPolicy is the policy for calls from browsers. Names of members are ours as
// well, also those of members that have come since the settings were made.
func (s *Server) newPolicy() *browser.Policy {
	p := s.opts.Browsers
	p.Named = s.isMember
	return browser.New(p)
}

// isMember reports whether a member's URL has the name.
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

// Headers of answers to calls from pages of allowed sites, as values. Nobody
// changes them. Credentials that a browser sends by itself are none of this
// API's, so the wildcards hold.
var (
	varyOrigin   = []string{"Origin"}
	varyCaller   = []string{"Authorization, Origin"}
	noStore      = []string{"no-store"}
	allHeaders   = []string{"*"}
	allMethods   = []string{"GET, HEAD, PUT, POST, DELETE, PATCH"}
	askedHeaders = []string{"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Stout-Forward"}
	tenMinutes   = []string{"600"}
	yes          = []string{"true"}
)

// screen refuses a call that may not come from where a browser says that it
// does, and tells the browser which pages may read the answer. It reports
// whether the call was a browser's question for that, which is answered.
func (x *exchange) screen() (answered bool, err error) {
	v := x.browsers.Check(browser.CallOf(x.c.Request))
	h := x.c.Writer.Header()
	switch {
	case strings.HasPrefix(x.c.Request.URL.Path, "/v1/"): // an answer is for one caller, at one time
		h["Cache-Control"], h["Vary"] = noStore, varyCaller
	case x.browsers.Shares():
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
		return lockapi.Errorf(lockapi.CodeCrossOrigin, "the call is addressed to host %q, and this API knows itself as localhost, by its addresses, "+
			"the URLs of its members and what --api-host and --allow-origin name; if that is its name, say --api-host to stoutd", lockapi.Clip(r.Host))
	}
	from := "another site"
	if sites := r.Header["Origin"]; len(sites) == 1 {
		from = lockapi.Clip(sites[0])
	}
	return lockapi.Errorf(lockapi.CodeCrossOrigin, "a browser sends this call for a page of %q, which is not of the host %q that it is addressed to; "+
		"if pages of that site are to use this API, say --allow-origin to stoutd", from, lockapi.Clip(r.Host))
}
