//go:build unix

package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoutlock/stout/internal/certs"
)

// secure DIR has the fake cell speak https from now on, with the certificate of
// r1 in DIR, to clients that show one; its port without TLS is PLAIN.
func cmdSecure(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	at := func(name string) string { return filepath.Join(dir, name) }
	source, err := certs.Open(certs.Files{Cert: at("r1.pem"), Key: at("r1-key.pem"), CA: at("ca.pem")}, nil)
	ts.Check(err)
	c := ts.Value(cellKey{}).(*fakeCell)
	handler := c.handler().(*http.ServeMux)
	handler.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		for use, days := range map[string]int{"api": 400, "raft": 3} {
			ends := time.Now().Add(time.Duration(days)*24*time.Hour + time.Minute).Unix()
			fmt.Fprintf(w, "stout_certificate_expiry_timestamp_seconds{part=\"certificate\",use=%q} %d\n", use, ends)
		}
	})
	s := httptest.NewUnstartedServer(handler)
	s.TLS = source.Server(tls.RequireAndVerifyClientCert)
	s.StartTLS()
	ts.Defer(func() { s.CloseClientConnections(); s.Close() })
	plain := c.url
	c.mu.Lock()
	c.url = "https://" + s.Listener.Addr().String()
	c.mu.Unlock()
	ts.Setenv("PLAIN", strings.TrimPrefix(plain, "http://"))
	ts.Setenv("SECURE", strings.TrimPrefix(c.url, "https://"))
}
