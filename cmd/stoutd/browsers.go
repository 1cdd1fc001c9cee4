package main

import (
	"net"
	"net/url"

	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/internal/config"
)

// browsers says who may call from a web page an API that listens at the
// address.
func browsers(c *config.Config, at net.Addr) browser.Settings {
	names := append([]string(nil), c.APIHosts...)
	for _, r := range c.Replicas {
		if u, err := url.Parse(r.APIURL); err == nil {
			names = append(names, u.Hostname())
		}
	}
	tcp, ok := at.(*net.TCPAddr)
	return browser.Settings{Allowed: c.AllowOrigins, Names: names, Loopback: ok && tcp.IP.IsLoopback()}
}
