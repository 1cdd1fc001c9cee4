package wire_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// secured is a listener for a server under test that uses TLS.
type secured struct {
	net.Listener
	config *tls.Config
}

func overTLS() (net.Listener, func() (net.Conn, error)) {
	ours, theirs := configs()
	l, dial := tcp()
	return secured{l, ours}, func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		secure := tls.Client(c, theirs)
		if err := secure.Handshake(); err != nil {
			c.Close()
			return nil, err
		}
		return secure, nil
	}
}

var configs = sync.OnceValues(func() (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"cell"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
	return &tls.Config{Certificates: own, ClientCAs: trusted, ClientAuth: tls.VerifyClientCertIfGiven},
		&tls.Config{Certificates: own, RootCAs: trusted, ServerName: "cell"}
})

// A request includes the state of its TLS connection, with the client's
// certificate.
func TestRequestsTellOfTLS(t *testing.T) {
	states := make(chan *tls.ConnectionState, 10)
	h := start(t, overTLS, func(w http.ResponseWriter, r *http.Request) {
		states <- r.TLS
		echo(w, r)
	})
	c := h.connect(t)
	c.send(get("/a") + last)
	c.want("200 GET /a")
	c.want("200 GET /last")
	c.wantEnd()
	for range 2 {
		s := <-states
		if s == nil || !s.HandshakeComplete || len(s.PeerCertificates) != 1 || len(s.VerifiedChains) != 1 || s.ServerName != "cell" {
			t.Errorf("the request has %+v", s)
		}
	}
	h.Close()
	waitFor(t, "it has ended", func() bool { return h.open.Load() == 0 })
	plain := start(t, tcp, func(w http.ResponseWriter, r *http.Request) { states <- r.TLS })
	c = plain.connect(t)
	c.send(last)
	c.want("200")
	if s := <-states; s != nil {
		t.Errorf("without TLS the request has %+v", s)
	}
}

// pipeTLS serves TLS on connections without a network.
func pipeTLS() (net.Listener, func() (net.Conn, error)) {
	ours, _ := configs()
	l, dial := pipe()
	return secured{l, ours}, dial
}

func firstFlight(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	_, config := configs()
	go func() { _ = tls.Client(ours, config).Handshake() }()
	b := make([]byte, 16<<10)
	n, err := theirs.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// A handshake has the time limit of a head, with any behavior of the
// client.
func TestHandshakesAreBoundedInTime(t *testing.T) {
	hello := firstFlight(t)
	for name, send := range map[string]func(net.Conn){
		"nothing": func(net.Conn) {},
		"half a hello": func(c net.Conn) {
			_, _ = c.Write(hello[:100])
		},
		"a hello that drips": func(c net.Conn) {
			for i := range hello {
				time.Sleep(100 * time.Millisecond)
				if _, err := c.Write(hello[i : i+1]); err != nil {
					return
				}
			}
		},
		"a hello, and no reading": func(c net.Conn) {
			_, _ = c.Write(hello)
		},
		"a hello, and nothing more": func(c net.Conn) {
			_, _ = c.Write(hello)
			_, _ = io.CopyN(io.Discard, c, 600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, pipeTLS, echo)
				began := time.Now()
				c := h.connect(t).Conn
				var sending sync.WaitGroup
				sending.Go(func() { send(c) })
				waitEmpty(h)
				if took := time.Since(began); took.Round(10*time.Millisecond) != 5*time.Second {
					t.Errorf("it ends after %v", took)
				}
				c.Close()
				sending.Wait()
			})
		})
	}
}

// waitEmpty waits in a bubble until a connection has opened and closed.
func waitEmpty(h *host) {
	synctest.Wait()
	for h.open.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// After its handshake a connection has the usual time for its first request.
func TestFirstRequestAfterAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, pipeTLS, echo)
		inner := h.connect(t).Conn
		time.Sleep(4 * time.Second)
		_, config := configs()
		c := &client{tls.Client(inner, config), t, nil}
		if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		c.replies = bufio.NewReader(c.Conn)
		for range 3 {
			time.Sleep(4 * time.Second)
			c.send(get("/a"))
			c.want("200 GET /a")
		}
		c.send("GET /a HTTP")
		began := time.Now()
		c.wantEnd()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("half a request ends after %v", took)
		}
		inner.Close()
	})
}

// tcpTLS serves TLS on TCP connections, and leaves the handshake to the client.
func tcpTLS() (net.Listener, func() (net.Conn, error)) {
	ours, _ := configs()
	l, dial := tcp()
	return secured{l, ours}, dial
}

