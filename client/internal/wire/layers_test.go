package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// kind makes the two ends of one kind of connection.
type kind func(*testing.T) (near, far net.Conn)

// bubbleKinds are the kinds of connection in memory.
var bubbleKinds = map[string]kind{
	"pipe":          func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() },
	"TLS on a pipe": func(t *testing.T) (net.Conn, net.Conn) { return overTLS(t, net.Pipe, false) },
}

// overTCP are the kinds of connection over a socket.
var overTCP = map[string]kind{
	"TCP": tcp,
	"TLS on TCP": func(t *testing.T) (net.Conn, net.Conn) {
		return overTLS(t, func() (net.Conn, net.Conn) { return tcp(t) }, true)
	},
}

// hidden is TCP that hides its socket.
func hidden(t *testing.T) (net.Conn, net.Conn) {
	near, far := tcp(t)
	return struct{ net.Conn }{near}, far
}

func tcp(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// certificate returns a server's self-signed certificate.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// overTLS returns TLS over a connection, after its handshake. The far end can
// gather writes. Session tickets follow the handshake; in a pipe they would
// block until the next read.
func overTLS(t *testing.T, under func() (near, far net.Conn), tickets bool) (near, far net.Conn) {
	t.Helper()
	a, b := under()
	client := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	gathering := &gather{Conn: b}
	server := &secure{tls.Server(gathering, &tls.Config{Certificates: []tls.Certificate{certificate()}, SessionTicketsDisabled: !tickets}), gathering}
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := errors.Join(client.HandshakeContext(t.Context()), <-shaken); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// secure is the server's end of TLS.
type secure struct {
	*tls.Conn
	under *gather
}

// gather is a connection that can join several writes into one.
type gather struct {
	net.Conn
	hold    bool
	pending bytes.Buffer
}

func (g *gather) Write(b []byte) (int, error) {
	if g.hold {
		return g.pending.Write(b)
	}
	return g.Conn.Write(b)
}

func (g *gather) flush() {
	g.hold = false
	_, _ = g.Conn.Write(g.pending.Bytes())
	g.pending.Reset()
}

// dialled returns a pool, and the far ends of its connections.
func dialled(t *testing.T, over kind) (*Pool, <-chan net.Conn) {
	far := make(chan net.Conn, 8)
	return &Pool{Dial: func(context.Context, string) (net.Conn, error) {
		a, b := over(t)
		far <- b
		return a, nil
	}}, far
}

// answer reads a request without a body and answers it.
func answer(t *testing.T, far net.Conn, text string) {
	t.Helper()
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("\r\n\r\n")); got = append(got, one...) {
		if _, err := io.ReadFull(far, one); err != nil {
			t.Errorf("after %q: %v", got, err)
			return
		}
	}
	if _, err := io.WriteString(far, text); err != nil {
		t.Error(err)
	}
}

func (p *Pool) get(ctx context.Context) (string, error) {
	var buf bytes.Buffer
	a, err := p.Do(ctx, &Request{Method: http.MethodPut, Addr: "a:1", Host: "a", Target: "/", Within: within}, &buf, 1<<20)
	return string(a.Body), err
}

// mustGet makes an exchange and fails the test without the answer "ok".
func mustGet(t *testing.T, p *Pool) {
	t.Helper()
	if body, err := p.get(t.Context()); err != nil || body != "ok" {
		t.Fatalf("%q, %v", body, err)
	}
}

// serve answers a number of requests over one connection, and returns its far
// end.
func serve(t *testing.T, far <-chan net.Conn, requests int) net.Conn {
	t.Helper()
	c := <-far
	for range requests {
		answer(t, c, ok)
	}
	return c
}

// Connections of every kind are reused.
func TestIdleConnectionsOfEveryKind(t *testing.T) {
	kinds := map[string]kind{"hidden": hidden}
	maps.Copy(kinds, bubbleKinds)
	maps.Copy(kinds, overTCP)
	for name, over := range kinds {
		t.Run(name, func(t *testing.T) {
			pool, far := dialled(t, over)
			done := make(chan net.Conn)
			go func() { done <- serve(t, far, 3) }()
			for range 3 {
				mustGet(t, pool)
			}
			if <-done; len(far) > 0 {
				t.Error("a second connection was made")
			}
		})
	}
}

// An idle connection is not reused after the other side closed it or sent
// unrequested data, even in one piece with an answer.
func TestSpoiltIdleConnections(t *testing.T) {
	closed := func(c net.Conn) { c.Close() }
	unasked := func(c net.Conn) { _, _ = io.WriteString(c, ok) }
	gathered := func(c net.Conn) { c.(*secure).under.flush() }
	for name, test := range map[string]struct {
		over  kind
		spoil func(net.Conn)
	}{
		"TCP, closed":             {tcp, closed},
		"TCP, unasked":            {tcp, unasked},
		"TLS on TCP, closed":      {overTCP["TLS on TCP"], closed},
		"TLS on TCP, cut":         {overTCP["TLS on TCP"], func(c net.Conn) { c.(*secure).NetConn().Close() }},
		"TLS on TCP, unasked":     {overTCP["TLS on TCP"], unasked},
		"TLS on TCP, gathered":    {overTCP["TLS on TCP"], gathered},
		"pipe, closed":            {bubbleKinds["pipe"], closed},
		"TLS on a pipe, cut":      {bubbleKinds["TLS on a pipe"], func(c net.Conn) { c.(*secure).NetConn().Close() }},
		"TLS on a pipe, gathered": {bubbleKinds["TLS on a pipe"], gathered},
	} {
		t.Run(name, func(t *testing.T) {
			pool, far := dialled(t, test.over)
			spoilt, again := make(chan net.Conn), make(chan bool, 1)
			go func() {
				c := <-far
				if s, ok := c.(*secure); ok {
					s.under.hold = strings.Contains(name, "gathered")
				}
				answer(t, c, ok)
				if strings.Contains(name, "gathered") {
					_, _ = io.WriteString(c, ok)
				}
				test.spoil(c)
				spoilt <- c
				c = <-far
				again <- true
				answer(t, c, ok)
			}()
			mustGet(t, pool)
			<-spoilt
			mustGet(t, pool)
			select {
			case <-again:
			default:
				t.Error("the connection was reused")
			}
		})
	}
}

// If its socket cannot be checked, an idle connection is trusted only for
// trustTime.
func TestHiddenConnectionIsTrustedForAMoment(t *testing.T) {
	pool, far := dialled(t, hidden)
	go serve(t, far, 1)
	mustGet(t, pool)
	pool.idle["a:1"][0].since = time.Now().Add(-trustTime)
	go serve(t, far, 1)
	mustGet(t, pool)
}

// A handshake that hangs ends at its time limit. The error is a dial error: the
// request was certainly not sent.
func TestDialOfEveryKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go swallow(far)
		pool := &Pool{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			c := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
			return c, c.HandshakeContext(ctx)
		}}
		start := time.Now()
		_, err := pool.get(t.Context())
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || time.Since(start) != dialTime {
			t.Errorf("%v after %s, want an error of dialling after %s", err, time.Since(start), dialTime)
		}
	})
}

// Close does not wait for a server that does not read TLS's closing message.
func TestCloseDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bubbleKinds["TLS on a pipe"](t)
		defer far.(*secure).NetConn().Close()
		start := time.Now()
		if err := newConn(near).Close(); err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}
