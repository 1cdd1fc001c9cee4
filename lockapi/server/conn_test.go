package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// shortBodies gives bodies a short time limit.
func shortBodies(o *server.Options) { o.BodyTimeout = 50 * time.Millisecond }

func dial(t *testing.T, n *node) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", n.addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

func send(t *testing.T, c net.Conn, bytes string) {
	t.Helper()
	must(t, second(io.WriteString(c, bytes)))
}

func receive(t *testing.T, r *bufio.Reader) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	must(t, err)
	return readReply(t, resp)
}

// wantClosed reads until the server closes the connection.
func wantClosed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Fatal("the connection is still open")
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestSlowHeadersAndIdleConnectionsAreClosed(t *testing.T) {
	n := startMaster(t, func(o *server.Options) { o.HeaderTimeout, o.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond })
	for _, start := range []string{"", "GET /livez HT", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c := dial(t, n)
		send(t, c, start)
		wantClosed(t, c)
	}
}

func TestSlowBodiesAreRefused(t *testing.T) {
	n := startMaster(t, shortBodies)
	for _, request := range []string{
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"ttl_ms\"",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"t",
		"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n",
	} {
		c := dial(t, n)
		send(t, c, request)
		got := receive(t, bufio.NewReader(c))
		if e := got.wantCode(t, lockapi.CodeInvalidArgument); e.Field != "body" || !strings.Contains(e.Detail, "50ms") {
			t.Errorf("%q: %s", request, got.body)
		}
		wantClosed(t, c)
	}
	n.wantNoCalls(t)
}

func TestBodyCutShort(t *testing.T) {
	n := startMaster(t, nil)
	c := dial(t, n)
	send(t, c, "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{}")
	must(t, c.CloseWrite())
	receive(t, bufio.NewReader(c)).wantCode(t, lockapi.CodeInvalidArgument)
	n.wantNoCalls(t)
}

// The deadline of a body does not affect the wait of its call. A slow machine
// needs a longer one, or a body is late.
func TestWaitingOutlastsTheDeadlinesOfReading(t *testing.T) {
	t.Parallel()
	for deadline := 50 * time.Millisecond; deadline < patience; deadline *= 2 {
		n := startMaster(t, func(o *server.Options) { o.BodyTimeout = deadline })
		n.setHook(func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
				return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the caller is said to be gone")
			case <-time.After(deadline * 5 / 4):
				return nil
			}
		})
		opened := call(t, "POST", n.url+"/v1/sessions", `{}`, "Expect", "100-continue") // so it comes after its head
		read := call(t, "GET", n.url+"/v1/locks/a", ``)
		chunked := raw(t, n, "POST", "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
		if len(n.made()) == 3 {
			opened.wantStatus(t, http.StatusCreated)
			read.wantStatus(t, http.StatusOK)
			chunked.wantStatus(t, http.StatusCreated)
			return
		}
	}
	t.Fatal("a call does not begin")
}

