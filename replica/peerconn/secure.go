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

// Security puts TLS under the hello of a connection; both ends show a
// certificate. It is called again for each connection, by many goroutines.
type Security interface {
	// Server returns the configuration for accepted connections. It accepts
	// only valid certificates; Check then compares the member.
	Server() *tls.Config
	// Client returns the configuration for a connection to the member of the
	// given name. It accepts only that member's certificate.
	Client(name string) *tls.Config
	// Check returns an error unless a certificate belongs to the member of the
	// given name.
	Check(leaf *x509.Certificate, name string) error
}

// secured is a connection with TLS. It closes without TLS's own closing alert.
// The protocol inside has its own end, and closing need not wait for an alert.
type secured struct{ *tls.Conn }

func (s secured) Close() error { return s.NetConn().Close() }

// nameOf returns the name of a member from its server id or its name.
func nameOf(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

// secure makes the TLS handshake of an accepted connection, within its
// deadline. A replica without TLS receives a refusal with the reason.
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
		if writeFrame(c, magic, reply{Refused: "this replica uses TLS; set raft-cert, raft-key and raft-ca"}) == nil {
			// With bytes unread, closing would cut the reply off.
			_, _ = io.Copy(io.Discard, c)
		}
	}
	if rejected, ok := rejection(err); ok {
		err = errors.New("the caller " + rejected)
	} else if unknown, ok := untrusted(err); ok {
		err = errors.New("the caller " + unknown)
	}
	return nil, err
}

// prove returns an error unless the caller is the member that its hello names.
func (l *Listener) prove(c net.Conn, from string) error {
	if l.rules.Security == nil {
		return nil
	}
	leaf := c.(secured).ConnectionState().PeerCertificates[0]
	if err := l.rules.Security.Check(leaf, nameOf(from)); err != nil {
		return fmt.Errorf("the caller claims to be %s: %w", from, err)
	}
	return nil
}

// secureTo makes the TLS handshake of a connection to the wanted member.
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

// ErrTrust reports a failed TLS handshake: one end has no certificate, or the
// other does not accept it.
var ErrTrust = errors.New("no trust")

// noTrust is an ErrTrust. Its text names the likely cause.
type noTrust struct{ err error }

func (e noTrust) Is(target error) bool { return target == ErrTrust }

func (e noTrust) Error() string {
	const perhaps = "; are raft-cert, raft-key and raft-ca set there?"
	if _, ok := errors.AsType[tls.RecordHeaderError](e.err); ok {
		return "the program there does not use TLS" + perhaps
	}
	if rejected, ok := rejection(e.err); ok {
		return "the replica there " + rejected
	}
	if unknown, ok := untrusted(e.err); ok {
		return "the program there " + unknown
	}
	if t := net.Error(nil); errors.As(e.err, &t) && t.Timeout() {
		return "the program there does not answer the TLS handshake" + perhaps
	}
	if _, ok := errors.AsType[*net.OpError](e.err); ok || errors.Is(e.err, io.EOF) {
		return "the program there closes connections in the TLS handshake" + perhaps
	}
	return "the program there is not the wanted replica: " + e.err.Error()
}

func (e noTrust) Unwrap() error { return e.err }

// untrusted describes a certificate of the other end that no CA in raft-ca has
// signed.
func untrusted(err error) (text string, ok bool) {
	unknown, ok := errors.AsType[x509.UnknownAuthorityError](err)
	if !ok || unknown.Cert == nil {
		return "", false
	}
	return fmt.Sprintf("shows the certificate of %q, signed by %q with a key that is not in this replica's raft-ca: sign it by that CA, or add its CA to raft-ca", unknown.Cert.Subject, unknown.Cert.Issuer), true
}

// rejection returns the other end's rejection of this one's certificate, if it
// sent one.
func rejection(err error) (text string, ok bool) {
	alert, ok := errors.AsType[*net.OpError](err)
	if !ok || alert.Op != "remote error" {
		return "", false
	}
	return fmt.Sprintf("does not accept this replica's certificate (%v); is it signed by the raft-ca there, has it expired, are the clocks right?", alert.Err), true
}
