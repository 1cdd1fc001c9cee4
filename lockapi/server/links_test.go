package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// links are a node's connections to the others, on loopback, without a hello.
// They dial the replica that the node's stand-in has under that name.
type links struct {
	calls  net.Listener
	of     *standIn
	proven bool
	gone   atomic.Bool // the other replica was removed
}

// callPorts maps the API address of a node to its address for calls of others.
// An address without an entry is dialed itself.
var callPorts sync.Map

func newLinks(t testing.TB, of *standIn) *links {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &links{calls: l, of: of}
}

func (l *links) Calls() net.Listener { return l.calls }
func (l *links) Proven() bool        { return l.proven }

// Caller returns the only other replica of a test.
func (l *links) Caller(net.Conn) string { return "r2/directory" }

func (l *links) Member(server string) error {
	if l.gone.Load() {
		return fmt.Errorf("%q is not a member", server)
	}
	return nil
}

// proven makes the connections between members authenticated ones.
func proven(o *server.Options) { o.Links.(*links).proven = true }

func (l *links) DialCall(ctx context.Context, id string) (net.Conn, error) {
	address := strings.TrimPrefix(strings.TrimSuffix(l.of.urlOf(id), "/"), "http://")
	if address == "" {
		return nil, errors.New("no member of that name")
	}
	if calls, ok := callPorts.Load(address); ok {
		address = calls.(string)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// startOther serves a handler in another replica's place. It answers greetings
// itself.
func startOther(t *testing.T, h http.HandlerFunc, tune ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != lockapi.RouteLive {
			h(w, r)
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range tune {
		f(s)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}