// A call ends with its connection, and when the caller closes its half.
func TestBrokenConnectionsEndTheirCall(t *testing.T) {
	master, replica := startPair(t, nil)
	entered, ended := make(chan string), make(chan error)
	master.setHook(func(ctx context.Context, call string) error {
		entered <- call
		<-ctx.Done()
		ended <- ctx.Err()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	const acquire = "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33\r\n\r\n" + `{"session":"s1","wait_ms":600000}`
	for name, brk := range map[string]func(*net.TCPConn){
		"close":      func(c *net.TCPConn) { c.Close() },
		"half-close": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"reset":      func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		for _, n := range []*node{master, replica} {
			c := dial(t, n)
			send(t, c, acquire)
			<-entered
			brk(c)
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatalf("%s through %s: the call still waits", name, n.id)
			}
		}
	}
}

func TestConnectionsAreKept(t *testing.T) {
	n := startMaster(t, nil)
	c := dial(t, n)
	r := bufio.NewReader(c)
	for _, request := range []string{
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"PUT /v1/locks/.. HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"DELETE /v1/sessions/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		send(t, c, request)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		if readReply(t, resp); resp.Close {
			t.Fatalf("%q: the connection ends", request)
		}
	}
}

// An invalid request gets an answer with the same status in head and document.
func TestRefusalsOfWhatIsNoRequest(t *testing.T) {
	n := startMaster(t, nil)
	for request, status := range map[string]int{
		"GET /livez HTTP/1.1\r\n\r\n": http.StatusBadRequest,
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n":                       http.StatusExpectationFailed,
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n":                http.StatusNotImplemented,
		"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n":                                           http.StatusHTTPVersionNotSupported,
	} {
		got := raw(t, n, "GET", request).wantStatus(t, status)
		var p lockapi.Problem
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || p.Status != status || p.Detail == "" {
			t.Errorf("%.40q: %s, %v", request, got.body, err)
		}
	}
}

// A caller that requests much and reads nothing does not keep its goroutine.
func TestReadersThatStallAreCutOff(t *testing.T) {
	n := startMaster(t, func(o *server.Options) { o.WriteTimeout = 50 * time.Millisecond })
	n.addSession(lockapi.Session{ID: "big", Name: strings.Repeat("n", 8<<20)})
	c := dial(t, n)
	must(t, c.SetReadBuffer(4<<10))
	send(t, c, "GET /v1/sessions/big HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the call ends", func() bool {
		return counted(t, n, `stout_http_requests_total`, "GET", "/v1/sessions/{id}") == 1
	})
}

// TestReadersThatStallMakeWay: while every connection has a caller that reads
// nothing of its answer, another caller gets a place.
func TestReadersThatStallMakeWay(t *testing.T) {
	t.Parallel()
	n := startMaster(t, func(o *server.Options) { o.MaxConnections, o.WriteTimeout = 3, time.Hour })
	n.addSession(lockapi.Session{ID: "big", Name: strings.Repeat("n", 8<<20)})
	for i := range 3 {
		c := dial(t, n)
		must(t, c.SetReadBuffer(4<<10))
		send(t, c, "GET /v1/sessions/big HTTP/1.1\r\nHost: localhost\r\n\r\n")
		eventually(t, "it is answered", func() bool {
			return counted(t, n, `stout_http_requests_total`, "GET", "/v1/sessions/{id}") == i+1
		})
	}
	eventually(t, "another caller is answered", func() bool { return statusOf(t, n, "GET", "/v1/locks/b", "") == http.StatusOK })
}

func TestShutdown(t *testing.T) {
	n := startMaster(t, nil)
	entered, finish := make(chan struct{}), make(chan struct{})
	n.setHook(func(context.Context, string) error {
		close(entered)
		<-finish
		return nil
	})
	answered := calling(t, "POST", n.url+"/v1/sessions", "")
	<-entered
	down := make(chan error, 1)
	go func() { down <- n.server.Shutdown(t.Context()) }()
	eventually(t, "intake stops", func() bool {
		c, err := net.Dial("tcp", n.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(finish)
	(<-answered).wantStatus(t, http.StatusCreated)
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-n.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	n := startMaster(t, nil)
	entered := make(chan struct{})
	n.setHook(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	c := dial(t, n)
	send(t, c, "GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := n.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	wantClosed(t, c)
}

// TestShutdownOfTheDoor: the door stops its intake although a call of the API
// does not end.
func TestShutdownOfTheDoor(t *testing.T) {
	n := startMaster(t, nil)
	door := doorOf(t, n)
	entered, release := hold(n)
	answered := calling(t, "POST", n.url+"/v1/sessions", "")
	<-entered
	down := make(chan error, 1)
	go func() { down <- n.server.Shutdown(t.Context()) }()
	eventually(t, "the door's intake stops", func() bool {
		c, err := net.Dial("tcp", door)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	release()
	(<-answered).wantStatus(t, http.StatusCreated)
	must(t, <-down)
}

// TestShutdownWaitsForSpareConnections: a call on a spare connection is not cut
// off before the time is over.
func TestShutdownWaitsForSpareConnections(t *testing.T) {
	n := few(t, 1)
	n.addSession(lockapi.Session{ID: "s", TTLMS: 12_000})
	first, release := hold(n)
	c := transmit(t, n, "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	<-first
	spare, releaseSpare := hold(n)
	defer releaseSpare()
	transmit(t, n, longKeepalive)
	<-spare
	release()
	_, err := io.ReadAll(c)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := n.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
}

// A stopping replica ends the calls that wait at the master: they may be sent
// again there.
func TestShutdownReleasesForwardedCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	entered := make(chan struct{})
	master.setHook(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	answered := calling(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s1","wait_ms":600000}`)
	<-entered
	if err := replica.server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	(<-answered).wantCode(t, lockapi.CodeOutcomeUnknown)
}

// However callers use their connections, and however many more there are than
// places, each place is freed once and no caller waits for one in vain.
func TestConnectionsComeAndGo(t *testing.T) {
	const live = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	n := few(t, 6)
	entered, release := hold(n)
	defer release()
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-entered:
			}
		}
	}()
	texts := []string{
		"", "GET /livez HT", live, live + live, live + "GET", "nonsense\r\n\r\n",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n{",
		"GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\nG",
	}
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			for range 60 {
				c, err := net.Dial("tcp", n.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(c, texts[rand.IntN(len(texts))])
				if rand.IntN(2) == 0 {
					_ = c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(5)) * time.Millisecond))
					_, _ = c.Read(make([]byte, 1000))
				}
				_ = c.Close()
			}
		})
	}
	callers.Wait()
	release()
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
	for range 20 {
		c := transmit(t, n, live)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("a call: %q, %v", line, err)
		}
	}
}
