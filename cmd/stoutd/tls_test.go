package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/certs"
)

// newCerts makes the certificates of replica r1 and client billing in a new
// directory, and a client that trusts them.
func newCerts(t *testing.T) (dir string, via *http.Client) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	_, err := certs.Order{
		Dir: dir, Replicas: []certs.Replica{{ID: "r1", Hosts: []string{"127.0.0.1"}}}, Clients: []string{"billing"},
		Ends: time.Now().AddDate(1, 0, 0),
	}.Make()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certs.Open(certs.Files{CA: filepath.Join(dir, "ca.pem")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ca.Set().Pool}}}
}

// tlsFlags returns the flags of replica r1 with these certificates.
func tlsFlags(dir string) []string {
	at := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"--api-cert", at("r1.pem"), "--api-key", at("r1-key.pem"), "--api-client-ca", at("ca.pem"),
		"--raft-cert", at("r1.pem"), "--raft-key", at("r1-key.pem"), "--raft-ca", at("ca.pem"),
	}
}

// TestRefusedCertificates: unusable certificates are refused before anything is
// written, with the setting and the reason.
func TestRefusedCertificates(t *testing.T) {
	dir, _ := newCerts(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	other, _ := newCerts(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":        {[]string{"--api-cert", at("none.pem")}, `api-cert "` + at("none.pem") + `" (flag --api-cert): open `},
		"another's key":  {[]string{"--api-key", filepath.Join(other, "r1-key.pem")}, "private key does not match"},
		"a client's":     {[]string{"--raft-cert", at("billing.pem"), "--raft-key", at("billing-key.pem")}, "does not have the URI stout://replica/r1"},
		"another CA's":   {[]string{"--raft-ca", filepath.Join(other, "ca.pem")}, "would not accept the certificate"},
		"a key for a CA": {[]string{"--api-client-ca", at("ca-key.pem")}, "only certificates belong there"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		args := append(append(replicaFlags(data), tlsFlags(dir)...), test.args...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "http://", "https://")
		}
		code, _, stderr := invoke(t, args...)
		if code != exitStart || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

// TestClientAuth: api-client-auth decides which clients are accepted.
func TestClientAuth(t *testing.T) {
	dir, via := newCerts(t)
	trust := via.Transport.(*http.Transport).TLSClientConfig
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "billing.pem"), filepath.Join(dir, "billing-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	otherDir, _ := newCerts(t)
	other, err := tls.LoadX509KeyPair(filepath.Join(otherDir, "billing.pem"), filepath.Join(otherDir, "billing-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string]string{"none": "yes yes yes", "optional": "yes yes no", "required": "no yes no"} {
		t.Run(policy, func(t *testing.T) {
			port := freePort(t)
			serving(t, append(tlsFlags(dir), devFlags("127.0.0.1:"+port, "--log-level", "error", "--api-client-auth", policy)...)...)
			get := func(certificates ...tls.Certificate) error {
				config := trust.Clone()
				// Show the certificate even if the server names other CAs.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if len(certificates) == 0 {
						return new(tls.Certificate), nil
					}
					return &certificates[0], nil
				}
				transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
				resp, err := (&http.Client{Transport: transport}).Get("https://127.0.0.1:" + port + "/livez")
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return err
			}
			for deadline := time.Now().Add(time.Minute); get(pair) != nil; {
				if time.Now().After(deadline) {
					t.Fatal(get(pair))
				}
				<-time.After(10 * time.Millisecond)
			}
			var got []string
			for _, shown := range [][]tls.Certificate{nil, {pair}, {other}} {
				if err := get(shown...); err != nil {
					got = append(got, "no")
				} else {
					got = append(got, "yes")
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("without, with one, with another CA's: %v, want %s", got, want)
			}
		})
	}
}
