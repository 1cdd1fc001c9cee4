package peerconn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/testrun"
)

// ca signs for the replicas of a test.
type ca struct {
	*certs.Authority
	dir string
}

func newCA(t *testing.T) ca {
	t.Helper()
	a, err := certs.NewAuthority("test", time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := ca{a, t.TempDir()}
	c.write(t, "ca.pem", certs.CertificatePEM(a.Certificate))
	return c
}

func (c ca) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// source returns a source of a certificate for the URIs, and of the CA.
func (c ca) source(t *testing.T, l certs.Leaf) certs.Mutual {
	t.Helper()
	if l.Ends.IsZero() {
		l.Ends = time.Now().Add(time.Hour)
	}
	l.Name = "x"
	leaf, key, err := c.Issue(l)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := certs.KeyPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "x.pem", certs.CertificatePEM(leaf))
	c.write(t, "x-key.pem", secret)
	at := func(name string) string { return filepath.Join(c.dir, name) }
	s, err := certs.Open(certs.Files{Cert: at("x.pem"), Key: at("x-key.pem"), CA: at("ca.pem")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return certs.Mutual{Source: s}
}

// of returns a certificate's leaf for the replica of a name.
func of(id string) certs.Leaf {
	return certs.Leaf{Hosts: []string{"elsewhere"}, URIs: []*url.URL{certs.ReplicaURI(id)}, Client: true}
}

func accept(l *Listener) {
	for {
		c, err := l.Kind(Raft).Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

// Replicas with certificates that name them open connections from any address,
// and these carry bytes over TLS 1.3.
func TestSecureOpening(t *testing.T) {
	c := newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	go accept(l)
	r2 := c.source(t, of("r2"))
	conn, err := Dial(t.Context(), l.Addr().String(), good(Raft), r2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if v := conn.(secured).ConnectionState().Version; v != tls.VersionTLS13 {
		t.Errorf("version %x", v)
	}
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	card, err := AskInfo(t.Context(), l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, r2)
	if err != nil || string(card) != "card of r1" {
		t.Errorf("%q, %v", card, err)
	}
}

// Each end requires the certificate of the member that it means.
func TestWrongCertificates(t *testing.T) {
	c, other := newCA(t), newCA(t)
	ended := of("r2")
	ended.Ends = time.Now().Add(-time.Minute)
	endedServer := of("r1")
	endedServer.Ends = ended.Ends
	client := certs.Leaf{Client: true}
	servers, clients := of("r2"), of("r1")
	servers.Client, clients.Hosts = false, nil
	for name, test := range map[string]struct {
		server, caller certs.Mutual
		refused        bool // by a reply
		want           string
	}{
		"another CA's caller":            {c.source(t, of("r1")), other.source(t, of("r2")), false, "with a key that is not in this replica's raft-ca"},
		"a caller of another name":       {c.source(t, of("r1")), c.source(t, of("r3")), true, "the caller claims to be r2/b: the certificate of"},
		"a caller of the wanted's name":  {c.source(t, of("r1")), c.source(t, of("r1")), true, "does not have the URI stout://replica/r2"},
		"a client":                       {c.source(t, of("r1")), c.source(t, client), true, "does not have the URI stout://replica/r2"},
		"a caller whose time has ended":  {c.source(t, of("r1")), c.source(t, ended), false, "does not accept this replica's certificate"},
		"another member":                 {c.source(t, of("r3")), c.source(t, of("r2")), false, "does not have the URI stout://replica/r1"},
		"a member whose time has ended":  {c.source(t, endedServer), c.source(t, of("r2")), false, "expired"},
		"a name that begins like it":     {c.source(t, of("r11")), c.source(t, of("r2")), false, "does not have the URI stout://replica/r1"},
		"a caller that begins like it":   {c.source(t, of("r1")), c.source(t, of("r22")), true, "does not have the URI stout://replica/r2"},
		"a caller's for servers only":    {c.source(t, of("r1")), c.source(t, servers), false, "does not accept this replica's certificate"},
		"a member's for clients only":    {c.source(t, clients), c.source(t, of("r2")), false, "incompatible key usage"},
		"a caller that trusts the other": {c.source(t, of("r1")), trusting{other.source(t, of("r2")), c}.mutual(t), false, "does not accept this replica's certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			l := serveWith(t, test.server)
			go accept(l)
			for range 2 { // in the same words each time
				conn, err := Dial(t.Context(), l.Addr().String(), good(Raft), test.caller)
				if err == nil {
					conn.Close()
					t.Fatal("it is open")
				}
				if errors.Is(err, ErrRefused) != test.refused || !Connected(err) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
			}
		})
	}
}

// trusting has the certificate of one CA, and checks with another.
type trusting struct {
	certs.Mutual
	by ca
}

func (m trusting) mutual(t *testing.T) certs.Mutual {
	t.Helper()
	files := m.Source.Files()
	files.CA = filepath.Join(m.by.dir, "ca.pem")
	s, err := certs.Open(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return certs.Mutual{Source: s}
}

// A replica with TLS and one without report the problem.
func TestOneWithoutTLS(t *testing.T) {
	c := newCA(t)
	secure, plain := serveWith(t, c.source(t, of("r1"))), serve(t)
	if _, err := Dial(t.Context(), secure.Addr().String(), good(Raft), nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "uses TLS; set raft-cert") {
		t.Errorf("without TLS: %v", err)
	}
	if _, err := Dial(t.Context(), plain.Addr().String(), good(Raft), c.source(t, of("r2"))); err == nil || !strings.Contains(err.Error(), "are raft-cert") {
		t.Errorf("to one without: %v", err)
	}
}

// Refused connections are reported; a connection that is opened and closed is
// not.
func TestRefusalsAreTold(t *testing.T) {
	c, other := newCA(t), newCA(t)
	for name, test := range map[string]struct {
		security Security
		then     func(addr string)
		want     string
	}{
		"TLS where there is none": {nil, func(addr string) { _, _ = Dial(t.Context(), addr, good(Raft), c.source(t, of("r2"))) }, "the caller uses TLS"},
		"something else":          {nil, func(addr string) { send(t, addr, strings.Repeat("x", 100)) }, "does not come from a Stout replica"},
		"no TLS":                  {c.source(t, of("r1")), func(addr string) { send(t, addr, "GET / HTTP/1.1\r\n\r\n") }, "first record does not look like a TLS handshake"},
		"another CA's": {c.source(t, of("r1")), func(addr string) {
			_, _ = Dial(t.Context(), addr, good(Raft), trusting{other.source(t, of("r2")), c}.mutual(t))
		}, "with a key that is not in this replica's raft-ca"},
		"another member's": {c.source(t, of("r1")), func(addr string) { _, _ = Dial(t.Context(), addr, good(Raft), c.source(t, of("r3"))) }, "claims to be r2/b"},
		"nothing":          {c.source(t, of("r1")), func(addr string) { send(t, addr, "") }, ""},
	} {
		in, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 10)
		l := Listen(in, Rules{Security: test.security, Members: func() []string { return nil },
			Admit:   func(Hello) ([]byte, error) { return nil, nil },
			Refused: func(_ net.Addr, err error) { told <- err }})
		test.then(l.Addr().String())
		if test.want != "" {
			if err := <-told; !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
		}
		if err := l.Close(); err != nil { // and waits for all
			t.Error(err)
		}
		if len(told) > 0 {
			t.Errorf("%s: and %v", name, <-told)
		}
	}
}

// send sends some text and closes the connection.
func send(t *testing.T, addr, text string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = io.WriteString(c, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// Both ends refuse an older TLS, even if the other would accept it.
func TestOlderTLS(t *testing.T) {
	c := newCA(t)
	r1, r2 := c.source(t, of("r1")), c.source(t, of("r2"))
	for name, test := range map[string]struct{ server, caller Security }{
		"an older caller": {r1, older{r2}}, "an older member": {older{r1}, r2},
	} {
		l := serveWith(t, test.server)
		go accept(l)
		if conn, err := Dial(t.Context(), l.Addr().String(), good(Raft), test.caller); err == nil {
			t.Errorf("%s: it is open", name)
			conn.Close()
		}
	}
}

// older uses TLS 1.2.
type older struct{ certs.Mutual }

func (o older) Server() *tls.Config { return upTo12(o.Mutual.Server()) }

func (o older) Client(id string) *tls.Config { return upTo12(o.Mutual.Client(id)) }

func upTo12(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

// Anything that is not a handshake is closed at once, half of one within
// helloTimeout.
func TestGarbageWhereTLSIsSpoken(t *testing.T) {
	c := newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	go accept(l)
	hello := firstFlight(t, c)
	for name, bytes := range map[string]string{
		"HTTP":                    "GET / HTTP/1.1\r\nHost: x\r\n\r\n........",
		"a huge hello":            magic + "\xff\xff\xff\xff",
		"a huge record":           "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		"a huge message":          "\x16\x03\x01\x00\x04\x01\xff\xff\xff",
		"TLS 1.0":                 "\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x01" + strings.Repeat("r", 32) + "\x00\x00\x04\x00\x2f\x00\x35\x01\x00",
		"half a hello":            hello[:len(hello)/2],
		"a hello and no more":     hello,
		"a hello and something":   hello + strings.Repeat("\x17\x03\x03\x00\x10................", 4),
		"the beginning of a name": magic[:5],
		"nothing":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, bytes)
			if !closed(t, conn) {
				t.Error("the connection is open")
			}
		})
	}
}

// Half a handshake is closed within helloTimeout, too, and any number of them
// keeps no caller out.
func TestTooManyHandshakes(t *testing.T) {
	c := newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	go accept(l)
	hello := firstFlight(t, c)
	var quiet []net.Conn
	for range maxUnopened + 20 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, hello[:len(hello)/2])
		quiet = append(quiet, conn)
	}
	if _, err := AskInfo(t.Context(), l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, c.source(t, of("r2"))); err != nil {
		t.Errorf("no place beside %d half handshakes: %v", len(quiet), err)
	}
	for _, conn := range quiet {
		if !closed(t, conn) {
			t.Fatal("half a handshake stays")
		}
	}
}

// An address opens more connections in the time of a handshake than are
// allowed. It keeps out no callers from other addresses.
func TestFloodOfOneAddress(t *testing.T) {
	testrun.E2E(t) // it takes an address that not every machine has
	c := newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	flood := func() {
		for range maxUnopened + 20 {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
		if conn, err := Dial(t.Context(), l.Addr().String(), Hello{Kind: Ask, Cell: "c", From: "r2/b", To: "r1"}, c.source(t, of("r2"))); err == nil {
			conn.Close() // those before it were taken
		}
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	under, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Skip(err) // not all of 127/8 is this machine's everywhere
	}
	defer under.Close()
	flood()
	conn, err := secureTo(t.Context(), under, c.source(t, of("r2")), "r1")
	if err != nil {
		t.Fatalf("kept out in the handshake: %v", err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := open(conn, good(Ask)); err != nil {
		t.Errorf("kept out before the hello: %v", err)
	}
}

// firstFlight returns a caller's first bytes.
func firstFlight(t *testing.T, c ca) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _ = tls.Client(ours, c.source(t, of("r2")).Client("r1")).Handshake() }()
	b := make([]byte, 16<<10)
	n, err := theirs.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// Closing a connection takes no time even if the other end does not read.
func TestCloseDoesNotWait(t *testing.T) {
	c := newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	accepted := make(chan net.Conn, 1)
	go func() {
		other, err := l.Kind(Raft).Accept()
		if err == nil {
			accepted <- other
		}
	}()
	conn, err := Dial(t.Context(), l.Addr().String(), good(Raft), c.source(t, of("r2")))
	if err != nil {
		t.Fatal(err)
	}
	other := <-accepted
	defer other.Close()
	full := make(chan error)
	go func() {
		for {
			if _, err := conn.Write(make([]byte, 1<<16)); err != nil {
				full <- err
				return
			}
		}
	}()
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	<-full
	began := time.Now()
	_ = conn.Close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it takes %v", took)
	}
}
