package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/apicheck"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

func newTLS(t *testing.T) (ours, theirs *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}},
		&tls.Config{RootCAs: trusted, NextProtos: []string{"h2", "http/1.1"}}
}

// Every operation of the document works over TLS as it does without.
func TestEachOperationOverTLS(t *testing.T) {
	ours, theirs := newTLS(t)
	n := startMaster(t, func(o *server.Options) { o.TLS = ours })
	transport := &http.Transport{TLSClientConfig: theirs, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	base := "https://" + n.addr
	apicheck.Run(t, apicheck.NewChecker(document(t), transport), base, apicheck.Steps)
	resp, err := (&http.Client{Transport: transport}).Get(base + lockapi.RouteLive)
	must(t, err)
	resp.Body.Close()
	if resp.Proto != "HTTP/1.1" || resp.TLS == nil || resp.TLS.NegotiatedProtocol != "http/1.1" {
		t.Errorf("%s, %+v", resp.Proto, resp.TLS)
	}
	call(t, "GET", n.url+lockapi.RouteLive, "").wantCode(t, lockapi.CodeInvalidArgument) // without TLS
}

// A waiting call ends when its caller disconnects, in any way.
func TestTLSCallersThatLeave(t *testing.T) {
	ours, theirs := newTLS(t)
	n := startMaster(t, func(o *server.Options) { o.TLS = ours })
	entered, ended := make(chan struct{}), make(chan error)
	n.setHook(func(ctx context.Context, _ string) error {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	for name, leave := range map[string]func(*tls.Conn){
		"close":          func(c *tls.Conn) { c.Close() },
		"half-close":     func(c *tls.Conn) { _ = c.CloseWrite() },
		"without a word": func(c *tls.Conn) { c.NetConn().Close() },
		"reset":          func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); c.NetConn().Close() },
	} {
		c, err := tls.Dial("tcp", n.addr, theirs)
		must(t, err)
		send(t, c, "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33\r\n\r\n"+`{"session":"s1","wait_ms":600000}`)
		<-entered
		leave(c)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatalf("%s: the call still waits", name)
		}
		c.Close()
	}
}

// Connections with an unfinished handshake are displaced like connections with
// half a request.
func TestHandshakesKeepNobodyOut(t *testing.T) {
	ours, theirs := newTLS(t)
	n := startMaster(t, func(o *server.Options) { o.TLS, o.MaxConnections = ours, 5 })
	var silent []net.Conn
	for i := range 5 {
		c := dial(t, n)
		if i%2 == 0 {
			send(t, c, "\x16\x03\x01\x02\x00") // head of a record
		}
		silent = append(silent, c)
	}
	eventually(t, "all are open", func() bool { return gauge(t, n, "stout_http_connections") == 5 })
	c, err := tls.Dial("tcp", n.addr, theirs)
	must(t, err)
	defer c.Close()
	wantClosed(t, silent[0])
}

// Health probes are answered over TLS, too, if every connection has a call
// under way.
func TestProbesOverTLS(t *testing.T) {
	ours, theirs := newTLS(t)
	n := startMaster(t, func(o *server.Options) { o.TLS, o.MaxConnections = ours, 1 })
	entered, release := hold(n)
	defer release()
	c, err := tls.Dial("tcp", n.addr, theirs)
	must(t, err)
	defer c.Close()
	send(t, c, "GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: theirs, DisableKeepAlives: true}}
	for path, status := range map[string]int{lockapi.RouteLive: 200, lockapi.RouteMetrics: 200, lockapi.RouteCell: 429} {
		resp, err := client.Get("https://" + n.addr + path)
		must(t, err)
		if resp.Body.Close(); resp.StatusCode != status {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
