package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// counting counts the connections that a listener has open.
type counting struct {
	net.Listener
	taken, open atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.taken.Add(1)
	l.open.Add(1)
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// startCounting starts a master and counts its connections from other members.
func startCounting(t *testing.T, tune func(*server.Options)) (*node, *counting) {
	t.Helper()
	calls := &counting{}
	master := startMaster(t, func(o *server.Options) {
		own := o.Links.(*links)
		calls.Listener = own.calls
		own.calls = calls
		if tune != nil {
			tune(o)
		}
	})
	return master, calls
}

// forwarded makes a call at a replica without a connection to it.
func forwarded(ctx context.Context, n *node, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	n.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body)))
	return w
}

// All calls that wait at the master share one connection per pair of replicas,
// and calls of disconnected callers end there.
func TestForwardedCallsShareAConnection(t *testing.T) {
	// HTTP/2 has at most 250 streams by default; the race detector supports at
	// most 8128 goroutines.
	each := testrun.Times(600, 600)
	master, calls := startCounting(t, nil)
	var waiting, repeated atomic.Int64
	master.setHook(func(ctx context.Context, _ string) error {
		waiting.Add(1)
		defer waiting.Add(-1)
		<-ctx.Done()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, id := range []string{"r2", "r3"} {
		replica := startNode(t, id, nil)
		replica.setMaster(3, "r1", master.url)
		for i := range each {
			callers.Go(func() {
				for again := false; ctx.Err() == nil; again = true {
					if again {
						repeated.Add(1)
					}
					forwarded(ctx, replica, "PUT", fmt.Sprintf("/v1/locks/a%d", i), `{"session":"s","wait_ms":600000}`)
				}
			})
		}
	}
	eventually(t, "all wait at the master", func() bool { return waiting.Load() == int64(2*each) })
	// On a busy machine a replica may find the connection dead, and connect again.
	if got, took := calls.open.Load(), calls.taken.Load(); repeated.Load() == 0 && (got != 2 || took != 2) {
		t.Errorf("%d calls of two replicas take %d connections, and took %d", 2*each, got, took)
	}
	if got := gauge(t, master, "stout_http_connections"); got != 0 {
		t.Errorf("%v connections to the API", got)
	}
	leave()
	callers.Wait()
	eventually(t, "none waits at the master", func() bool { return waiting.Load() == 0 })
}

// A flood of connections to the master's API does not affect calls and health
// questions from other replicas.
func TestFloodDoesNotStopForwardedCalls(t *testing.T) {
	const most = 5
	master, _ := startCounting(t, func(o *server.Options) { o.MaxConnections = most })
	replica := startReplica(t, master.url, nil)
	replica.setReplicas(lockapi.Replica{ID: "r1", URL: master.url, Role: lockapi.RoleMaster})
	entered, release := hold(master)
	defer release()
	for range most {
		transmit(t, master, "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for range most {
		<-entered
	}
	call(t, "GET", master.url+"/v1/locks/b", "").wantCode(t, lockapi.CodeTooMany)
	master.setHook(nil)
	call(t, "POST", replica.url+"/v1/sessions", "").wantStatus(t, http.StatusCreated)
	call(t, "GET", replica.url+"/readyz", "").wantStatus(t, 200)
	if c := cellOf(t, replica, "Stout-Forward", "never"); !c.Replicas[0].Healthy {
		t.Errorf("the master's entry is %+v", c.Replicas[0])
	}
}

// Concurrent calls share one attempt to connect, and a caller that leaves does
// not wait for it.
func TestOneDialForAll(t *testing.T) {
	master := startMaster(t, nil)
	slow := &slowLinks{answer: make(chan struct{})}
	replica := startNode(t, "r2", func(o *server.Options) {
		slow.links = o.Links.(*links)
		o.Links = slow
	})
	replica.setMaster(3, "r1", master.url)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan int)
	go func() { left <- forwarded(ctx, replica, "POST", "/v1/sessions", "").Code }()
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if got := forwarded(t.Context(), replica, "POST", "/v1/sessions", ""); got.Code != http.StatusCreated {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		})
	}
	eventually(t, "it is dialled", func() bool { return slow.dials.Load() > 0 })
	leave()
	if status := <-left; status != http.StatusServiceUnavailable {
		t.Errorf("who left is told %d", status)
	}
	close(slow.answer)
	callers.Wait()
	if got := slow.dials.Load(); got != 1 {
		t.Errorf("%d dials", got)
	}
}

