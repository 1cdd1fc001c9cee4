package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// Authority is a CA with its key.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// slack is how long before the present a certificate begins, because clocks
// differ.
const slack = time.Hour

// NewAuthority makes a CA that signs only leaf certificates, and expires at
// ends.
func NewAuthority(name string, ends time.Time) (*Authority, error) {
	key, template, err := begin(name, ends)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert, key}, nil
}

// readAuthority reads a CA's certificate and key in PEM form.
func readAuthority(cert, key []byte) (*Authority, error) {
	all, err := parseAll(cert)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(key)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("its key is not in PEM form, PKCS #8")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("its key can't sign")
	}
	if own, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(all[0].PublicKey) {
		return nil, errors.New("its key does not match its certificate")
	}
	return &Authority{all[0], signer}, nil
}

// Leaf describes a certificate to issue.
type Leaf struct {
	Name   string     // its common name
	Hosts  []string   // of a server, names and addresses; empty for other uses
	URIs   []*url.URL // that identify the subject
	Client bool       // it is also a client's
	Ends   time.Time
}

// Issue makes a key and signs a certificate for it. The certificate expires no
// later than the CA.
func (a *Authority) Issue(l Leaf) (*x509.Certificate, crypto.Signer, error) {
	key, template, err := begin(l.Name, a.until(l.Ends))
	if err != nil {
		return nil, nil, err
	}
	template.BasicConstraintsValid = true
	template.KeyUsage, template.URIs = x509.KeyUsageDigitalSignature, l.URIs
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	if len(l.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if l.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	cert, err := sign(template, a.Certificate, key.Public(), a.Key)
	return cert, key, err
}

// begin makes a key and the fields that all certificates share.
func begin(name string, ends time.Time) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	begins := time.Now().Add(-slack)
	if !begins.Before(ends) { // expired already, for tests
		begins = ends.Add(-slack)
	}
	return key, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: begins, NotAfter: ends,
	}, nil
}

// newSerial returns a random serial number, which is not 0.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// CertificatePEM returns a certificate in PEM form.
func CertificatePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// KeyPEM returns a key in PEM form.
func KeyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
