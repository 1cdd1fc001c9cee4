package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// host is a server that keeps what credentials it was shown, by path.
type host struct {
	id      string
	replica []lockapi.Replica // in its view of the cell

	mu    sync.Mutex
	shown map[string][]string
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.shown[r.URL.Path] = append(h.shown[r.URL.Path], r.Header.Get("Authorization"))
	h.mu.Unlock()
	w.Header().Set(lockapi.HeaderCell, "c0ffee")
	w.Header().Set("Content-Type", "application/json")
	switch up := int64(1000); r.URL.Path {
	case lockapi.RouteReplica:
		_ = json.NewEncoder(w).Encode(lockapi.Replica{ID: h.id, UptimeMS: &up})
	case lockapi.RouteCell:
		_ = json.NewEncoder(w).Encode(lockapi.Cell{Cell: "prod", Replicas: h.replica})
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "{}")
	}
}

// cellOf returns the cell as its first replica describes it.
func cellOf(c *client.Client) func(context.Context, time.Duration) (lockapi.Cell, error) {
	return func(ctx context.Context, _ time.Duration) (lockapi.Cell, error) {
		urls, err := admin.New(c).URLs(ctx)
		if err != nil {
			return lockapi.Cell{}, err
		}
		return admin.New(c).CellAt(ctx, urls[0])
	}
}

// Over https the cell's list of members is trusted. A member with an http URL
// is examined, but never with the token.
func TestTokenStaysPrivate(t *testing.T) {
	plain := &host{id: "r2", shown: map[string][]string{}}
	open := httptest.NewServer(plain)
	defer open.Close()
	secret := &host{id: "r1", shown: map[string][]string{}, replica: []lockapi.Replica{{ID: "r2", URL: open.URL}}}
	private := httptest.NewTLSServer(secret)
	defer private.Close()

	conf := private.Client().Transport.(*http.Transport).TLSClientConfig
	token := func(context.Context) (string, error) { return "s3cret", nil }
	c, err := client.Config{URLs: []string{private.URL}, TLS: conf, Token: token}.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := Prober{
		Admin: admin.New(c), Cell: cellOf(c), Poller: ask.Poller{Servers: []string{private.URL}, TLS: func() *tls.Config { return conf }, Token: token},
		Step: 10 * time.Second, For: 100 * time.Millisecond, Doing: func(string) {},
	}
	s := l.Look(t.Context())
	at := s.at(open.URL)
	if at == nil || at.Replica == nil || len(at.Samples) == 0 || len(s.Servers[0].Samples) == 0 {
		t.Fatalf("the clocks were not looked at: %+v", s.Servers)
	}
	for path, shown := range plain.shown {
		if i := slices.IndexFunc(shown, func(s string) bool { return s != "" }); i >= 0 {
			t.Errorf("%s was shown %q by http", path, shown[i])
		}
	}
	if !slices.Contains(secret.shown[lockapi.RouteReplica], "Bearer s3cret") {
		t.Errorf("the server that was named was shown %q", secret.shown)
	}
}

// Replicas that refuse for lack of a right do answer, and report our identity.
func TestLookWithoutRights(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(lockapi.HeaderCell, "c0ffee")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == lockapi.RouteWhoAmI {
			_ = json.NewEncoder(w).Encode(lockapi.WhoAmI{Principal: "user:low", How: lockapi.HowToken})
			return
		}
		w.WriteHeader(lockapi.CodePermissionDenied.Status())
		_ = json.NewEncoder(w).Encode(lockapi.Errorf(lockapi.CodePermissionDenied, "user:low may not observe"))
	}))
	defer server.Close()
	c, err := client.Config{URLs: []string{server.URL}}.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := (&Prober{Admin: admin.New(c), Cell: cellOf(c), Poller: ask.Poller{Servers: []string{server.URL}}, Step: 10 * time.Second, Doing: func(string) {}}).Look(t.Context())
	if !ask.IsDenial(s.CellErr) || !ask.IsDenial(s.MembersErr) || s.Who == nil || s.Who.Principal != "user:low" {
		t.Errorf("cell %v, members %v, who %+v (%v)", s.CellErr, s.MembersErr, s.Who, s.WhoErr)
	}
	g := new(gathered)
	if office(s, g); len(g.findings) != 1 || g.findings[0].Verdict != Unknown || g.findings[0].Do == "" {
		t.Errorf("of the master: %+v", g.findings)
	}
}

// local is a DNS in which every name is this host's.
type local struct{ client.Resolver }

func (local) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// The addresses of a DNS name are called, and their certificates must have that
// name.
func TestNamesOfTheDNS(t *testing.T) {
	server := httptest.NewUnstartedServer(&host{id: "r1", shown: map[string][]string{}})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS() // with a certificate of example.com
	defer server.Close()
	conf := server.Client().Transport.(*http.Transport).TLSClientConfig
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for name, trusted := range map[string]bool{"example.com": true, "elsewhere.example": false} {
		named := "dns+https:" + name + ":" + port
		c, err := client.Config{URLs: []string{named}, TLS: conf, Resolver: local{}}.New()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := Prober{Admin: admin.New(c), Cell: cellOf(c), Poller: ask.Poller{Servers: []string{named}, TLS: func() *tls.Config { return conf }}, Step: 10 * time.Second, Doing: func(string) {}}
		s := l.Look(t.Context())
		if len(s.Servers) != 1 || s.Servers[0].URL != server.URL || s.Servers[0].TLS == nil {
			t.Fatalf("%s: %v, %+v", name, s.NamesErr, s.Servers)
		}
		at := s.Servers[0]
		if (at.TLS.Distrust == nil) != trusted || (at.Replica != nil) != trusted || (s.Cell != nil) != trusted {
			t.Errorf("%s: distrust %v, replica %v, cell %v (%v)", name, at.TLS.Distrust, at.Replica, s.Cell, s.CellErr)
		}
	}
}
