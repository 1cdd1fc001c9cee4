package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// secureSDK returns the SDK with the certificate of a named client.
func secureSDK(t *testing.T, c *cell.Cell, name string) *client.Client {
	t.Helper()
	config, err := c.ClientTLS(name)
	must(t, err)
	sdk, err := client.Config{URLs: c.URLs(), TLS: config}.New()
	must(t, err)
	t.Cleanup(func() { _ = sdk.Close() })
	return sdk
}

// TestSecureCell: a cell with TLS everywhere works like any other, across a
// change of master, and answers only TLS.
func TestSecureCell(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Secure: true, Clients: []string{"billing"}})
	master := c.Ready(t)
	t.Run("through every replica", func(t *testing.T) { throughEveryReplica(t, c) })
	t.Run("strangers", func(t *testing.T) { strangersToTLS(t, c, master) })

	ctx, stop := context.WithCancel(cell.Bounded(t))
	defer stop()
	sdk := secureSDK(t, c, "billing")
	received := make(chan string, 10)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() {
		for change, err := range sdk.Follow(ctx, "/jobs/", client.Contents()) {
			if err == nil && change.File != nil {
				received <- string(change.File.Content)
			}
		}
	})
	session, err := sdk.NewSession(ctx)
	must(t, err)
	held, err := session.Lock(ctx, "/jobs/nightly")
	must(t, err)
	must(t, master.Kill())
	newMaster(t, c, master)
	must(t, held.Unlock(ctx))
	_, err = session.Put(ctx, "/jobs/done", []byte("yes"))
	must(t, err)
	if got := <-received; got != "yes" {
		t.Errorf("the follower received %q", got)
	}
	must(t, session.Close(ctx))
	must(t, master.Start())
	c.Ready(t)
}

// strangersToTLS make calls that must be refused.
func strangersToTLS(t *testing.T, c *cell.Cell, r *cell.Replica) {
	_, err := cell.Call(cell.Bounded(t), http.MethodGet, "http://"+r.Addr(), lockapi.RouteCell, nil, nil)
	if refused := new(lockapi.Error); !errors.As(err, &refused) || !strings.Contains(refused.Detail, "https://") {
		t.Errorf("a call without TLS gets %v", err)
	}
	for name, config := range map[string]*tls.Config{
		"TLS 1.1": {RootCAs: c.TLS().RootCAs, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"HTTP/2":  {RootCAs: c.TLS().RootCAs, NextProtos: []string{"h2"}},
		"no HTTP": {RootCAs: c.TLS().RootCAs, NextProtos: []string{"ssh"}},
	} {
		if conn, err := tls.Dial("tcp", r.Addr(), config); err == nil {
			conn.Close()
			t.Errorf("%s: it is open", name)
		}
	}
	other := filepath.Join(t.TempDir(), "certs")
	_, err = certs.Order{Dir: other, Clients: []string{"billing"}, Ends: time.Now().Add(time.Hour)}.Make()
	must(t, err)
	pair, err := tls.LoadX509KeyPair(filepath.Join(other, "billing.pem"), filepath.Join(other, "billing-key.pem"))
	must(t, err)
	sdk, err := client.Config{URLs: []string{r.URL}, TLS: &tls.Config{RootCAs: c.TLS().RootCAs, Certificates: []tls.Certificate{pair}}}.New()
	must(t, err)
	if _, err := admin.New(sdk).CellAt(cell.Bounded(t), r.URL); err == nil || !strings.Contains(err.Error(), "refuses our certificate") {
		t.Errorf("another CA's client: %v", err)
	}
	// The replicas' port does not answer without a certificate.
	conn, err := net.Dial("tcp", r.RaftAddr)
	must(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	_ = conn.SetDeadline(time.Now().Add(cell.Step))
	if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the replicas' port answers %q, %v", got, err)
	}
	if conn, err := tls.Dial("tcp", r.RaftAddr, c.TLS()); err == nil {
		_ = conn.SetDeadline(time.Now().Add(cell.Step))
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("the replicas' port without a certificate: %v", err)
		}
		conn.Close()
	}
}

