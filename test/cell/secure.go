package cell

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stoutlock/stout/internal/certs"
)

func (c *Cell) scheme() string {
	if c.opts.Secure {
		return "https://"
	}
	return "http://"
}

// Cert returns the path of a file in the cell's certificate directory, such as
// "ca.pem" or "r1-key.pem".
func (c *Cell) Cert(name string) string { return filepath.Join(c.opts.Dir, "certs", name) }

// secure makes the missing certificates and the clients' configuration.
func (c *Cell) secure() error {
	o := certs.Order{Dir: filepath.Join(c.opts.Dir, "certs"), Ends: time.Now().AddDate(5, 0, 0)}
	missing := func(name string) bool {
		_, err := os.Stat(c.Cert(name + ".pem"))
		return errors.Is(err, os.ErrNotExist)
	}
	for _, r := range c.replicas {
		if missing(r.ID) {
			o.Replicas = append(o.Replicas, certs.Replica{ID: r.ID, Hosts: []string{"127.0.0.1"}})
		}
	}
	for _, name := range c.opts.Clients {
		if missing(name) {
			o.Clients = append(o.Clients, name)
		}
	}
	if len(o.Replicas)+len(o.Clients) > 0 {
		if _, err := o.Make(); err != nil {
			return err
		}
	}
	ca, err := os.ReadFile(c.Cert("ca.pem"))
	if err != nil {
		return err
	}
	c.tls = &tls.Config{RootCAs: x509.NewCertPool()}
	if !c.tls.RootCAs.AppendCertsFromPEM(ca) {
		return fmt.Errorf("%s has no certificate", c.Cert("ca.pem"))
	}
	via := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.tls}}
	for _, r := range c.replicas {
		r.via = via
	}
	return nil
}

// TLS returns the configuration of a client without a certificate; nil without
// TLS.
func (c *Cell) TLS() *tls.Config { return c.tls.Clone() }

// ClientTLS returns the configuration of a named client, one of
// Options.Clients.
func (c *Cell) ClientTLS(name string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert(name+".pem"), c.Cert(name+"-key.pem"))
	if err != nil {
		return nil, err
	}
	config := c.TLS()
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// tlsFlags returns the flags that make a replica use TLS.
func (c *Cell) tlsFlags(r *Replica) []string {
	if !c.opts.Secure {
		return nil
	}
	cert, key, ca := c.Cert(r.ID+".pem"), c.Cert(r.ID+"-key.pem"), c.Cert("ca.pem")
	return []string{
		"--api-cert", cert, "--api-key", key, "--api-client-ca", ca,
		"--raft-cert", cert, "--raft-key", key, "--raft-ca", ca,
	}
}
