package members

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/rehearse"
	"github.com/stoutlock/stout/lockapi"
)

// oneAddress is a DNS in which every name has one address.
type oneAddress struct{ client.Resolver }

func (oneAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// The prober gets URLs, also where names of the DNS were given.
func TestProberURLs(t *testing.T) {
	for server, want := range map[string][]string{
		"dns:stout.example:7101":       {"http://127.0.0.1:7101"},
		"dns+https:stout.example:7101": nil,
		"http://127.0.0.1:7102":        {"http://127.0.0.1:7102"},
	} {
		config := client.Config{URLs: []string{server}, Resolver: oneAddress{}}
		if want == nil {
			config.TLS = new(tls.Config)
		}
		c, err := config.New()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a := &app.App{Admin: admin.New(c)}
		a.Options.Servers = []string{server}
		urls, err := (&rehearseFailover{App: a}).proberURLs(t.Context(), lockapi.Cell{})
		if !slices.Equal(urls, want) || (err != nil) != (want == nil) || err != nil && !strings.Contains(err.Error(), "--server") {
			t.Errorf("%s: %q, %v", server, urls, err)
		}
	}
}

// An interrupted rehearsal reports what it leaves behind.
func TestInterruptedRehearsal(t *testing.T) {
	for want, r := range map[string]rehearse.Report{
		"interrupted; the rehearsal's own sessions were closed: no change of master was requested":                                    {},
		"interrupted; the rehearsal's own sessions could not be closed (no route) and will expire: no change of master was requested": {Left: errors.New("no route")},
		"interrupted; the rehearsal's own sessions were closed: the change of master was already requested":                           {Changed: true},
	} {
		var f exit.Failure
		interrupted(&f, r)
		if got := f.Message + ": " + strings.Join(f.Details, "; "); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
