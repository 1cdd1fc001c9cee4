package peerconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Security lays TLS under the hello of a connection, in which both ends show
// a certificate. It is asked anew for each connection, by many goroutines.
type Security interface {
	// Server is the configuration for connections that are taken. It takes only
	// certificates that are good; whose they may be, Check says.
	Server() *tls.Config
	// Client is the configuration for a connection to the member of the given
	// name, and takes no certificate but that one's.
	Client(name string) *tls.Config
	// Check says whether a certificate is that of the member of the given name.
	Check(leaf *x509.Certificate, name string) error
}

// secured is a connection with TLS. It ends without TLS's own word for it: what
// goes over it says where it ends, and nobody waits until that word is taken.
type secured struct{ *tls.Conn }

func (s secured) Close() error { return s.NetConn().Close() }

// nameOf is the name of the member that a server id, or a name, stands for.
func nameOf(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

// secure makes the handshake of a connection that was taken, within its
// deadline. A replica that speaks no TLS is told so.
func (l *Listener) secure(c net.Conn) (net.Conn, error) {
	if l.rules.Security == nil {
		return c, nil
	}
	t := tls.Server(c, l.rules.Security.Server())
	err := t.Handshake()
	if err == nil {
		return secured{t}, nil
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && strings.HasPrefix(magic, string(plain.RecordHeader[:])) {
		if writeFrame(c, magic, reply{Refused: "this replica speaks TLS with the others; give raft-cert, raft-key and raft-ca"}) == nil {
			// With bytes unread, closing would cut the reply off.
			_, _ = io.Copy(io.Discard, c)
		}
	}
	return nil, err
}

// prove says whether whoever opened a connection is the member that it says it
// is.
func (l *Listener) prove(c net.Conn, from string) error {
	if l.rules.Security == nil {
		return nil
	}
	leaf := c.(secured).ConnectionState().PeerCertificates[0]
	if err := l.rules.Security.Check(leaf, nameOf(from)); err != nil {
		return fmt.Errorf("the caller says that it is %s, and %w", from, err)
	}
	return nil
}

// secureTo makes the handshake of a connection to the member that is wanted.
func secureTo(ctx context.Context, c net.Conn, s Security, server string) (net.Conn, error) {
	if s == nil {
		return c, nil
	}
	t := tls.Client(c, s.Client(nameOf(server)))
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, noTrust{err}
	}
	return secured{t}, nil
}

// ErrTrust says that there was no handshake of TLS: one end does not take the
// other's certificate, or has none.
var ErrTrust = errors.New("no trust")

// noTrust is such an error, in the same words each time.
type noTrust struct{ err error }

func (e noTrust) Is(target error) bool { return target == ErrTrust }

func (e noTrust) Error() string {
	const perhaps = "; has the replica there none of raft-cert, raft-key and raft-ca?"
	if _, ok := errors.AsType[tls.RecordHeaderError](e.err); ok {
		return "what listens there speaks no TLS" + perhaps
	}
	if rejected, ok := rejection(e.err); ok {
		return rejected
	}
	if t := net.Error(nil); errors.As(e.err, &t) && t.Timeout() {
		return "what listens there does not answer the handshake of TLS" + perhaps
	}
	if _, ok := errors.AsType[*net.OpError](e.err); ok || errors.Is(e.err, io.EOF) {
		return "what listens there ends connections in the handshake of TLS" + perhaps
	}
	return "what listens there is not the replica that is wanted: " + e.err.Error()
}

func (e noTrust) Unwrap() error { return e.err }

// rejection says that the other end does not take this one's certificate, where
// it has said so.
func rejection(err error) (text string, ok bool) {
	alert, ok := errors.AsType[*net.OpError](err)
	if !ok || alert.Op != "remote error" {
		return "", false
	}
	return fmt.Sprintf("what listens there does not take this replica's certificate (%v); is it signed by the raft-ca there, has it ended, are the clocks right?", alert.Err), true
}