// TLS records need not arrive one by one: a part of one, or several at once.
func TestRecordsInPieces(t *testing.T) {
	h := start(t, tcpTLS, echo)
	for _, most := range []int{1, 7, 1 << 20} {
		inner := h.connect(t).Conn
		p := &pieces{Conn: inner}
		_, config := configs()
		secure := tls.Client(p, config)
		if err := secure.Handshake(); err != nil {
			t.Fatal(err)
		}
		c := &client{secure, t, bufio.NewReader(secure)}
		p.most = most
		for range 3 {
			c.sendAll(get("/a"))
			c.sendAll(get("/b"))
			p.flush()
			c.want("200 GET /a")
			c.want("200 GET /b")
		}
		inner.Close()
	}
}

// pieces keeps what is written, once most is set, and then sends pieces of at
// most that size.
type pieces struct {
	net.Conn
	most int
	kept []byte
}

func (p *pieces) Write(b []byte) (int, error) {
	if p.most == 0 {
		return p.Conn.Write(b)
	}
	p.kept = append(p.kept, b...)
	return len(b), nil
}

func (p *pieces) flush() {
	for b := range slices.Chunk(p.kept, p.most) {
		_, _ = p.Conn.Write(b)
	}
	p.kept = nil
}

// The input of handshakes counts as incomplete requests.
func TestHandshakesAreBoundedTogether(t *testing.T) {
	hello := firstFlight(t)
	synctest.Test(t, func(t *testing.T) {
		const room = 256 << 10
		h := start(t, pipeTLS, echo, func(s *wire.Server) { s.MaxHalfBytes = room })
		var all []net.Conn
		for range 100 {
			c := h.connect(t).Conn
			all = append(all, c)
			if _, err := c.Write(hello[:len(hello)/2]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if held := h.Kept().HalfBytes; held > room || held < min(room/2, len(all)*8<<10) {
				t.Fatalf("%d bytes are held of %d", held, len(all))
			}
		}
		if open, cut := h.open.Load(), h.Kept().HalfCut; open < 20 || open > 32 || cut != uint64(100-open) {
			t.Errorf("%d are open, %d were cut off", open, cut)
		}
		for _, c := range all {
			c.Close()
		}
		synctest.Wait()
		if held := h.Kept().HalfBytes; held != 0 {
			t.Errorf("%d bytes are left", held)
		}
	})
}

// A plain HTTP request gets an HTTP answer; other input gets none.
func TestPlainRequestsWhereTLSIsSpoken(t *testing.T) {
	h := start(t, pipeTLS, echo)
	for text, want := range map[string]string{
		get("/a"): "400 the request was sent without TLS", post("", ""): "400 the request was sent without TLS",
		"SSH-2.0-OpenSSH\r\n": "", strings.Repeat("\x00", 100): "",
	} {
		inner := h.connect(t).Conn
		c := &client{inner, t, bufio.NewReader(inner)}
		c.send(text)
		if got, _ := c.next(http.MethodGet); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%.20q is answered %q", text, got)
		}
		c.Close()
	}
}

// A regular end of a connection includes TLS's closing alert, so that a client
// can tell a complete reply from a truncated one. An abrupt end does not wait
// for the alert to be sent.
func TestTLSEndsInGoodOrder(t *testing.T) {
	h := start(t, pipeTLS, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watched" {
			r.Context().Done()
		}
		echo(w, r)
	})
	_, config := configs()
	older := config.Clone()
	older.MaxVersion = tls.VersionTLS12 // alerts of this version are distinguishable from data
	connect := func() (*client, *records) {
		inner := h.connect(t).Conn
		r := &records{Conn: inner}
		c := tls.Client(r, older)
		t.Cleanup(func() { inner.Close() })
		return &client{c, t, bufio.NewReader(c)}, r
	}
	for _, path := range []string{"/a", "/watched"} {
		c, records := connect()
		c.sendAll(get(path, "Connection: close\r\n"))
		c.want("200 GET " + path)
		c.wantEnd()
		if records.last() != alert {
			t.Errorf("%s: the connection ends with a record of type %d", path, records.last())
		}
	}
	c, records := connect()
	c.sendAll(get("/a"))
	c.want("200 GET /a")
	h.Close()
	c.wantEnd()
	if records.last() == alert {
		t.Error("a connection that was cut off ends in good order")
	}
}

// records keeps what is read.
type records struct {
	net.Conn
	read []byte
}

const alert = 21

func (r *records) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

// last returns the type of the last record.
func (r *records) last() (kind byte) {
	for b := r.read; len(b) > 5; b = b[min(len(b), 5+int(b[3])<<8+int(b[4])):] {
		kind = b[0]
	}
	return kind
}
