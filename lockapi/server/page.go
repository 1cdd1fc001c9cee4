package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/internal/page"
	"github.com/stoutlock/stout/lockapi"
)

// pagePolicy lets the page use its own files and call its own replica. It
// forbids inline code, other hosts, frames, and strings that turn into markup
// or code.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageHeaders are set on every answer for the page. They are never modified.
var pageHeaders = http.Header{
	"Content-Security-Policy":      {pagePolicy},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-cache"}, // revalidate each time
}

// readPage answers with a file of the page. It finds only files built into the
// binary, by name.
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

// readPageBare redirects from the URL without the final slash.
func readPageBare(x *exchange) error { return x.leadToPage(http.StatusPermanentRedirect) }

// readRoot redirects browsers to the page. For others there is no such route.
func readRoot(x *exchange) error {
	x.c.Writer.Header().Add("Vary", "Accept")
	if x.accepted()["text/html"] == 0 {
		return errNoRoute(x)
	}
	return x.leadToPage(http.StatusSeeOther)
}

func (x *exchange) leadToPage(status int) error {
	x.c.Writer.Header().Set("Location", lockapi.RoutePage)
	return x.reply(status, nil)
}
