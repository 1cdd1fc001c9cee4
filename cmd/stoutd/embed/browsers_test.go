package embed

import (
	"net"
	"net/http"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/browser"
)

// TestNamesOfTheAPI: an API on loopback must be called by one of the names in the
// settings.
func TestNamesOfTheAPI(t *testing.T) {
	c := &config.Config{
		APIHosts:     []string{"stout.example.com"},
		AllowOrigins: []string{"https://ui.example.com"},
		Replicas:     []config.Replica{{APIURL: "http://R1.example.com:7101"}, {APIURL: "http://[::1]:7102"}, {APIURL: "http://r3"}},
	}
	for address, loopback := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false,
	} {
		p := browser.New(browsers(c, &net.TCPAddr{IP: net.ParseIP(address), Port: 7101}))
		for host, ours := range map[string]bool{
			"stout.example.com": true, "ui.example.com": true, "r1.example.com:1": true, "r3": true, "localhost": true, "10.1.1.1": true,
			"evil.example": false, "r2": false,
		} {
			if refused := p.Check(&http.Request{Method: "POST", Host: host}).Refusal != browser.Fine; refused != (loopback && !ours) {
				t.Errorf("at %s, for %s: refused: %v", address, host, refused)
			}
		}
	}
}
