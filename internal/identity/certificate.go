package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// replicaScheme is that of the URIs in certificates of replicas.
const replicaScheme = "stout"

// OfCertificate finds whose a connection is by the certificate that its client
// has shown; nil where it has shown none. The handshake has verified it. Looked at
// here is whether it has ended since, for a connection may be older. The prefix
// stands before the name.
func OfCertificate(state *tls.ConnectionState, prefix string) (*Proof, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	var ends time.Time // of the chain that ends last
	for _, chain := range state.VerifiedChains {
		if end := endOf(chain); end.After(ends) {
			ends = end
		}
	}
	switch {
	case len(state.VerifiedChains) == 0:
		return nil, errors.New("nobody has verified it")
	case !time.Now().Before(ends):
		return nil, fmt.Errorf("it ended at %s", ends.UTC().Format(time.RFC3339))
	}
	principal, err := principalOfCertificate(state.PeerCertificates[0], prefix)
	if err != nil {
		return nil, err
	}
	return &Proof{Principal: principal, Ends: ends}, nil
}

func endOf(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// principalOfCertificate is the principal that a certificate names. Where the
// first name of the kind that counts can't be one, no other is tried.
func principalOfCertificate(leaf *x509.Certificate, prefix string) (string, error) {
	for _, u := range leaf.URIs {
		if u.Scheme == replicaScheme {
			return "", fmt.Errorf("it has the URI %q: it is a replica's, and no client's", u)
		}
	}
	switch {
	case len(leaf.URIs) > 0:
		return principalOf("its first URI", prefix, leaf.URIs[0].String())
	case len(leaf.DNSNames) > 0:
		return principalOf("its first DNS name", prefix, leaf.DNSNames[0])
	case leaf.Subject.CommonName != "":
		return principalOf("its common name", prefix, leaf.Subject.CommonName)
	}
	return "", errors.New("it names nobody: it has no URI, no DNS name and no common name")
}
