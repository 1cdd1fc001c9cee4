package certmagicstout_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/stoutlock/stout/client/stouttest"
)

// authority is an issuer of certificates that counts them.
type authority struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
}

func (a *authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	template := x509.Certificate{
		SerialNumber: big.NewInt(a.issued.Add(1)), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, request.PublicKey, a.key)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// TestIssueOnce: servers that share a storage obtain one certificate, also when
// all begin at the same time, and each can load it.
func TestIssueOnce(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c, ca := stouttest.New(t, stouttest.Options{}), &authority{key: key}
	var servers sync.WaitGroup
	for range 4 {
		servers.Go(func() {
			var config *certmagic.Config
			cache := certmagic.NewCache(certmagic.CacheOptions{
				Logger:           zap.NewNop(),
				GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
			})
			defer cache.Stop()
			config = certmagic.New(cache, certmagic.Config{
				Logger: zap.NewNop(), Storage: newStorage(t, c.Client()), Issuers: []certmagic.Issuer{ca},
				OCSP: certmagic.OCSPConfig{DisableStapling: true},
			})
			if err := config.ObtainCertSync(t.Context(), "example.com"); err != nil {
				t.Error(err)
			}
			if cert, err := config.CacheManagedCertificate(t.Context(), "example.com"); err != nil || len(cert.Names) != 1 || cert.Names[0] != "example.com" {
				t.Errorf("%v, %v", cert.Names, err)
			}
		})
	}
	servers.Wait()
	if n := ca.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
}
