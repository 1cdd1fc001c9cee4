package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// authority issues certificates, and returns the pool to verify them.
type authority struct{ *certs.Authority }

func newAuthority(t *testing.T) authority {
	t.Helper()
	a, err := certs.NewAuthority("test", time.Now().AddDate(1, 0, 0))
	must(t, err)
	return authority{a}
}

func (a authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Certificate)
	return p
}

func (a authority) pair(t *testing.T, l certs.Leaf) tls.Certificate {
	t.Helper()
	if l.Ends.IsZero() {
		l.Ends = time.Now().Add(time.Hour)
	}
	leaf, key, err := a.Issue(l)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// secureServer answers reads of locks over TLS, and reports its callers.
func secureServer(t *testing.T, config *tls.Config) (url string, callers chan string, conns *atomic.Int32) {
	t.Helper()
	callers, conns = make(chan string, 100), new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Proto
		for _, c := range r.TLS.PeerCertificates {
			who += " " + c.Subject.CommonName
		}
		callers <- who
		w.Header().Set(lockapi.HeaderRevision, "1")
		fmt.Fprint(w, `{"path":"/a","state":"free","holders":[],"waiters":0}`)
	}))
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, callers, conns
}

// The client uses TLS on its own connections, keeps them, and sends its
// certificate.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	url, callers, conns := secureServer(t, &tls.Config{
		Certificates: []tls.Certificate{ca.pair(t, certs.Leaf{Hosts: []string{"127.0.0.1"}})},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(), NextProtos: []string{"h2", "http/1.1"},
	})
	own := &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.pair(t, certs.Leaf{Name: "billing", Client: true})}}
	for _, given := range []string{url, strings.TrimPrefix(url, "https://")} {
		conns.Store(0)
		c, err := client.Config{URLs: []string{given}, TLS: own}.New()
		must(t, err)
		for range 5 {
			must(t, second(c.ReadLock(t.Context(), "/a")))
			wantEqual(t, "the server received", <-callers, "HTTP/1.1 billing")
		}
		wantEqual(t, "connections for calls one after the other", conns.Load(), 1)
		_ = c.Close()
	}
}

// A server that is not trusted receives no call, and a caller that is not
// trusted gets the reason. In both cases it is certain that the call had no
// effect.
func TestTLSThatIsNotTrusted(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server := func(l certs.Leaf) tls.Certificate { return ca.pair(t, l) }
	good := server(certs.Leaf{Hosts: []string{"127.0.0.1"}})
	callerOf := func(a authority, l certs.Leaf) []tls.Certificate {
		l.Name, l.Client = "billing", true
		return []tls.Certificate{a.pair(t, l)}
	}
	for name, test := range map[string]struct {
		server tls.Certificate
		client *tls.Config
		want   string
	}{
		"another CA":              {good, &tls.Config{RootCAs: other.pool(), Certificates: callerOf(ca, certs.Leaf{})}, "unknown authority"},
		"the system's CAs":        {good, &tls.Config{Certificates: callerOf(ca, certs.Leaf{})}, "unknown authority"},
		"another host":            {server(certs.Leaf{Hosts: []string{"host2"}}), &tls.Config{RootCAs: ca.pool(), Certificates: callerOf(ca, certs.Leaf{})}, "doesn't contain any IP SANs"},
		"a client's for a server": {server(certs.Leaf{Client: true}), &tls.Config{RootCAs: ca.pool(), Certificates: callerOf(ca, certs.Leaf{})}, "certificate"},
		"one that has ended":      {server(certs.Leaf{Hosts: []string{"127.0.0.1"}, Ends: time.Now().Add(-time.Hour)}), &tls.Config{RootCAs: ca.pool(), Certificates: callerOf(ca, certs.Leaf{})}, "expired"},
		"no client's certificate": {good, &tls.Config{RootCAs: ca.pool()}, "refuses our certificate: tls: certificate required"},
		"a client's that ended":   {good, &tls.Config{RootCAs: ca.pool(), Certificates: callerOf(ca, certs.Leaf{Ends: time.Now().Add(-time.Hour)})}, "refuses our certificate: tls: expired certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			url, callers, _ := secureServer(t, &tls.Config{
				Certificates: []tls.Certificate{test.server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The first failed attempt cancels the call.
			c := newClient(t, client.Config{URLs: []string{url}, Logger: atFailure(cancel), TLS: test.client})
			_, err := admin.New(c).Transfer(ctx, "")
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, client.ErrNoMaster) || errors.Is(err, client.ErrOutcomeUnknown) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if len(callers) > 0 {
				t.Errorf("the server received %q", <-callers)
			}
		})
	}
}

