package embed

import (
	"net"
	"net/url"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/browser"
)

// browsers returns the rules for calls from web pages to an API that listens at the
// address.
func browsers(c *config.Config, at net.Addr) browser.Settings {
	names := append([]string(nil), c.APIHosts...)
	for _, r := range c.Replicas {
		if u, err := url.Parse(r.APIURL); err == nil {
			names = append(names, u.Hostname())
		}
	}
	var allowed []browser.Origin
	for _, site := range c.AllowOrigins {
		o, _ := browser.Parse(site) // package config has checked it
		allowed = append(allowed, o)
	}
	return browser.Settings{Allowed: allowed, Names: names, Loopback: isLoopback(at)}
}

func isLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
