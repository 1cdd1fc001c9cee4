//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// testCell is a cell in memory. Its replica r1, the master, listens at a port.
// The URL of r2, a healthy replica, does not answer, and r3 is stopped. See
// fault.
type testCell struct {
	*stouttest.Cell
	port    *httptest.Server
	via     *client.Client // has the network between the port and r1
	direct  http.RoundTripper
	members lockapi.Members // as they are at first
	proxy   *httputil.ReverseProxy
	reads   atomic.Int64 // of single locks, at the port

	mu      sync.Mutex // guards what follows
	url     string     // of r1
	third   string     // URL of r3; "" where nothing answers there
	fault   fault
	changes memberChanges
}

// fault is how the cell fails at present.
type fault string

const (
	healthy  fault = "none"
	mute     fault = "mute"      // takes calls and does not answer them
	noMaster fault = "no-master" // has no majority
	noLease  fault = "no-lease"  // names a master that does not hold its lease
	torn     fault = "torn"      // breaks its backups off
	stuck    fault = "stuck"     // begins its backups, and sends no more
	evil     fault = "evil"      // each of its words is nasty
)

// refusals are the answers to some calls under a fault.
var refusals = map[fault]struct {
	calls  []string // METHOD PREFIX
	unless string   // the call is well with this in its URL or body
	done   bool     // the call is made nevertheless
	answer lockapi.Error
}{
	"quota": {calls: []string{"POST /v1/sessions"}, answer: lockapi.Error{Code: lockapi.CodeTooMany, Detail: "quota max-sessions is used up"}},
	"unsafe": {calls: []string{"POST /v1/members/", "DELETE /v1/members/"}, unless: "force=true",
		answer: lockapi.Error{Code: lockapi.CodeUnsafe, Detail: "1 of 2 members that vote are well"}},
	"deaf": {calls: []string{"POST /v1/access/"}, answer: lockapi.Error{Code: lockapi.CodeOutcomeUnknown, Detail: "the answer got lost"}},
	"lossy": {calls: []string{"POST /v1/access/", "DELETE /v1/members/"}, done: true,
		answer: lockapi.Error{Code: lockapi.CodeOutcomeUnknown, Detail: "the answer got lost"}},
	"afar": {calls: []string{"POST /v1/access/enable"}, unless: "5ec2e7", answer: lockapi.Error{
		Code: lockapi.CodePermissionDenied, Permission: lockapi.PermissionOperate,
		Detail: "to enable access control from an address other than loopback, send the secret in the file enable.secret in the data directory of replica r1"}},
}

// newCell starts a cell and returns it with what stops it.
func newCell() (*testCell, func()) {
	c := &testCell{fault: healthy}
	c.port = httptest.NewUnstartedServer(c)
	// Broken connections are what some scripts are about.
	c.port.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.url = "http://" + c.port.Listener.Addr().String()
	c.Cell = stouttest.New(nil, stouttest.Options{URL: c.urlOf})
	var network http.RoundTripper
	transport := func(to *http.RoundTripper) func(*client.Config) {
		return func(o *client.Config) { *to = o.Transport }
	}
	c.via, _ = c.Client(transport(&network)), c.Client(transport(&c.direct))
	// The level is raised by the first call that needs it, while all replicas run.
	if err := c.do(http.MethodDelete, lockapi.RouteGroups+"/none", nil, nil); err != nil {
		panic(err)
	}
	c.Stop("r3")
	if err := c.do(http.MethodGet, lockapi.RouteMembers, nil, &c.members); err != nil {
		panic(err)
	}
	c.proxy = &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(c.target()) },
		Transport:      network,
		FlushInterval:  -1,
		ModifyResponse: c.spoil,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       c.port.Config.ErrorLog,
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.port.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	c.port.Start()
	return c, func() { cancel(); c.port.CloseClientConnections(); c.port.Close(); c.Close() }
}

func startCell(t *testing.T) *testCell {
	t.Helper()
	c, stop := newCell()
	t.Cleanup(stop)
	return c
}

func (c *testCell) urlOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return map[string]string{"r1": c.url, "r2": "http://127.0.0.1:1", "r3": cmp.Or(c.third, "http://127.0.0.1:2")}[id]
}

func (c *testCell) target() *url.URL {
	u, err := url.Parse(c.urlOf("r1"))
	if err != nil {
		panic(err)
	}
	u.Scheme = "http" // TLS ends at the port
	return u
}

func (c *testCell) fails() fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// fail makes the cell fail with f from now on.
func (c *testCell) fail(f fault) {
	c.mu.Lock()
	before := c.fault
	c.fault = f
	c.mu.Unlock()
	if before == noMaster {
		c.Start("r2")
	}
	c.Mend(c.via)
	switch f {
	case noMaster:
		c.Stop("r2")
	case mute:
		c.Lose(c.via)
	}
}

