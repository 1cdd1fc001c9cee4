package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
)

// Tests allocate much and keep little of it.
func init() { debug.SetGCPercent(400) }

// testCell is a cell in memory behind a network that a test disturbs. It is the
// transport of the clients under test; admin reaches the cell undisturbed.
type testCell struct {
	*stouttest.Cell
	t     *testing.T
	start time.Time
	cell  http.RoundTripper // the undisturbed transport
	admin *client.Client

	mu       sync.Mutex // guards what follows
	requests []sentRequest
	latency  time.Duration // of the network, one way
	cost     time.Duration // time a replica spends on each call; it serves one at a time
	free     map[string]time.Duration
	dead     map[string]bool // hosts that refuse connections
	isolated map[string]bool // hosts from and to which all packets are lost
	broken   chan struct{}   // closed when connections break
	oldest   map[string]uint64
	told     *lockapi.URLs // replaces the cell's list of members; nil leaves it
	members  uint64        // replaces the members' revision of keepalives; 0 leaves it

	withoutRevision bool // keepalives have none
	withoutEvents   bool // nor events

	// Hooks; each may be nil. instead answers in a replica's place; if it
	// returns nil, the replica answers. delay is how long a request is under
	// way, however long its caller waits. drop reports whether the answer is
	// lost, and lie changes it.
	instead func(*http.Request) *http.Response
	delay   func(*http.Request) time.Duration
	drop    func(*http.Request) bool
	lie     func(*http.Request, *http.Response, map[string]any)
}

// sentRequest is a request of a client under test.
type sentRequest struct {
	at                              time.Duration
	host, method, path, query, body string
	header                          http.Header
}

// bubble runs a test in virtual time with a cell and a client. The test fails
// if goroutines are left after its sessions are closed.
func bubble(t *testing.T, test func(*testing.T, *testCell, *client.Client)) {
	t.Helper()
	bubbleOf(t, stouttest.Options{}, test)
}

func bubbleOf(t *testing.T, o stouttest.Options, test func(*testing.T, *testCell, *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCell(t, o)
		test(t, tc, tc.client(t))
	})
}

