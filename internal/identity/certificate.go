package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// replicaScheme is that of the URIs in certificates of replicas.
const replicaScheme = "stout"

// Certificates judges the certificates that clients show over TLS.
type Certificates struct {
	// CAs are those that sign them, as they are now. A connection may be older.
	CAs func() []*x509.Certificate
}

// Prove finds whose a connection is by the certificate that its client has
// shown; nil where it has shown none. The handshake has verified it: looked at
// here is whether that still holds for a connection that is kept.
func (c Certificates) Prove(state *tls.ConnectionState) (*Proof, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	ends, err := c.verified(state.VerifiedChains, time.Now())
	if err != nil {
		return nil, err
	}
	principal, err := principalOfCertificate(state.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	return &Proof{Principal: principal, Ends: ends}, nil
}

// verified is when the last of the chains ends that lead to a CA in force.
func (c Certificates) verified(chains [][]*x509.Certificate, now time.Time) (ends time.Time, err error) {
	cas := c.CAs()
	trusted := false
	for _, chain := range chains {
		if len(chain) == 0 || !slices.ContainsFunc(cas, chain[len(chain)-1].Equal) {
			continue
		}
		trusted = true
		if end := endOf(chain); end.After(ends) {
			ends = end
		}
	}
	switch {
	case !trusted:
		return ends, errors.New("no CA that signs clients' certificates here has signed it")
	case !now.Before(ends):
		return ends, fmt.Errorf("it ended at %s", ends.UTC().Format(time.RFC3339))
	}
	return ends, nil
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
func principalOfCertificate(leaf *x509.Certificate) (string, error) {
	for _, u := range leaf.URIs {
		if u.Scheme == replicaScheme {
			return "", fmt.Errorf("it has the URI %q: it is a replica's, and no client's", u)
		}
	}
	switch {
	case len(leaf.URIs) > 0:
		return principalOf("its first URI", leaf.URIs[0].String())
	case len(leaf.DNSNames) > 0:
		return principalOf("its first DNS name", leaf.DNSNames[0])
	case leaf.Subject.CommonName != "":
		return principalOf("its common name", leaf.Subject.CommonName)
	}
	return "", errors.New("it names nobody: it has no URI, no DNS name and no common name")
}