// slowLinks dial only when released.
type slowLinks struct {
	*links
	dials  atomic.Int64
	answer chan struct{}
}

func (l *slowLinks) DialCall(ctx context.Context, id string) (net.Conn, error) {
	l.dials.Add(1)
	select {
	case <-l.answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.links.DialCall(ctx, id)
}

// The next call replaces a connection that has ended.
func TestConnectionIsMadeAgain(t *testing.T) {
	replica := startNode(t, "r2", nil)
	for n := range 3 {
		master := startMaster(t, nil)
		replica.setMaster(3, "r1", master.url)
		eventually(t, fmt.Sprintf("master %d is reached", n), func() bool {
			return forwarded(t.Context(), replica, "POST", "/v1/sessions", "").Code == http.StatusCreated
		})
		must(t, master.server.Shutdown(t.Context()))
		if got := forwarded(t.Context(), replica, "GET", "/v1/sessions", ""); got.Code != http.StatusServiceUnavailable {
			t.Errorf("a master that has gone: %d %s", got.Code, got.Body)
		}
	}
}

// pipes are links over in-memory pipes. serve receives each dialed connection.
type pipes struct {
	serve func(net.Conn)
	l     *pipeListener
}

// pipeListener is a listener of at most one connection.
type pipeListener struct {
	conn net.Conn // nil for none
	done chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *pipeListener) Close() error { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
}

func (p *pipes) Calls() net.Listener  { return p.l }
func (p *pipes) Proven() bool         { return false }
func (*pipes) Caller(net.Conn) string { return "" }
func (*pipes) Member(string) error    { return nil }

func (p *pipes) DialCall(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.serve(far)
	return near, nil
}

// silent is a connection that can hang like that of an isolated machine.
type silent struct {
	net.Conn
	hangs chan struct{}
	gone  chan struct{}
	once  sync.Once
}

func (c *silent) Write(b []byte) (int, error) {
	select {
	case <-c.hangs:
		<-c.gone
		return 0, errors.New("gone")
	default:
		return c.Conn.Write(b)
	}
}

func (c *silent) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// A silent member keeps a call only until a ping fails.
func TestSilentMemberIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		other := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != lockapi.RouteLive {
				close(hangs)
				<-r.Context().Done()
			}
		})}
		other.Protocols.SetUnencryptedHTTP2(true)
		defer other.Close()
		way := &pipes{l: &pipeListener{done: make(chan struct{})}}
		way.serve = func(c net.Conn) {
			once := &pipeListener{conn: &silent{Conn: c, hangs: hangs, gone: make(chan struct{})}, done: make(chan struct{})}
			go func() { _ = other.Serve(once) }()
		}
		f := newStandIn(t, "r2")
		f.setMaster(3, "r1", "http://r1")
		s := server.New(server.Options{Master: f, Links: way})
		began := time.Now()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/locks/a", strings.NewReader(`{"session":"s","wait_ms":600000}`)))
		if !strings.Contains(w.Body.String(), string(lockapi.CodeOutcomeUnknown)) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		must(t, s.Shutdown(t.Context()))
	})
}

// Each side bounds the calls, and refuses further ones without an effect.
func TestBoundsOfForwardedCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	leave := replica.server.Crowd(server.MostForwarded, 0)
	if e := call(t, "POST", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeTooMany); e.Quota != "forwarded-calls" || !strings.Contains(e.Detail, master.url) {
		t.Errorf("%s", e.Detail)
	}
	call(t, "GET", replica.url+"/readyz", "").wantStatus(t, 200) // a health question still has room
	leave()
	leave = master.server.Crowd(0, server.MostServed)
	got := call(t, "POST", replica.url+"/v1/sessions", "")
	if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "served-calls" || !strings.Contains(e.Detail, "calls of other replicas") || got.header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", got.header, got.body)
	}
	leave()
	master.wantNoCalls(t)
	call(t, "POST", replica.url+"/v1/sessions", "").wantStatus(t, http.StatusCreated)
}

// The connection alone determines the origin of a call: a call from a member is
// not forwarded again, and the API's port accepts no members.
func TestOriginIsTheConnection(t *testing.T) {
	_, replica := startPair(t, nil)
	for peer, want := range map[bool]int{true: http.StatusMisdirectedRequest, false: http.StatusCreated} {
		h := replica.server.Handler()
		if peer {
			h = replica.server.PeerHandler()
		}
		handled(h, "192.0.2.1:1234", "POST", "/v1/sessions", "").wantStatus(t, want)
	}
	// HTTP/2 is for members only, not on the API's port.
	c := transmit(t, replica, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("the API answers HTTP/2: %q", answer)
	}
}

