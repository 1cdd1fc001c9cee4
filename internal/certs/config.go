package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Server returns the configuration of a server of HTTP/1.1 that uses TLS 1.2 or
// later with the source's certificate. A client that offers only other protocols by
// ALPN is refused. It verifies clients by the source's CAs, as auth
// requires. Each handshake uses the files in force at that time.
//
// Sessions are not resumed: a ticket would outlast the CA by which its client's
// certificate was verified.
func (s *Source) Server(auth tls.ClientAuthType) *tls.Config {
	type server struct{ tls.ClientAuthType }
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return s.config(server{auth}, func(set *Set) *tls.Config {
				return &tls.Config{
					MinVersion:             tls.VersionTLS12,
					Certificates:           []tls.Certificate{*set.Certificate},
					ClientAuth:             auth,
					ClientCAs:              set.Pool,
					SessionTicketsDisabled: true,
					NextProtos:             []string{"http/1.1"},
				}
			}), nil
		},
	}
}

// config returns the configuration that from makes of the set in force. It is
// made once per use.
func (s *Source) config(use any, from func(*Set) *tls.Config) *tls.Config {
	g := s.Present()
	made, ok := g.made.Load(use)
	if !ok {
		made, _ = g.made.LoadOrStore(use, from(g.set))
	}
	return made.(*tls.Config)
}

// ReplicaURI returns the URI that identifies a replica in its certificate.
func ReplicaURI(id string) *url.URL {
	return &url.URL{Scheme: "stout", Host: "replica", Path: "/" + id}
}

// Mutual secures the connections between replicas by a source with a
// certificate and CAs. It uses TLS 1.3. Both ends show a certificate that one
// of the CAs has signed and that names the replica. Addresses are not checked,
// because a replica may move.
type Mutual struct{ Source *Source }

// Server returns the configuration for incoming connections. The caller
// identifies the other end with Check.
func (m Mutual) Server() *tls.Config {
	type server struct{}
	return m.Source.config(server{}, func(set *Set) *tls.Config {
		return &tls.Config{
			MinVersion:             tls.VersionTLS13,
			Certificates:           []tls.Certificate{*set.Certificate},
			ClientAuth:             tls.RequireAndVerifyClientCert,
			ClientCAs:              set.Pool,
			SessionTicketsDisabled: true,
		}
	})
}

// Client returns the configuration for a connection to a named replica.
func (m Mutual) Client(id string) *tls.Config {
	set := m.Source.Set()
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return set.Certificate, nil // regardless of the CAs that the other end requests
		},
		// The library would verify the certificate against a host name.
		// VerifyConnection, which runs in every handshake, verifies it instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			err := verify(state.PeerCertificates, set.Pool, x509.ExtKeyUsageServerAuth, time.Now())
			if err == nil {
				err = m.Check(state.PeerCertificates[0], id)
			}
			if err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return nil
		},
	}
}

// Check returns an error unless a certificate belongs to the named replica. Its
// signature must have been verified before.
func (Mutual) Check(leaf *x509.Certificate, id string) error {
	want := ReplicaURI(id).String()
	if slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return u.String() == want }) {
		return nil
	}
	return fmt.Errorf("the certificate of %q does not have the URI %s", leaf.Subject, want)
}

func verify(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage, at time.Time) error {
	if len(chain) == 0 {
		return errors.New("the other end showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: at})
	return err
}

// OfReplica returns the Check for a replica's own files. The other replicas
// must accept its certificate as that of the named replica: now or, if it has
// expired, before.
func OfReplica(id string) Check {
	return func(set *Set) error {
		leaf := set.Certificate.Leaf
		if err := (Mutual{}).Check(leaf, id); err != nil {
			return fmt.Errorf("%w, which identifies this replica to the others", err)
		}
		at := time.Now()
		if at.After(leaf.NotAfter) {
			at = leaf.NotAfter
		} else if at.Before(leaf.NotBefore) {
			at = leaf.NotBefore
		}
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if err := verify(set.chain, set.Pool, use, at); err != nil {
				return fmt.Errorf("the other replicas would not accept the certificate of %q; both ends of a connection show it, so it must be for servers and clients: %w", leaf.Subject, err)
			}
		}
		return nil
	}
}

// Client returns the configuration of a client that verifies servers by the
// source's present CAs, or by the system's if it has none. It shows the
// certificate in force at each handshake, if there is one. The configuration
// stays the same until the files change.
func (s *Source) Client() *tls.Config {
	type client struct{}
	return s.config(client{}, func(set *Set) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    set.Pool,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if own := s.Set().Certificate; own != nil {
					return own, nil // regardless of the CAs that the server requests
				}
				return new(tls.Certificate), nil
			},
		}
	})
}
