package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// node is a replica under test: a server over a stand-in.
type node struct {
	*standIn
	server   *server.Server
	registry *prometheus.Registry
	addr     string
	url      string
	log      *testrun.Log
	served   chan error
}

// TestMain lets tests wait together.
func TestMain(m *testing.M) {
	testrun.Wait(16)
	os.Exit(m.Run())
}

// startNode serves a stand-in on loopback until the test ends.
func startNode(t *testing.T, id string, tune func(*server.Options)) *node {
	t.Helper()
	n := &node{standIn: newStandIn(t, id), registry: prometheus.NewRegistry(), log: &testrun.Log{}, served: make(chan error, 1)}
	opts := server.Options{Master: n.standIn, Links: newLinks(t, n.standIn), Registry: n.registry, Logger: zerolog.New(n.log), ForwardTimeout: 300 * time.Millisecond}
	if tune != nil {
		tune(&opts)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.addr = l.Addr().String()
	n.url = "http://" + n.addr
	if own, ok := opts.Links.(*links); ok {
		callPorts.Store(n.addr, own.calls.Addr().String())
		t.Cleanup(func() { callPorts.Delete(n.addr) })
	}
	n.set(func() { n.view.Own.URL, n.view.Cell.Replicas[0].URL = n.url, n.url })
	n.server = server.New(opts)
	go func() { n.served <- n.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = n.server.Shutdown(ctx)
	})
	return n
}

// startMaster starts a cell of one.
func startMaster(t *testing.T, tune func(*server.Options)) *node {
	t.Helper()
	n := startNode(t, "r1", tune)
	n.setMaster(3, "r1", n.url)
	return n
}

// startPair starts a master and a replica that knows it.
func startPair(t *testing.T, tune func(*server.Options)) (master, replica *node) {
	t.Helper()
	master, replica = startMaster(t, nil), startNode(t, "r2", tune)
	replica.setMaster(3, "r1", master.url)
	return master, replica
}

// startReplica starts a replica that takes the server at a URL for its master.
func startReplica(t *testing.T, master string, tune func(*server.Options)) *node {
	t.Helper()
	n := startNode(t, "r2", tune)
	n.setMaster(3, "r1", master)
	return n
}

// reply is a complete answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// call sends a request; headers alternate name and value.
func call(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	return callVia(t, http.DefaultTransport, method, url, body, headers...)
}

// handled makes a call to a handler from an address.
func handled(h http.Handler, from, method, path, body string, headers ...string) reply {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = from, "127.0.0.1"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// behind makes a call to the handler for a server's peers.
func behind(s *server.Server, method, path string, headers ...string) reply {
	return handled(s.PeerHandler(), "192.0.2.1:1234", method, path, "", headers...)
}

// calling makes a call, and returns without the answer.
func calling(t *testing.T, method, url, body string, headers ...string) <-chan reply {
	answered := make(chan reply, 1)
	go func() { answered <- call(t, method, url, body, headers...) }()
	return answered
}

// callVia is call over the caller's own connections.
func callVia(t *testing.T, via http.RoundTripper, method, url, body string, headers ...string) reply {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := via.RoundTrip(req)
	must(t, err)
	return readReply(t, resp)
}

func readReply(t *testing.T, resp *http.Response) reply {
	t.Helper()
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp.StatusCode, resp.Header, string(got)}
}

// problem decodes the answer as a problem document and checks it.
func (r reply) problem(t *testing.T) *lockapi.Error {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q of status %d is not that of a problem: %s", got, r.status, r.body)
	}
	var document struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(r.body), &document); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if document.Type != "about:blank" || document.Title == "" || document.Detail == "" || document.Status != r.status {
		t.Errorf("incomplete problem under status %d: %s", r.status, r.body)
	}
	e := new(lockapi.Error)
	must(t, json.Unmarshal([]byte(r.body), e))
	return e
}

// wantCode checks that the answer is an error with the code and its status.
func (r reply) wantCode(t *testing.T, code lockapi.Code) *lockapi.Error {
	t.Helper()
	e := r.problem(t)
	if e.Code != code || r.status != code.Status() {
		t.Fatalf("answer %d %s, want %s", r.status, r.body, code)
	}
	if r.header.Get(lockapi.HeaderEpoch) == "" {
		t.Errorf("the answer has no %s: %v", lockapi.HeaderEpoch, r.header)
	}
	return e
}

// wantField checks that the call was refused because of a field.
func (r reply) wantField(t *testing.T, field string) {
	t.Helper()
	if e := r.wantCode(t, lockapi.CodeInvalidArgument); e.Field != field {
		t.Errorf("field %q, want %q: %s", e.Field, field, r.body)
	}
}

func (r reply) wantDetail(t *testing.T, code lockapi.Code, part string) {
	t.Helper()
	if e := r.wantCode(t, code); !strings.Contains(e.Detail, part) {
		t.Errorf("the detail %q has no %q", e.Detail, part)
	}
}

func (r reply) wantBody(t *testing.T, status int, part string) {
	t.Helper()
	if r.wantStatus(t, status); !strings.Contains(r.body, part) {
		t.Errorf("the answer %s has no %s", r.body, part)
	}
}

func decoded[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %d %s", err, r.status, r.body)
	}
	return v
}

func (r reply) wantStatus(t *testing.T, status int) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// patience bounds every wait, also on a busy machine.
const patience = time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// must ends the test if a call was refused.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call that returns two values.
func second[T any](_ T, err error) error { return err }
