// Package contract_test checks real processes against the HTTP contract,
// through each replica of a cell: every operation of the OpenAPI document, and
// the guarantees of files, transactions and events over several calls. The
// refusals of a single replica are tested in lockapi/server.
package contract_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/apicheck"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	testrun.Wait(8)
	os.Exit(testrun.Main(m.Run))
}

// start runs a cell with settings that keep the master in office on a busy
// machine. It returns the master and a replica that forwards to it.
func start(t *testing.T, args ...string) (c *cell.Cell, master, follower *cell.Replica) {
	t.Helper()
	c = cell.New(t, cell.Options{Args: append([]string{"--heartbeat-timeout=5s"}, args...)})
	master, err := c.WaitReady(cell.Bounded(t))
	must(t, err)
	return c, master, c.Others(master)[0]
}

// TestEachReplicaIsAsDocumented runs every operation of the OpenAPI document,
// with every documented success, through each replica of a cell.
func TestEachReplicaIsAsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := apicheck.Load(lockapi.OpenAPI())
	must(t, err)
	c, master, _ := start(t)
	for _, r := range c.Replicas() {
		name := r.ID
		if r == master {
			name += ", the master"
		}
		t.Run(name, func(t *testing.T) {
			checker := apicheck.NewChecker(doc, &http.Transport{DisableKeepAlives: true})
			apicheck.Run(t, checker, r.URL, slices.Concat(apicheck.Steps, apicheck.StreamSteps))
			if missing := checker.Missing(); len(missing) > 0 {
				t.Errorf("documented but never seen: %q", missing)
			}
		})
	}
}

type reply struct {
	status  int
	header  http.Header
	body    string
	problem lockapi.Error // of an answer that is a problem document
}

// exchange makes a call on its own connection. Headers are lines.
func exchange(t *testing.T, r *cell.Replica, method, route, body string, headers ...string) reply {
	t.Helper()
	// Cleanups call it after the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cell.Step)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.URL+route, strings.NewReader(body))
	must(t, err)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	got := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	if got.header.Get("Content-Type") == "application/problem+json" && got.body != "" {
		must(t, json.Unmarshal(text, &got.problem))
	}
	return got
}
