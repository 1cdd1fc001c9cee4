package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// replicaScheme is the scheme of the URIs in replicas' certificates.
const replicaScheme = "stout"

// OfCertificate returns the principal of a connection by the certificate that
// its client has shown; nil without one. The handshake has verified it.
// OfCertificate checks whether it has expired since, because a connection may
// be old. The prefix is put before the name.
func OfCertificate(state *tls.ConnectionState, prefix string) (*Proof, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	var ends time.Time // of the chain that expires last
	for _, chain := range state.VerifiedChains {
		if end := endOf(chain); end.After(ends) {
			ends = end
		}
	}
	switch {
	case len(state.VerifiedChains) == 0:
		return nil, errors.New("it was not verified")
	case !time.Now().Before(ends):
		return nil, fmt.Errorf("it expired at %s", ends.UTC().Format(time.RFC3339))
	}
	return proofOfCertificate(state.PeerCertificates[0], prefix, ends)
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

// proofOfCertificate returns the proof of the name in a certificate. If the
// first name of the deciding kind is invalid, no other name is tried.
func proofOfCertificate(leaf *x509.Certificate, prefix string, ends time.Time) (*Proof, error) {
	for _, u := range leaf.URIs {
		if u.Scheme == replicaScheme {
			return nil, fmt.Errorf("it has the URI %q: it is a replica's and not a client's", u)
		}
	}
	switch {
	case len(leaf.URIs) > 0:
		return proofOf("its first URI", prefix, leaf.URIs[0].String(), ends)
	case len(leaf.DNSNames) > 0:
		return proofOf("its first DNS name", prefix, leaf.DNSNames[0], ends)
	case leaf.Subject.CommonName != "":
		return proofOf("its common name", prefix, leaf.Subject.CommonName, ends)
	}
	return nil, errors.New("it names no principal: it has no URI, DNS name or common name")
}
