package client

import (
	"fmt"
	"net/url"
	"strings"
)

// endpoint is the base URL of one replica's API, parsed once.
type endpoint struct {
	base   string // canonical text: scheme://host/path without a final slash
	scheme string
	host   string
	path   string
}

func parseEndpoint(text string) (*endpoint, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("stout: URL %q: %w", text, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("stout: URL %q: the scheme is %q; it must be http or https", text, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("stout: URL %q has no host", text)
	case u.User != nil:
		return nil, fmt.Errorf("stout: URL of host %q carries credentials; they do not belong in it", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("stout: URL %q has a query or a fragment; give the base URL only", text)
	}
	path := strings.TrimRight(u.Path, "/")
	return &endpoint{base: u.Scheme + "://" + u.Host + path, scheme: u.Scheme, host: u.Host, path: path}, nil
}

// url is the address of a route below the endpoint. Path segments are escaped
// when the request is written.
func (e *endpoint) url(path, query string) *url.URL {
	return &url.URL{Scheme: e.scheme, Host: e.host, Path: e.path + path, RawQuery: query}
}
