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

// Server is the configuration of a server that speaks TLS 1.2 or later with the
// source's certificate, and judges its clients' by the source's CAs as auth
// says. Each handshake is made with what is in force then.
//
// Sessions are not resumed: a ticket would outlast the CA that its client's
// certificate was judged by.
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
				}
			}), nil
		},
	}
}

// config is what is made of the set in force, once for each use.
func (s *Source) config(use any, from func(*Set) *tls.Config) *tls.Config {
	g := s.present.Load()
	made, ok := g.made.Load(use)
	if !ok {
		made, _ = g.made.LoadOrStore(use, from(g.set))
	}
	return made.(*tls.Config)
}

// ReplicaURI is what a replica's certificate carries to be that of the replica
// of a name.
func ReplicaURI(id string) *url.URL {
	return &url.URL{Scheme: "stout", Host: "replica", Path: "/" + id}
}

// Mutual secures the connections between replicas by a source with a
// certificate and CAs: TLS 1.3, in which both ends show a certificate that one
// of the CAs has signed and that names the replica. Addresses do not count: a
// replica may move.
type Mutual struct{ Source *Source }

// Server is the configuration for the connections that are taken. Whose the
// other end is, Check says.
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

// Client is the configuration for a connection to the replica of the given
// name.
func (m Mutual) Client(id string) *tls.Config {
	set := m.Source.Set()
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return set.Certificate, nil // whatever CAs the other end says that it has
		},
		// The library would judge the certificate by a host's name. It is judged
		// by VerifyConnection, which is called for every handshake.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			err := verify(state.PeerCertificates, set.Pool, x509.ExtKeyUsageServerAuth)
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

// Check says whether a certificate is that of the replica of the given name.
// Who signed it was found out before.
func (Mutual) Check(leaf *x509.Certificate, id string) error {
	want := ReplicaURI(id).String()
	if slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return u.String() == want }) {
		return nil
	}
	return fmt.Errorf("the certificate of %q has not the URI %s", leaf.Subject, want)
}

func verify(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return errors.New("the other end showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

// OfReplica is the Check of a replica's own files: the others take its
// certificate for that of the replica of the given name, now or, where it has
// ended, once upon a time.
func OfReplica(id string) Check {
	return func(set *Set) error {
		leaf := set.Certificate.Leaf
		if err := (Mutual{}).Check(leaf, id); err != nil {
			return fmt.Errorf("%w, by which the others know this replica", err)
		}
		between := x509.NewCertPool()
		for _, der := range set.Certificate.Certificate[1:] {
			if c, err := x509.ParseCertificate(der); err == nil {
				between.AddCert(c)
			}
		}
		at := time.Now()
		if at.After(leaf.NotAfter) {
			at = leaf.NotAfter
		} else if at.Before(leaf.NotBefore) {
			at = leaf.NotBefore
		}
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			_, err := leaf.Verify(x509.VerifyOptions{Roots: set.Pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: at})
			if err != nil {
				return fmt.Errorf("the certificate of %q is none that the others would take; both ends of a connection show it, so it is a server's and a client's: %w", leaf.Subject, err)
			}
		}
		return nil
	}
}

// Client is the configuration of a client that judges servers by the source's
// CAs as they are now, or by the system's where it has none. It shows the
// certificate in force at each handshake, if there is one. It is the same
// configuration until the files change.
func (s *Source) Client() *tls.Config {
	type client struct{}
	return s.config(client{}, func(set *Set) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    set.Pool,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if own := s.Set().Certificate; own != nil {
					return own, nil // whatever CAs the server says that it has
				}
				return new(tls.Certificate), nil
			},
		}
	})
}
