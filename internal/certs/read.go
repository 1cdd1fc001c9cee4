package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/internal/wait"
)

// Files has the names of PEM files. An empty field names no file.
type Files struct {
	// Cert has the certificate, followed by the chain to its CA. Key has its
	// private key. Both or neither are set.
	Cert, Key string
	// CA has the CA certificates that verify the other end.
	CA string
}

// Set is the content of Files.
type Set struct {
	Certificate *tls.Certificate // with its Leaf; nil without Files.Cert
	CAs         []*x509.Certificate
	Pool        *x509.CertPool // of CAs; nil without Files.CA

	chain []*x509.Certificate // of Certificate
}

// maxFile bounds a file of certificates, in bytes. The bundles of browsers have
// a quarter of it.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) { return new(readfile.Reader).Read(name, maxFile) }

// Exposed reports whether every user of the machine can read a key's file.
func Exposed(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), readfile.Patience)
	defer cancel()
	info, err := wait.Get(ctx, func() (os.FileInfo, error) { return os.Stat(name) })
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// parse parses the contents. It accepts a certificate that has expired or is
// not valid yet.
func (f Files) parse(cert, key, ca []byte) (*Set, error) {
	s := &Set{}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, explainPair(key, err))
		}
		s.Certificate, s.chain = &pair, []*x509.Certificate{pair.Leaf}
		for _, der := range pair.Certificate[1:] {
			if c, err := x509.ParseCertificate(der); err == nil {
				s.chain = append(s.chain, c)
			}
		}
	}
	if f.CA != "" {
		var err error
		if s.CAs, err = parseAll(ca); err != nil {
			return nil, fmt.Errorf("%s: %w", f.CA, err)
		}
		s.Pool = x509.NewCertPool()
		for _, c := range s.CAs {
			s.Pool.AddCert(c)
		}
	}
	return s, nil
}

// explainPair describes the most frequent fault of a pair in our own words.
func explainPair(key []byte, err error) error {
	if block, _ := pem.Decode(key); block != nil && (block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "") {
		return errors.New("the key is encrypted; stoutd cannot ask for its password, so give a key without one")
	}
	return err
}

// parseAll reads every certificate of a PEM file, at least one. It refuses any
// other content, such as a key that was given by mistake.
func parseAll(content []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a %q, but only certificates belong there", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !cert.IsCA {
			return nil, fmt.Errorf("its certificate of %q is not a CA's", cert.Subject)
		}
		all = append(all, cert)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("it has no certificate in PEM form")
	case bytes.Contains(content, []byte("-----BEGIN")):
		return nil, errors.New("it ends within a certificate")
	}
	return all, nil
}

// ends returns when the first certificate of the chain expires, and when the
// last CA does. The zero time means no certificate.
func (s *Set) ends() (certificate, cas time.Time) {
	for i, c := range s.chain {
		if i == 0 || c.NotAfter.Before(certificate) {
			certificate = c.NotAfter
		}
	}
	for _, ca := range s.CAs {
		if ca.NotAfter.After(cas) {
			cas = ca.NotAfter
		}
	}
	return certificate, cas
}