// A body that does not arrive ends its own call, not others on the connection.
// The link is to blame, so the call may be sent again.
func TestHalfABodyBetweenReplicas(t *testing.T) {
	master, calls := startCounting(t, func(o *server.Options) { o.BodyTimeout = 50 * time.Millisecond })
	client := other(0)
	base := "http://" + calls.Addr().String()
	body, write := io.Pipe()
	defer write.Close()
	go func() { _, _ = io.WriteString(write, `{"name":`) }()
	resp, err := client.Post(base+"/v1/sessions", "application/json", body)
	must(t, err)
	readReply(t, resp).wantCode(t, lockapi.CodeNoMaster)
	if resp, err = client.Get(base + "/livez"); err != nil {
		t.Fatal(err)
	}
	readReply(t, resp).wantStatus(t, 200)
	if got := calls.taken.Load(); got != 1 {
		t.Errorf("%d connections", got)
	}
	master.wantNoCalls(t)
}

// other returns a client for another member's connection, with a receive window
// of this many bytes for each reply, or the usual one if 0.
func other(window int) *http.Client {
	way := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	way.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: way}
}

// Incomplete calls from other members are bounded, while complete ones still
// have room.
func TestHalfSentBetweenReplicas(t *testing.T) {
	_, calls := startCounting(t, func(o *server.Options) { o.BodyTimeout = time.Minute })
	base, member := "http://"+calls.Addr().String(), other(0)
	ctx, leave := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var refused atomic.Int64
	for range server.MaxHalfBytes/lockapi.MaxBodyBytes + 5 {
		senders.Go(func() {
			body, write := io.Pipe()
			defer write.Close()
			req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/sessions", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.ContentLength = lockapi.MaxBodyBytes
			if resp, err := member.Do(req); err == nil {
				readReply(t, resp).wantCode(t, lockapi.CodeTooMany)
				refused.Add(1)
			}
		})
	}
	eventually(t, "those beyond are refused", func() bool { return refused.Load() == 5 })
	resp, err := member.Get(base + "/livez")
	must(t, err)
	readReply(t, resp).wantStatus(t, 200)
	leave()
	senders.Wait()
	eventually(t, "there is room again", func() bool {
		resp, err := member.Post(base+"/v1/sessions", "application/json", strings.NewReader("{}"))
		return err == nil && readReply(t, resp).status == http.StatusCreated
	})
}

// Unread replies to other members are bounded, and each has a time limit.
func TestUnreadBetweenReplicas(t *testing.T) {
	testrun.Sequential(t) // it encodes 150 MB
	t.Parallel()
	for _, timeout := range []time.Duration{time.Hour, time.Second} {
		master, calls := startCounting(t, func(o *server.Options) { o.WriteTimeout = timeout })
		master.set(func() { master.view.Own.Version = strings.Repeat("x", server.MaxUnreadBytes/8) })
		base, member := "http://"+calls.Addr().String(), other(1)
		get := func() int {
			resp, err := member.Get(base + "/v1/replica")
			if err != nil { // on a busy machine a reply may miss its short time limit
				t.Log(err)
				return 0
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			return resp.StatusCode
		}
		for n := range 9 { // each takes slightly more than an eighth
			if timeout < time.Hour {
				eventually(t, "there is room", func() bool { return get() == 200 })
			} else if want := map[bool]int{true: 200, false: 429}[n < 7]; get() != want {
				t.Errorf("reply %d has not status %d", n, want)
			}
		}
	}
}

// TestNoRoomForAnAnswerOfAChange: too_many would wrongly mean that nothing was
// changed.
func TestNoRoomForAnAnswerOfAChange(t *testing.T) {
	url, s := startReal(t)
	call(t, "PUT", url+"/v1/files/p/f", strings.Repeat("x", 20<<10)).wantStatus(t, 201)
	s.FillUnread()
	ask := func(method, path, body string) reply {
		return handled(s.PeerHandler(), "192.0.2.1:1234", method, path, body)
	}
	ask("GET", "/v1/files/p/f", "").wantCode(t, lockapi.CodeTooMany)
	ask("POST", "/v1/transactions", `{"then":[{"put":{"path":"/p/g","content":"x"}},{"get":{"path":"/p/f"}}]}`).wantCode(t, lockapi.CodeOutcomeUnknown)
	call(t, "GET", url+"/v1/files/p/g", "").wantStatus(t, 200)
}
