// Package contract_test holds real processes against the HTTP contract, through
// each replica of a cell: every operation of the OpenAPI document, and what
// files, transactions and events promise over several calls. What one replica
// refuses by itself is tested in lockapi/server.
package contract_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

// start runs a cell whose master stays in office on a busy machine, too. It
// returns the master and a replica that forwards to it.
func start(t *testing.T, args ...string) (c *cell.Cell, master, follower *cell.Replica) {
	t.Helper()
	c = cell.New(t, cell.Options{Args: append([]string{"--heartbeat-timeout=5s"}, args...)})
	master, err := c.WaitReady(cell.Bounded(t))
	must(t, err)
	return c, master, c.Others(master)[0]
}

// TestEachReplicaIsAsDocumented runs every operation of the OpenAPI document,
// with every success that it documents, through each replica of a cell.
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

// dial connects to a replica.
func dial(t *testing.T, r *cell.Replica) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(cell.Step)))
	return c.(*net.TCPConn)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
}

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    string
	problem lockapi.Error // of an answer that is a problem document
}

// receive reads one answer.
func receive(c net.Conn) (reply, error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if err == nil && r.header.Get("Content-Type") == "application/problem+json" {
		err = json.Unmarshal(body, &r.problem)
	}
	return r, err
}

// exchange sends text on a connection of its own and reads the answer.
func exchange(t *testing.T, r *cell.Replica, text string) reply {
	t.Helper()
	c := dial(t, r)
	defer c.Close()
	send(t, c, text)
	got, err := receive(c)
	must(t, err)
	return got
}
