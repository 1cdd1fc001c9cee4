package peerconn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
)

// elsewhere dials from another address than the test's members have.
func elsewhere(t *testing.T) func(addr string) (net.Conn, error) {
	t.Helper()
	testrun.E2E(t) // it takes an address that not every machine has
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: patience}
	probe, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err) // not all of 127/8 is this machine's everywhere
	}
	_ = probe.Close()
	return func(addr string) (net.Conn, error) { return d.DialContext(t.Context(), "tcp", addr) }
}

// TestTenThousandConnections: strangers send anything, or leave connections
// half open. They cost at most a bounded number of files and goroutines and
// little memory, while members can still open theirs.
func TestTenThousandConnections(t *testing.T) {
	dial := elsewhere(t)
	c := newCA(t)
	huge := string(binary.BigEndian.AppendUint32([]byte(magic), 1<<32-1))
	long := string(binary.BigEndian.AppendUint32([]byte(magic), maxFrame))
	for name, test := range map[string]struct {
		security Security
		member   func() Security
		sends    []string
	}{
		"without TLS": {nil, func() Security { return nil },
			[]string{"", magic, magic[:3], huge, long, long + strings.Repeat("x", 1000), "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x00", 4096)}},
		"over TLS": {c.source(t, of("r1")), func() Security { return c.source(t, of("r2")) },
			[]string{"", "\x16\x03\x01", "\x16\x03\x01\xff\xff", firstFlight(t, c), firstFlight(t, c)[:100], magic, huge, strings.Repeat("\x16", 4096)}},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			files := &openFiles{Listener: in}
			l := Listen(files, Rules{Security: test.security, Members: func() []string { return nil },
				Admit: func(Hello) ([]byte, error) { return []byte("card"), nil }})
			defer l.Close()
			member := test.member()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			const all, atOnce = 10_000, 200
			var next, failed atomic.Int64
			var attackers sync.WaitGroup
			for range atOnce {
				attackers.Go(func() {
					var held []net.Conn
					for i := next.Add(1); i <= all; i = next.Add(1) {
						conn, err := dial(l.Addr().String())
						if err != nil {
							failed.Add(1)
							continue
						}
						// Most close with a reset. If thousands of ports wait,
						// the kernel's search for a free one takes the test's
						// processors.
						if i%10 != 0 {
							_ = conn.(*net.TCPConn).SetLinger(0)
						}
						_, _ = io.WriteString(conn, test.sends[int(i)%len(test.sends)])
						if held = append(held, conn); len(held) > 2 {
							_ = held[0].Close()
							held = held[1:]
						}
					}
					for _, conn := range held {
						_ = conn.Close()
					}
				})
			}
			over := make(chan struct{})
			go func() { attackers.Wait(); close(over) }()
			opened, late, largest := 0, 0, uint64(0)
			for done := false; !done; {
				select {
				case <-over:
					done = true
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				asked := time.Now()
				_, err := AskInfo(ctx, l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, member)
				cancel()
				switch took := time.Since(asked); {
				case err == nil:
					late = 0
				case took < helloTimeout: // it was not for want of time
					t.Errorf("a member had to make way after %v: %v", took, err)
				default: // a busy machine: it tries again, as replicas do
					if late++; late == 3 {
						t.Errorf("a member is kept out: %v", err)
					}
				}
				opened++
				runtime.ReadMemStats(&after)
				largest = max(largest, after.HeapAlloc)
			}
			if grown := int64(largest) - int64(before.HeapAlloc); grown > 128<<20 {
				t.Errorf("they take %d MB", grown>>20)
			}
			// A connection that makes way is closed while later ones are
			// already in accept.
			if most := files.most.Load(); most > maxUnopened+atOnce {
				t.Errorf("%d connections were open at once", most)
			}
			t.Logf("a member opened %d connections meanwhile; at most %d open, %d MB of heap, %d failed dials", opened, files.most.Load(), largest>>20, failed.Load())
			if failed.Load() > all/2 {
				t.Errorf("%d dials failed: nothing was attacked", failed.Load())
			}
		})
	}
}

// openFiles counts open connections.
type openFiles struct {
	net.Listener
	now, most atomic.Int64
}

func (o *openFiles) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	now := o.now.Add(1)
	for most := o.most.Load(); now > most && !o.most.CompareAndSwap(most, now); most = o.most.Load() {
	}
	return &counted{Conn: c, left: sync.OnceFunc(func() { o.now.Add(-1) })}, nil
}

type counted struct {
	net.Conn
	left func()
}

func (c *counted) Close() error {
	c.left()
	return c.Conn.Close()
}

// TestDrippingIsCutOff: a caller that sends a byte now and then gets no more
// time for its hello than others.
func TestDrippingIsCutOff(t *testing.T) {
	c := newCA(t)
	security, hello := c.source(t, of("r1")), firstFlight(t, c)
	for name, test := range map[string]struct {
		security Security
		bytes    string
	}{
		"a hello":     {nil, string(binary.BigEndian.AppendUint32([]byte(magic), maxFrame)) + strings.Repeat("x", maxFrame)},
		"a handshake": {security, hello + strings.Repeat("x", maxFrame)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &pipe{conns: make(chan net.Conn), done: make(chan struct{})}
				l := Listen(in, Rules{Security: test.security, Members: func() []string { return nil },
					Admit: func(Hello) ([]byte, error) { return nil, nil }})
				defer l.Close()
				conn, theirs := net.Pipe()
				defer conn.Close()
				in.conns <- theirs
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				began := time.Now()
				for i := range len(test.bytes) {
					if _, err := io.WriteString(conn, test.bytes[i:i+1]); err != nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took > helloTimeout+20*time.Millisecond {
					t.Errorf("it is cut off after %v", took)
				}
			})
		})
	}
}

// pipe is a listener of connections in memory.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipe) Close() error   { close(p.done); return nil }
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestNobodyElseIsTold: without a member's certificate, or with another
// member's, a caller learns nothing from the card and cannot open a connection.
func TestNobodyElseIsTold(t *testing.T) {
	c, other := newCA(t), newCA(t)
	l := serveWith(t, c.source(t, of("r1")))
	go accept(l)
	for name, s := range map[string]Security{
		"none":                    naked{c.source(t, of("r2"))},
		"a client's":              c.source(t, certs.Leaf{Client: true}),
		"another member's":        c.source(t, of("r3")),
		"the listener's":          c.source(t, of("r1")),
		"another cell's":          trusting{other.source(t, of("r2")), c}.mutual(t),
		"that of a name with r2/": c.source(t, of("r2/b")),
	} {
		card, err := AskInfo(t.Context(), l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, s)
		if err == nil || card != nil || strings.Contains(err.Error(), "card of") || strings.Contains(err.Error(), "cell id") {
			t.Errorf("%s certificate: %q, %v", name, card, err)
		}
		for _, kind := range []Kind{Raft, Call} {
			if conn, err := Dial(t.Context(), l.Addr().String(), good(kind), s); err == nil {
				conn.Close()
				t.Errorf("%s certificate: a connection for %v is open", name, kind)
			}
		}
	}
	// The cell's own CA, a member's own name, and another cell: refused by its id.
	o := good(Raft)
	o.CellID = "another"
	if _, err := Dial(t.Context(), l.Addr().String(), o, c.source(t, of("r2"))); !errors.Is(err, ErrRefused) {
		t.Errorf("another cell of the same CA: %v", err)
	}
}

// naked shows no certificate.
type naked struct{ certs.Mutual }

func (n naked) Client(id string) *tls.Config {
	config := n.Mutual.Client(id).Clone()
	config.Certificates = nil
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
	return config
}
