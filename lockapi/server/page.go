package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/internal/page"
	"github.com/stoutlock/stout/lockapi"
)

// pagePolicy is what a browser lets the page do: use its own files, and call the
// replica that it is from. Nothing inline, no other host, no frame, and no string
// that turns into markup or code.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageHeaders go with each answer about the page. Nobody changes them.
var pageHeaders = http.Header{
	"Content-Security-Policy":      {pagePolicy},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-cache"}, // ask each time whether it has changed
}

// readPage answers with a file of the page. Names are looked up, not followed: there
// is nothing but what was built in.
func readPage(x *exchange) error {
	h := x.c.Writer.Header()
	for name, value := range pageHeaders {
		h[name] = value
	}
	name, err := url.PathUnescape(strings.TrimPrefix(x.c.Param("file"), "/"))
	f, ok := page.Find(name)
	if err != nil || !ok {
		return lockapi.Errorf(lockapi.CodeNotFound, "the page has no file %s; it is at %s", x.path(), lockapi.RoutePage)
	}
	h.Set(headerETag, f.ETag)
	if x.hasAlready(f.ETag) {
		return x.reply(http.StatusNotModified, nil)
	}
	x.write(http.StatusOK, []string{f.Type}, f.Content)
	return nil
}

// readPageBare leads to the page whoever leaves out the slash.
func readPageBare(x *exchange) error { return x.leadToPage(http.StatusPermanentRedirect) }

// readRoot leads browsers to the page. There is nothing else here.
func readRoot(x *exchange) error {
	x.c.Writer.Header().Add("Vary", "Accept")
	if !x.accepts("text/html") {
		return errNoRoute(x)
	}
	return x.leadToPage(http.StatusSeeOther)
}

func (x *exchange) leadToPage(status int) error {
	x.c.Writer.Header().Set("Location", lockapi.RoutePage)
	return x.reply(status, nil)
}

// accepts reports whether the request asks for a media type by its name.
func (x *exchange) accepts(media string) bool {
	for _, values := range x.c.Request.Header.Values("Accept") {
		for one := range strings.SplitSeq(values, ",") {
			if name, weight := accepted(one); name == media && weight > 0 {
				return true
			}
		}
	}
	return false
}