// subBubble is a bubble in a subtest.
func subBubble(t *testing.T, name string, test func(*testing.T, *testCell, *client.Client)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// newClient makes a client, and closes it at the end of the test.
func newClient(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c, err := config.New()
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newTestCell(t *testing.T, o stouttest.Options) *testCell {
	tc := &testCell{
		Cell: stouttest.New(t, o), t: t, start: time.Now(), latency: 5 * time.Millisecond, broken: make(chan struct{}),
		free: map[string]time.Duration{}, dead: map[string]bool{}, isolated: map[string]bool{}, oldest: map[string]uint64{},
	}
	tc.admin = tc.Client(func(c *client.Config) { tc.cell, c.OnlyURLs = c.Transport, true })
	return tc
}

// client makes a client with tc as its network.
func (tc *testCell) client(t *testing.T) *client.Client {
	t.Helper()
	return tc.by(t, tc, tc.URLs()...)
}

// by makes a client that uses only these URLs.
func (tc *testCell) by(t *testing.T, transport http.RoundTripper, urls ...string) *client.Client {
	t.Helper()
	return tc.knowing(t, client.Config{Transport: transport, OnlyURLs: true}, urls...)
}

// knowing makes a client that is given some URLs and finds others.
func (tc *testCell) knowing(t *testing.T, c client.Config, urls ...string) *client.Client {
	t.Helper()
	c.URLs, c.Clock = urls, tc.now
	if c.Transport == nil {
		c.Transport = tc
	}
	return newClient(t, c)
}

// now is the clock of the clients.
func (tc *testCell) now() time.Duration { return time.Since(tc.start) }

// set changes the network.
func (tc *testCell) set(change func()) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	change()
}

// These set one hook each.
func (tc *testCell) dropIf(f func(*http.Request) bool) { tc.set(func() { tc.drop = f }) }
func (tc *testCell) insteadBy(f func(*http.Request) *http.Response) {
	tc.set(func() { tc.instead = f })
}
func (tc *testCell) delayBy(f func(*http.Request) time.Duration) { tc.set(func() { tc.delay = f }) }
func (tc *testCell) lieBy(f func(*http.Request, *http.Response, map[string]any)) {
	tc.set(func() { tc.lie = f })
}

// kill makes clients see a replica as dead: it refuses connections, and stops
// being master.
func (tc *testCell) kill(id string) {
	tc.set(func() { tc.dead[id] = true })
	tc.breakConnections()
	if tc.Master() == id {
		tc.Depose()
	}
}

func (tc *testCell) killAll() {
	for _, id := range []string{"r1", "r2", "r3"} {
		tc.kill(id)
	}
}

// revive lets a replica accept connections again.
func (tc *testCell) revive(id string) { tc.set(func() { tc.dead[id] = false }) }

// failOver kills the master and elects another replica.
func (tc *testCell) failOver(to string) {
	tc.kill(tc.Master())
	tc.Elect(to)
}

// isolate drops all packets to and from a replica.
func (tc *testCell) isolate(id string, on bool) { tc.set(func() { tc.isolated[id] = on }) }

// all makes every replica silent or not.
func (tc *testCell) all(isolated bool) {
	for _, id := range []string{"r1", "r2", "r3"} {
		tc.isolate(id, isolated)
	}
}

// breakConnections breaks the connections of all clients.
func (tc *testCell) breakConnections() {
	tc.set(func() {
		close(tc.broken)
		tc.broken = make(chan struct{})
	})
}

// lose drops the requests that match, from now on.
func (tc *testCell) lose(match func(*http.Request) bool) {
	tc.delayBy(func(r *http.Request) time.Duration {
		if match(r) {
			return time.Hour
		}
		return 0
	})
}

// forget makes replicas drop the events before now.
func (tc *testCell) forget(ids ...string) {
	now := tc.revision()
	tc.set(func() {
		for _, id := range ids {
			tc.oldest[id] = now
		}
	})
}

// tell makes the cell report this id and these members.
func (tc *testCell) tell(cell string, urls ...string) {
	told := &lockapi.URLs{CellID: cell}
	for i, url := range urls {
		told.Replicas = append(told.Replicas, lockapi.ReplicaURL{ID: strconv.Itoa(i), URL: url})
	}
	tc.set(func() { tc.told = told })
}

// sent lists the requests so far.
func (tc *testCell) sent() []sentRequest {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	return slices.Clone(tc.requests)
}

func (tc *testCell) count(match func(sentRequest) bool) (n int) {
	for _, r := range tc.sent() {
		if match(r) {
			n++
		}
	}
	return n
}

// streams counts the event streams that clients began.
func (tc *testCell) streams() int {
	return tc.count(func(r sentRequest) bool { return r.header.Get("Accept") == lockapi.TypeEventStream })
}

// read reads a lock over the undisturbed transport, with or without a master.
func (tc *testCell) read(path string) lockapi.Lock {
	tc.t.Helper()
	var opts []client.ReadOption
	if tc.Master() == "" {
		opts = append(opts, client.Stale())
	}
	l, err := tc.admin.ReadLock(context.Background(), path, append(opts, client.Waiters(10))...)
	must(tc.t, err)
	return l
}

// held lists the tokens of the holders of a path.
func (tc *testCell) held(path string) []uint64 {
	tokens := []uint64{}
	for _, h := range tc.read(path).Holders {
		tokens = append(tokens, h.Token)
	}
	return tokens
}

func (tc *testCell) waiting(path string) int { return tc.read(path).Waiters }

// put writes a file as another client would, and returns its revision.
func (tc *testCell) put(path, content string) uint64 {
	stat, err := tc.admin.Put(context.Background(), path, []byte(content))
	if err != nil {
		tc.t.Error(err)
	}
	return stat.Revision
}

// revision returns the cell's revision.
func (tc *testCell) revision() uint64 {
	n, err := tc.admin.Revision(context.Background())
	if err != nil {
		tc.t.Error(err)
	}
	return n
}

// call makes a call of the API without a client.
func (tc *testCell) call(method, path string, in, out any) {
	b, err := json.Marshal(in)
	must(tc.t, err)
	q := httptest.NewRequest(method, "http://"+tc.Master()+path, bytes.NewReader(b))
	q.RequestURI = ""
	resp, err := tc.cell.RoundTrip(q)
	if err != nil || resp.StatusCode >= 300 {
		tc.t.Fatalf("%s %s: %v, %v", method, path, resp, err)
	}
	defer resp.Body.Close()
	if out != nil && json.NewDecoder(resp.Body).Decode(out) != nil {
		tc.t.Fatalf("%s %s: no JSON", method, path)
	}
}

// keepAlive extends a session's lease in the cell, without its client learning
// of it.
func (tc *testCell) keepAlive(s *client.Session) {
	tc.call(http.MethodPost, lockapi.RouteSessions+"/"+s.ID()+"/keepalive", lockapi.KeepaliveRequest{}, nil)
}

// acquire acquires a lock under a handle, as a late request does.
func (tc *testCell) acquire(s *client.Session, path, handle string) {
	q := lockapi.NewLockRequest(s.ID())
	q.Handle = handle
	tc.call(http.MethodPut, lockapi.RouteLocks+path, q, nil)
}

// leaseInCell returns what remains of a session's lease in the cell.
func (tc *testCell) leaseInCell(s *client.Session) time.Duration {
	state, err := admin.New(tc.admin).ReadSession(context.Background(), s.ID())
	must(tc.t, err)
	return time.Duration(*state.LeaseRemainingMS) * time.Millisecond
}

// past returns the revisions of the events after a revision that keep accepts;
// nil keeps all.
func (tc *testCell) past(after uint64, keep func(lockapi.CellEvent) bool) (out []uint64) {
	var list lockapi.EventList
	tc.call(http.MethodGet, lockapi.RouteEvents+"?limit=1000&after="+strconv.FormatUint(after, 10), nil, &list)
	for _, e := range list.Events {
		if keep == nil || keep(e) {
			out = append(out, e.Revision)
		}
	}
	return out
}

// ofFile keeps the events of files.
func ofFile(e lockapi.CellEvent) bool { return strings.HasPrefix(string(e.Type), "file_") }

// RoundTrip is the network between the clients and the cell.
func (tc *testCell) RoundTrip(q *http.Request) (*http.Response, error) {
	var body []byte
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body)
		q.Body.Close()
	}
	under := func(ctx context.Context) *http.Request {
		q := q.Clone(ctx)
		q.URL.Scheme, q.Body = "http", io.NopCloser(bytes.NewReader(body))
		return q
	}
	host, ctx := q.URL.Host, q.Context()
	tc.mu.Lock()
	tc.requests = append(tc.requests, sentRequest{tc.now(), host, q.Method, q.URL.Path, q.URL.RawQuery, string(body), q.Header})
	instead, delay, broken, latency := tc.instead, tc.delay, tc.broken, tc.latency
	refuses, isolated := tc.dead[host] || !slices.Contains(tc.URLs(), "http://"+host), tc.isolated[host]
	tc.mu.Unlock()
	if instead != nil {
		if resp := instead(under(ctx)); resp != nil {
			client.Sleep(ctx, 300*time.Microsecond) // a local server's time
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return resp, nil
		}
	}
	switch {
	case refuses:
		return nil, errRefused
	case isolated:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if delay != nil {
		if d := delay(under(ctx)); d > 0 {
			late := under(context.WithoutCancel(ctx))
			time.AfterFunc(d, func() { _, _ = tc.exchange(late, nil) })
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	client.Sleep(ctx, latency+tc.queue(host))
	if resp := tc.compacted(q); resp != nil {
		return resp, nil
	}
	return tc.exchange(under(ctx), broken)
}

// queue returns how long a call waits for its replica.
func (tc *testCell) queue(host string) time.Duration {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.free[host] = max(tc.free[host], tc.now()) + tc.cost
	return tc.free[host] - tc.now()
}

// compacted returns the answer of a replica that has dropped the events, or
// nil.
func (tc *testCell) compacted(q *http.Request) *http.Response {
	tc.mu.Lock()
	oldest := tc.oldest[q.URL.Host]
	tc.mu.Unlock()
	after, err := strconv.ParseUint(q.URL.Query().Get("after"), 10, 64)
	if q.URL.Path != lockapi.RouteEvents || err != nil || after >= oldest {
		return nil
	}
	e := lockapi.Errorf(lockapi.CodeCompacted, "not kept")
	e.Compacted = lockapi.Compacted{Oldest: oldest, Revision: tc.revision()}
	return refusal(e)
}

// exchange sends a request to the cell.
func (tc *testCell) exchange(q *http.Request, broken chan struct{}) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(q.Context())
	go func() {
		select {
		case <-broken:
			cancel(errReset)
		case <-ctx.Done():
		}
	}()
	resp, err := tc.cell.RoundTrip(q.WithContext(ctx))
	if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), lockapi.TypeEventStream) {
		resp.Body = &stream{resp.Body, tc, q.URL.Host, ctx, cancel}
		return resp, nil
	}
	defer cancel(nil)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	tc.mu.Lock()
	isolated, latency, drop, lie, told := tc.isolated[q.URL.Host], tc.latency, tc.drop, tc.lie, tc.told
	members, without, noEvents := tc.members, tc.withoutRevision, tc.withoutEvents
	tc.mu.Unlock()
	if isolated {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	client.Sleep(ctx, latency)
	switch {
	case q.Context().Err() != nil:
		return nil, q.Context().Err()
	case drop != nil && drop(q):
		return nil, errReset
	case lie != nil:
		b = lieAbout(lie, q, resp, b)
	case told != nil && q.URL.Path == lockapi.RouteURLs && resp.StatusCode == http.StatusOK:
		return reply(http.StatusOK, told), nil
	case (members != 0 || without || noEvents) && resp.StatusCode == http.StatusOK &&
		(q.URL.Path == lockapi.RouteURLs || strings.HasSuffix(q.URL.Path, "/keepalive")):
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			return nil, err
		}
		if members != 0 {
			fields["members_revision"] = json.RawMessage(fmt.Sprint(members))
		}
		if without {
			delete(fields, "members_revision")
		}
		if noEvents {
			delete(fields, "events")
		}
		return reply(http.StatusOK, fields), nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, nil
}

// stream is the body of an event stream that passes through the network.
type stream struct {
	io.ReadCloser
	tc     *testCell
	host   string
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.tc.mu.Lock()
	silent := s.tc.isolated[s.host]
	s.tc.mu.Unlock()
	if silent {
		<-s.ctx.Done()
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return 0, cause
	}
	return n, err
}

func (s *stream) Close() error {
	s.cancel(context.Canceled)
	return s.ReadCloser.Close()
}
