//go:build unix

package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/test/cell"
)

// shared is the cell of all tests and examples: three real replicas. What a
// test breaks it mends.
var shared *cell.Cell

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "recipe")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		// Masters change often here, so that is not to take long.
		shared, err = cell.Start(cell.Options{Dir: dir, Network: true, Args: []string{"--heartbeat-timeout=500ms"}})
		if err != nil {
			panic(err)
		}
		defer shared.Close()
		ctx, cancel := context.WithTimeout(context.Background(), cell.StartTimeout)
		defer cancel()
		if _, err := shared.WaitReady(ctx); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// ttl is short, so that the death of a session takes a test not too long;
// longTTL outlasts a change of master.
const (
	ttl     = 2 * time.Second
	longTTL = 20 * time.Second
)

// newCell is a client for an example.
func newCell() *client.Client {
	c, err := client.New(shared.URLs()...)
	if err != nil {
		panic(err)
	}
	return c
}

// machine is a program with a client, whose way to the cell can be cut.
type machine struct {
	*client.Client
	way *way
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	w := &way{conns: make(map[net.Conn]bool)}
	c, err := client.Config{URLs: shared.URLs(), Transport: &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 100}}.New()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{c, w}
}

// session opens a session that dies soon after the way was cut. A master that
// dies may put it in jeopardy, too.
func (m *machine) session(t *testing.T, name string) *client.Session {
	t.Helper()
	return m.sessionFor(t, name, ttl)
}

func (m *machine) sessionFor(t *testing.T, name string, ttl time.Duration) *client.Session {
	t.Helper()
	s, err := m.NewSession(cell.Bounded(t), client.WithTTL(ttl), client.WithName(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.way.mend()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

// way is all connections of a client.
type way struct {
	mu    sync.Mutex // guards what follows
	isCut bool
	conns map[net.Conn]bool
}

var errCut = errors.New("the way to the cell is cut")

func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	w.conns[conn] = true
	return conn, nil
}

func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for conn := range w.conns {
		conn.Close()
	}
	clear(w.conns)
}

func (w *way) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

// killMaster kills the master and has it come back when there is another one.
func killMaster(t *testing.T) {
	t.Helper()
	old := shared.Ready(t)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	shared.WaitMasterOf(t, shared.Others(old)...)
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
}

// cutMaster parts the master from the others until there is another one.
func cutMaster(t *testing.T) {
	t.Helper()
	old := shared.Ready(t)
	shared.Network().Isolate(old.ID)
	shared.WaitMasterOf(t, shared.Others(old)...)
	shared.Network().Heal()
}

var (
	pathsMu sync.Mutex // guards paths
	paths   int
)

// newPath is a path that no other test uses.
func newPath() string {
	pathsMu.Lock()
	defer pathsMu.Unlock()
	paths++
	return fmt.Sprintf("/t%d", paths)
}

// receive waits for the next value that is as wanted; others are passed over.
func receive[T any](t *testing.T, from <-chan T, what string, wanted func(T) bool) T {
	t.Helper()
	over := time.After(cell.Step)
	for {
		select {
		case v := <-from:
			if wanted(v) {
				return v
			}
			t.Logf("until %s: %v", what, v)
		case <-over:
			t.Fatalf("%s: it did not happen", what)
		}
	}
}
