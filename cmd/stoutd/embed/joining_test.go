package embed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// TestJoiningAfterANewCA: a replica that waits to join trusts the CA in force, also
// after it was replaced.
func TestJoiningAfterANewCA(t *testing.T) {
	top := t.TempDir()
	files := func(dir string) certs.Files {
		at := func(name string) string { return filepath.Join(top, dir, name) }
		return certs.Files{Cert: at("r1.pem"), Key: at("r1-key.pem"), CA: at("ca.pem")}
	}
	for _, dir := range []string{"own", "next"} {
		o := certs.Order{Dir: filepath.Join(top, dir), Replicas: []certs.Replica{{ID: "r1", Hosts: []string{"127.0.0.1"}}}, Ends: time.Now().AddDate(1, 0, 0)}
		if _, err := o.Make(); err != nil {
			t.Fatal(err)
		}
	}
	own, next := files("own"), files("next")
	pair, err := tls.LoadX509KeyPair(next.Cert, next.Key)
	if err != nil {
		t.Fatal(err)
	}
	at := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(lockapi.Joining{Replicas: []lockapi.Joined{{ID: "r2", RaftAddr: "127.0.0.1:7201"}}})
	}))
	at.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	at.StartTLS()
	defer at.Close()
	source, err := certs.Open(own, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Replica{config: &config.Config{Cell: "prod", Join: []string{at.URL}}, security: security{raft: source}}
	ask := r.joining()
	if _, err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("with another CA: %v", err)
	}
	for old, name := range map[string]string{own.Cert: next.Cert, own.Key: next.Key, own.CA: next.CA} {
		if err := os.Rename(name, old); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now)) // a bubble begins in 2000, before the certificates
		ctx, stop := context.WithCancel(t.Context())
		source.Watch(ctx, func(n certs.Notice) {
			if n.Taken {
				stop()
			}
		})
	})
	if members, err := ask(t.Context()); err != nil || len(members) != 1 {
		t.Errorf("with the new CA: %v, %v", members, err)
	}
}

// TestJoiningOneThatJoins: the error does not quote the detail of a replica that is not
// a member. It may wait for this replica, and the two would quote each other in
// details that grow with each call.
func TestJoiningOneThatJoins(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   any
		want   string
	}{
		"waits itself":    {http.StatusServiceUnavailable, lockapi.Error{Code: lockapi.CodeNoMaster, Detail: "to join cell x, waiting for http://b", Directory: "5f0a81c2d3e4b697"}, "not a member either"},
		"of another cell": {http.StatusConflict, lockapi.Error{Code: lockapi.CodeConflict, Detail: "a replica of another cell"}, "a replica of another cell"},
		"something else":  {http.StatusNotFound, "<html>", "404 Not Found; is it the URL of a replica?"},
		"no members":      {http.StatusOK, lockapi.Joining{}, "returned no members"},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_ = json.NewEncoder(w).Encode(tc.body)
			}))
			defer at.Close()
			_, err := askToJoin(t.Context(), at.Client(), "prod", []string{at.URL})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "waiting for") {
				t.Errorf("%v", err)
			}
		})
	}
}