// onLog calls a function with each log message.
type onLog struct {
	slog.Handler
	do func(message string)
}

func (onLog) Enabled(context.Context, slog.Level) bool { return true }

func (l onLog) Handle(_ context.Context, r slog.Record) error {
	l.do(r.Message)
	return nil
}

// atFailure returns a logger that calls a function when an attempt has failed.
func atFailure(then func()) *slog.Logger {
	return slog.New(onLog{slog.DiscardHandler, func(message string) {
		if message == "stout: attempt failed" {
			then()
		}
	}})
}

// The client refuses TLS settings beside the caller's own transport, and two
// sources of TLS settings.
func TestTLSAndTransport(t *testing.T) {
	source := func() *tls.Config { return nil }
	for _, c := range []client.Config{
		{Transport: http.DefaultTransport, TLS: new(tls.Config)},
		{Transport: http.DefaultTransport, TLSSource: source},
		{TLS: new(tls.Config), TLSSource: source},
	} {
		c.URLs = []string{"https://r1"}
		if _, err := c.New(); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}

// New connections use the current CAs and certificates of either end, also
// through a proxy. A program that has run for a year so keeps its session.
func TestTLSThatChanges(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	config := func(a authority) *tls.Config {
		return &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{a.pair(t, certs.Leaf{Name: "billing", Client: true})}}
	}
	server := func(a authority) string {
		url, callers, _ := secureServer(t, &tls.Config{
			Certificates: []tls.Certificate{a.pair(t, certs.Leaf{Hosts: []string{"127.0.0.1"}})},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: a.pool(),
		})
		t.Cleanup(func() {
			if len(callers) != 2 {
				t.Errorf("the server received %d calls", len(callers))
			}
		})
		return url
	}
	var now atomic.Pointer[tls.Config]
	now.Store(config(before))
	first, second := server(before), server(after)
	c := newClient(t, client.Config{URLs: []string{first}, TLSSource: now.Load})
	read := func(url string) {
		t.Helper()
		for _, direct := range []bool{true, false} {
			must(t, c.ReadAt(t.Context(), url, direct))
		}
	}
	read(first)
	now.Store(config(after))
	read(second)
}

// A certificate that expires while its connection is kept costs no call. A
// server that refuses it closes the connection, and the next one uses the
// current certificate.
func TestCertificatesOfKeptConnections(t *testing.T) {
	ca := newAuthority(t)
	var mu sync.Mutex // guards the following
	ended, conns := false, map[string]int{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		conns[r.RemoteAddr]++
		if ended && r.TLS.PeerCertificates[0].Subject.CommonName == "old" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"about:blank","title":"x","status":401,"code":"unauthenticated","detail":"it ended"}`)
			return
		}
		w.Header().Set(lockapi.HeaderRevision, "1")
		fmt.Fprint(w, `{"path":"/a","state":"free","holders":[],"waiters":0}`)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.pair(t, certs.Leaf{Hosts: []string{"127.0.0.1"}})}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool()}
	s.StartTLS()
	t.Cleanup(s.Close)
	old, young := ca.pair(t, certs.Leaf{Name: "old", Client: true}), ca.pair(t, certs.Leaf{Name: "new", Client: true})
	present := old
	c := newClient(t, client.Config{URLs: []string{s.URL}, TLS: &tls.Config{RootCAs: ca.pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &present, nil }}})
	read := func(now bool, own tls.Certificate, want error, calls, connections int) {
		t.Helper()
		mu.Lock()
		clear(conns)
		ended, present = now, own
		mu.Unlock()
		_, err := c.ReadLock(t.Context(), "/a")
		mu.Lock()
		defer mu.Unlock()
		sum := 0
		for _, n := range conns {
			sum += n
		}
		if !errors.Is(err, want) || sum != calls || len(conns) != connections {
			t.Errorf("%v, %v", err, conns)
		}
	}
	read(false, old, nil, 1, 1)
	read(true, old, client.ErrUnauthenticated, 2, 2) // there is no newer certificate
	read(false, old, nil, 1, 1)
	read(true, young, nil, 2, 2)
	read(true, young, nil, 1, 1)
}
