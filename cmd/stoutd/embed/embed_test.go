package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica"
)

type lines = testrun.Log

// address returns a free address.
func address(t *testing.T) string {
	t.Helper()
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	return freeport.Address(port)
}

// cellOf returns the settings of each replica of a new cell.
func cellOf(t *testing.T, n int) []*config.Config {
	t.Helper()
	var all []config.Replica
	for i := range n {
		all = append(all, config.Replica{ID: fmt.Sprint("r", i+1), RaftAddr: address(t), APIURL: "http://" + address(t)})
	}
	var cell []*config.Config
	for _, r := range all {
		c := config.Default()
		c.Cell, c.ID, c.DataDir, c.Replicas = "embedded", r.ID, t.TempDir(), all
		c.RaftListen, c.APIListen = r.RaftAddr, strings.TrimPrefix(r.APIURL, "http://")
		c.MaxConnections, c.Stderr = 64, io.Discard
		cell = append(cell, c)
	}
	return cell
}

func start(t *testing.T, c *config.Config) *Replica {
	t.Helper()
	r, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ready waits until a replica is a member.
func ready(t *testing.T, r *Replica) {
	t.Helper()
	select {
	case <-r.Ready():
	case err := <-r.Failed():
		t.Fatal(err)
	case <-t.Context().Done():
		t.Fatal("not ready")
	}
}

func stop(t *testing.T, r *Replica) {
	t.Helper()
	if err := r.Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// acquire acquires a lock and returns its token.
func acquire(t *testing.T, all ...*Replica) uint64 {
	t.Helper()
	var urls []string
	for _, r := range all {
		urls = append(urls, r.URL())
	}
	c, err := client.New(urls...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	h, err := s.Lock(t.Context(), "/demo")
	if err != nil {
		t.Fatal(err)
	}
	return h.Token()
}

// TestThreeInOneProcess: three replicas in one process form a cell. Each has its own
// log. A replica that stops hands mastership over, and can start again with its
// directory.
func TestThreeInOneProcess(t *testing.T) {
	cell := cellOf(t, 3)
	logs := make([]lines, len(cell))
	var all []*Replica
	for i, c := range cell {
		c.Stderr = &logs[i]
		all = append(all, start(t, c))
	}
	for _, r := range all {
		ready(t, r)
	}
	token := acquire(t, all...)
	stop(t, all[0])
	if next := acquire(t, all[1:]...); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	all[0] = start(t, cell[0])
	ready(t, all[0])
	for i, r := range all {
		stop(t, r)
		for j := range all {
			if own := strings.Contains(logs[i].String(), `"replica":"`+cell[j].ID+`"`); own != (i == j) {
				t.Errorf("the log of %s: %s", cell[i].ID, &logs[i])
			}
		}
	}
}

// TestReplicaThatLeavesIsNoMaster: a replica that waits for the end of its calls may
// win an election. The cell has a master nevertheless.
func TestReplicaThatLeavesIsNoMaster(t *testing.T) {
	var all []*Replica
	for _, c := range cellOf(t, 3) {
		all = append(all, start(t, c))
	}
	for _, r := range all {
		ready(t, r)
		defer stop(t, r)
	}
	acquire(t, all...)
	i := slices.IndexFunc(all, func(r *Replica) bool { return r.replica.Leader() != r.config.ID })
	leaving, others := all[i], slices.Delete(slices.Clone(all), i, i+1)
	if err := leaving.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	term := func() (term uint64) {
		for _, r := range all {
			now, _ := r.replica.Leading()
			term = max(term, now)
		}
		return term
	}
	before := term()
	for _, r := range others {
		_ = r.replica.Transfer(t.Context(), leaving.config.ID)
	}
	acquire(t, others...)
	if now := term(); now < before+2 {
		t.Errorf("term %d after %d: the replica that left won no election", now, before)
	}
}

// TestOneThatWaits: before the cell is founded a replica reports for which replicas it
// waits, and stops in good order. Then its ports and its directory are free.
func TestOneThatWaits(t *testing.T) {
	c := cellOf(t, 2)[0]
	for range 2 {
		r := start(t, c)
		for status := ""; !strings.Contains(status, "waiting for r2"); {
			var err error
			if status, err = r.Status(t.Context()); err != nil || t.Context().Err() != nil {
				t.Fatal(status, err)
			}
		}
		stop(t, r)
	}
}

// TestRefusedSettings: values that a program sets are checked like flags.
func TestRefusedSettings(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		`cell: it is required: the name of the cell (or Dev, to try things out); set Cell`:   func(c *config.Config) { c.Cell = "" },
		`data-dir: it is required: the directory that keeps this replica's log; set DataDir`: func(c *config.Config) { c.DataDir = "" },
		`max-sessions "-1" (field Quotas.Sessions)`:                                          func(c *config.Config) { c.Quotas.Sessions = -1 },
		`others can't dial it; give the addresses at which they reach this replica: Replicas r1=host:port,url`: func(c *config.Config) {
			c.Replicas, c.Join, c.RaftListen = nil, []string{"http://10.0.0.1:7101"}, "0.0.0.0:7201"
		},
		`election-timeout "100ms" (field ElectionTimeout): shorter than HeartbeatTimeout (`: func(c *config.Config) { c.ElectionTimeout = 100 * time.Millisecond },
		`MasterLease (6.5s, default, 1.3 × HeartbeatTimeout)`:                               func(c *config.Config) { c.HeartbeatTimeout, c.StaleFor = 5*time.Second, time.Second },
		`clients show certificates over TLS only; give APICert and APIKey as well`:          func(c *config.Config) { c.APIClientCA = "ca.pem" },
		`give APIKey as well`: func(c *config.Config) { c.APICert = "/api-cert.pem" },
		`it is in DataDir (/a/data-dir/raft-ca), and would be lost with it`: func(c *config.Config) {
			c.DataDir, c.BackupDir, c.BackupEvery = "/a/data-dir/raft-ca", "/a/data-dir/raft-ca/b", time.Hour
		},
		`the list of replicas (field Replicas) has no such id`: func(c *config.Config) { c.ID = "r9" },
		`allow-origin`:               func(c *config.Config) { c.AllowOrigins = []string{"*"} },
		`max-connections "16777216"`: func(c *config.Config) { c.MaxConnections = 1 << 24 },
		`port 0 is a different port`: func(c *config.Config) { c.APIListen = "127.0.0.1:0" },
	} {
		c := cellOf(t, 1)[0]
		change(c)
		r, err := Start(t.Context(), c)
		if err == nil {
			stop(t, r)
		}
		if !errors.As(err, &config.Problems{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	c, err := config.Complete(cellOf(t, 1)[0])
	if from := c.Source("max-sessions"); err != nil || from != "default of field Quotas.Sessions" {
		t.Errorf("%s; %v", from, err)
	}
}

// TestNoConfig: the error names the remedy.
func TestNoConfig(t *testing.T) {
	if _, err := Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "config.Default") {
		t.Error(err)
	}
}

// TestStopAgainAfterAStuckOne: each further call of Stop waits for the start that hangs,
// for ShutdownTimeout at most.
func TestStopAgainAfterAStuckOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.ShutdownTimeout = time.Second
		r := &Replica{config: c, log: zerolog.Nop(), cancel: func() {}, ended: make(chan struct{}), stopped: make(chan struct{})}
		for range 2 {
			began := time.Now()
			if err := r.Stop(context.Background()); !errors.Is(err, ErrStuck) || time.Since(began) != time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		time.AfterFunc(time.Second/2, func() { close(r.ended) })
		if err := r.Stop(context.Background()); err != nil {
			t.Errorf("after the start has ended: %v", err)
		}
	})
}

// TestStopAfterAFault: a stop after a fault frees the ports.
func TestStopAfterAFault(t *testing.T) {
	c := cellOf(t, 1)[0]
	r := start(t, c)
	ready(t, r)
	if _, err := r.Master(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = r.listener.Close()
	err := <-r.Failed()
	if err == nil || errors.Is(err, replica.ErrReplaced) {
		t.Errorf("%v", err)
	}
	err = r.Stop(t.Context())
	if again := r.Stop(t.Context()); again != err {
		t.Errorf("the first call of Stop: %v, the second: %v", err, again)
	}
	if is, err := r.Status(t.Context()); err == nil {
		t.Errorf("its status is %q", is)
	}
	if !r.faulty {
		t.Error("the fault is not recorded")
	}
	again := start(t, c)
	ready(t, again)
	stop(t, again)
}

// TestEachListenerHasItsOwnHosts: on loopback only the names of the API are
// accepted, at the API and at the door by their own addresses.
func TestEachListenerHasItsOwnHosts(t *testing.T) {
	for _, test := range []struct {
		api, door           string
		apiStatus, doorCode int
	}{
		{"127.0.0.1", "0.0.0.0", http.StatusForbidden, http.StatusOK},
		{"0.0.0.0", "127.0.0.1", http.StatusOK, http.StatusForbidden},
	} {
		c := cellOf(t, 1)[0]
		_, port, _ := net.SplitHostPort(c.APIListen)
		c.APIListen, c.ConsulListen = test.api+":"+port, test.door+":0"
		r := start(t, c)
		ready(t, r)
		if _, err := r.Master(t.Context()); err != nil {
			t.Fatal(err)
		}
		for at, want := range map[string]int{"http://127.0.0.1:" + port + "/v1/cell": test.apiStatus, "http://127.0.0.1:" + portOf(r.consul) + "/v1/status/leader": test.doorCode} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = "stout.example:8500"
			resp, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("api at %s, door at %s: %s: %d, want %d", test.api, test.door, at, resp.StatusCode, want)
			}
		}
		stop(t, r)
	}
}

func portOf(l net.Listener) string { return fmt.Sprint(l.Addr().(*net.TCPAddr).Port) }

// TestEndBeforeMembership: a caller that waits for a replica gets an error if it ends
// before it is a member.
func TestEndBeforeMembership(t *testing.T) {
	r := start(t, cellOf(t, 3)[0])
	waited := make(chan error, 1)
	go func() {
		_, err := r.Master(context.Background())
		waited <- err
	}()
	stop(t, r)
	if err := <-waited; err == nil {
		t.Error("it has a master")
	}
	if is, err := r.Status(t.Context()); err == nil {
		t.Errorf("its status is %q", is)
	}
}