// TestCertificatesChange: the CA and all certificates are replaced under
// traffic, in the order of docs/security.md. No call fails, no connection ends,
// and the master stays.
func TestCertificatesChange(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still, Secure: true, Clients: []string{"billing"}})
	master := c.Ready(t)
	epoch := view(t, master).Epoch
	ctx, stop := context.WithCancel(cell.Bounded(t))
	defer stop()
	sdk := secureSDK(t, c, "billing")
	var calls sync.WaitGroup
	defer calls.Wait()
	session, err := sdk.NewSession(ctx)
	must(t, err)
	working, enough := context.WithCancel(ctx)
	defer enough()
	calls.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := 0; working.Err() == nil; n++ {
			<-tick.C
			if _, err := session.Put(ctx, "/traffic", fmt.Append(nil, n)); err != nil {
				t.Errorf("write %d: %v", n, err)
				return
			}
		}
	})
	kept, err := tls.Dial("tcp", c.Replicas()[0].Addr(), c.TLS())
	must(t, err)
	defer kept.Close()
	ask := func() {
		t.Helper()
		_, err := io.WriteString(kept, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(kept), nil)
		must(t, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", resp.Status, err)
		}
	}
	ask()

	next := filepath.Join(t.TempDir(), "certs")
	o := certs.Order{Dir: next, Ends: time.Now().Add(24 * time.Hour)}
	for _, r := range c.Replicas() {
		o.Replicas = append(o.Replicas, certs.Replica{ID: r.ID, Hosts: []string{"127.0.0.1"}})
	}
	_, err = o.Make()
	must(t, err)
	file := func(name string) []byte {
		content, err := os.ReadFile(name)
		must(t, err)
		return content
	}
	write := func(name string, content []byte) { must(t, os.WriteFile(c.Cert(name), content, 0o600)) }
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	taken := func(changes int) {
		t.Helper()
		for _, r := range c.Replicas() {
			must(t, cell.Wait(cell.Bounded(t), r.ID+" has taken the change", func(ctx context.Context) error {
				page := metrics(ctx, t, fresh, r)
				for _, use := range []string{"api", "raft"} {
					line := fmt.Sprintf("stout_certificate_reloads_total{result=\"taken\",use=%q} %d\n", use, changes)
					if !strings.Contains(page, line) {
						return fmt.Errorf("no %s", line)
					}
				}
				return nil
			}))
		}
	}
	before, after := file(c.Cert("ca.pem")), file(filepath.Join(next, "ca.pem"))
	write("ca.pem", append(append([]byte{}, before...), after...))
	taken(1)
	for _, r := range c.Replicas() {
		write(r.ID+".pem", file(filepath.Join(next, r.ID+".pem")))
		write(r.ID+"-key.pem", file(filepath.Join(next, r.ID+"-key.pem")))
	}
	taken(2)
	write("ca.pem", after)
	taken(3)

	ask()
	enough()
	calls.Wait()
	if now := view(t, master).Epoch; now != epoch {
		t.Errorf("epoch %d, then %d", epoch, now)
	}
	// New connections, also between replicas, use the current certificates.
	if conn, err := tls.Dial("tcp", master.Addr(), c.TLS()); err == nil {
		conn.Close()
		t.Error("the certificate before is shown")
	}
	pool := c.TLS()
	pool.RootCAs = pool.RootCAs.Clone()
	pool.RootCAs.AppendCertsFromPEM(after)
	via := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: pool}}
	behind := c.Others(master)[0]
	must(t, behind.Restart(cell.Bounded(t)))
	must(t, cell.Wait(cell.Bounded(t), behind.ID+" is back", func(ctx context.Context) error {
		_, err := cell.CallVia(ctx, via, http.MethodGet, behind.URL, lockapi.RouteReady, nil, nil)
		return err
	}))
}

// view returns the cell in a replica's view. It accepts a certificate of any
// CA.
func view(t *testing.T, r *cell.Replica) (c lockapi.Cell) {
	t.Helper()
	via := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	_, err := cell.CallVia(cell.Bounded(t), via, http.MethodGet, r.URL, lockapi.RouteCell, nil, &c)
	must(t, err)
	return c
}

func metrics(ctx context.Context, t *testing.T, via *http.Client, r *cell.Replica) string {
	t.Helper()
	_, page, err := cell.Exchange(ctx, via, http.MethodGet, r.URL+lockapi.RouteMetrics, nil, nil)
	if err != nil {
		return err.Error()
	}
	return string(page)
}