// do makes a call to r1, even during a fault.
func (c *testCell) do(method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return call(ctx, c.direct, method, c.target().String()+path, in, out)
}

// open opens a session.
func (c *testCell) open(t *testing.T, name string, meta map[string]string) lockapi.Session {
	t.Helper()
	var s lockapi.Session
	if err := c.do(http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 60_000, Name: name, Meta: meta}, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// seize opens a session, and has it hold or wait for a lock.
func (c *testCell) seize(t *testing.T, name, path string) lockapi.Session {
	t.Helper()
	s := c.open(t, name, nil)
	req := lockapi.NewLockRequest(s.ID)
	req.Queue = true
	if err := c.do(http.MethodPut, lockapi.RouteLocks+escaped(path), req, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// locks returns the held locks.
func (c *testCell) locks(t *testing.T) []lockapi.Lock {
	t.Helper()
	var out lockapi.LockList
	if err := c.do(http.MethodGet, lockapi.RouteLocks, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out.Locks
}

// waiters is how many wait for a lock, -1 where it is free.
func (c *testCell) waiters(t *testing.T, path string) int {
	t.Helper()
	for _, l := range c.locks(t) {
		if l.Path == path && l.State == lockapi.StateHeld {
			return l.Waiters
		}
	}
	return -1
}

// ServeHTTP passes a call on, unless the fault has an answer of its own.
func (c *testCell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, lockapi.RouteLocks+"/") {
		c.reads.Add(1)
	}
	f := c.fails()
	if refusal := refusals[f]; refuses(f, r, body) {
		if refusal.done {
			c.serve(httptest.NewRecorder(), r, body)
		}
		writeError(w, &refusal.answer)
		return
	}
	if f == evil {
		r.Header.Del("Accept") // a stream's words would stay as they are
	}
	c.serve(w, r, body)
}

func (c *testCell) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.TLS != nil && r.URL.Path == "/metrics":
		writeCertificates(w)
	case strings.HasPrefix(r.URL.Path, lockapi.RouteMembers) && c.serveMembers(w, r, body):
	default:
		c.proxy.ServeHTTP(w, r)
	}
}

// refuses reports whether a call gets the answer of a fault.
func refuses(f fault, r *http.Request, body []byte) bool {
	refusal := refusals[f]
	if refusal.unless != "" && strings.Contains(r.URL.RawQuery+string(body), refusal.unless) {
		return false
	}
	for _, at := range refusal.calls {
		if strings.HasPrefix(r.Method+" "+r.URL.Path, at) {
			return true
		}
	}
	return false
}

func writeError(w http.ResponseWriter, err *lockapi.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(err.Code.Status())
	_ = json.NewEncoder(w).Encode(err)
}

// spoil changes a real answer as the fault has it.
func (c *testCell) spoil(resp *http.Response) error {
	f := c.fails()
	switch {
	case f == torn && resp.Request.URL.Path == lockapi.RouteBackup:
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 100), iotest.ErrReader(errors.New("torn"))))
	case f == stuck && resp.Request.URL.Path == lockapi.RouteBackup:
		silent, _ := io.Pipe()
		context.AfterFunc(resp.Request.Context(), func() { silent.Close() })
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 100), silent))
	case f == noLease && resp.Request.URL.Path == lockapi.RouteCell:
		var cell lockapi.Cell
		if err := json.NewDecoder(resp.Body).Decode(&cell); err != nil {
			return err
		}
		cell.Lease = lockapi.Lease{}
		return rewrite(resp, &cell)
	case f == evil && strings.HasSuffix(resp.Header.Get("Content-Type"), "json"):
		var words any
		if err := json.NewDecoder(resp.Body).Decode(&words); err != nil {
			return err
		}
		sessions := strings.HasPrefix(resp.Request.URL.Path, lockapi.RouteSessions)
		return rewrite(resp, corrupted("", words, sessions))
	}
	return nil
}

func rewrite(resp *http.Response, answer any) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	resp.Body.Close()
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// corrupted returns an answer with nasty words, except for words that stout
// must understand to continue.
func corrupted(key string, value any, ids bool) any {
	switch v := value.(type) {
	case map[string]any:
		for k, field := range v {
			v[k] = corrupted(k, field, ids)
		}
		if strings.HasSuffix(key, "meta") {
			v[nasty] = nasty
		}
	case []any:
		for i := range v {
			v[i] = corrupted(key, v[i], ids)
		}
	case string:
		switch {
		case key == "url":
			return v + "/" + nastyPath
		case key == "id" && ids, strings.Contains(" path session sequencer state code content sha256 secret time since at next ", " "+key+" "), strings.HasSuffix(key, "_at"):
		default:
			return v + nasty
		}
	}
	return value
}
