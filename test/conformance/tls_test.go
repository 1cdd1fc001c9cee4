package conformance

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// tls: a cell with TLS and access control, which knows the client by its token.
func tls(w *world) {
	c := w.secure()
	w.start(c.cell)
	secret, err := os.ReadFile(c.token)
	if err != nil {
		w.Fatal(err)
	}
	as := func(name, token string) {
		w.d.do("connect", fields{
			"as": name, "urls": c.cell.URLs(), "ca": c.cell.Cert("ca.pem"), "cert": c.cell.Cert("me.pem"), "key": c.cell.Cert("me-key.pem"), "token": token,
		})
	}
	as("c", strings.TrimSpace(string(secret)))
	w.open(10 * time.Second)
	w.lock(w.prefix)
	w.d.do("put", fields{"session": "s", "path": w.prefix})
	w.d.do("get", fields{"cell": "c", "path": w.prefix})
	w.wantHeld("h")
	as("me", "") // known by its certificate, and without rights
	w.d.begin("get", fields{"cell": "me", "path": w.prefix}).fails("permission_denied")
	as("stranger", "stout_"+strings.Repeat("x", 43))
	w.d.begin("get", fields{"cell": "stranger", "path": w.prefix}).fails("unauthenticated")
}

// untrusted: a server with another CA's certificate gets no request.
func untrusted(w *world) {
	c := w.secure()
	w.start(c.cell)
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	w.Cleanup(server.Close)
	w.d.do("connect", fields{"as": "c", "urls": []string{server.URL}, "ca": c.cell.Cert("ca.pem"), "token": "stout_secret"})
	w.d.begin("get", fields{"cell": "c", "path": w.prefix, "timeout_ms": 1500}).fails("no_master")
	if n := requests.Load(); n > 0 {
		w.Errorf("the client sent %d requests to a server that it does not trust", n)
	}
}
