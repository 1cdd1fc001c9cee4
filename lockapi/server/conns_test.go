package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// few starts a master with room for this many connections.
func few(t *testing.T, most int) *node {
	t.Helper()
	return startMaster(t, func(o *server.Options) { o.MaxConnections = most })
}

// gauge returns the value of a metric of the server without labels.
func gauge(t *testing.T, n *node, name string) (sum float64) {
	t.Helper()
	families, err := n.registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// hold keeps calls waiting at the node until release is called; entered
// receives each.
func hold(n *node) (entered chan struct{}, release func()) {
	entered = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	n.setHook(func(caller context.Context, _ string) error {
		entered <- struct{}{}
		select {
		case <-ctx.Done():
		case <-caller.Done():
		}
		return nil
	})
	return entered, cancel
}

// longKeepalive is a keepalive of session s that waits.
const longKeepalive = "POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n" + `{"wait_ms":600000}`

// heap returns the bytes on the heap, without the content of pools.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// transmit opens a connection and sends the text.
func transmit(t *testing.T, n *node, text string) net.Conn {
	t.Helper()
	c := dial(t, n)
	must(t, second(io.WriteString(c, text)))
	return c
}

// ended waits for the other side to close c.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection is still open")
	}
}

// A connection without a complete request is closed for others.
func TestIdleConnectionsMakeWay(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"half a header": "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"half a body":   "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			n := few(t, 4)
			var idle []net.Conn
			for range 4 {
				idle = append(idle, transmit(t, n, text))
				eventually(t, "it is open", func() bool { return gauge(t, n, "stout_http_connections") == float64(len(idle)) })
			}
			for i := range 4 {
				c := transmit(t, n, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
					t.Fatalf("call %d: %q, %v", i, line, err)
				}
			}
			ended(t, idle[0])
		})
	}
}

// Calls under way keep their connections; the next caller gets a complete
// answer with the reason.
func TestTooManyConnections(t *testing.T) {
	n := few(t, 3)
	entered, release := hold(n)
	defer release()
	var waiting []net.Conn
	for range 3 {
		waiting = append(waiting, transmit(t, n, "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\n\r\n"))
		<-entered
	}
	body := `{"ttl_ms":12000,"name":"` + strings.Repeat("x", 5000) + `"}`
	c := transmit(t, n, fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	var e lockapi.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != lockapi.CodeTooMany || e.Quota != "max-connections" || e.Limit == 0 || e.Used != e.Limit || !strings.Contains(e.Detail, "max-connections") {
		t.Errorf("%+v, %v", e, err)
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s, %v", resp.Status, resp.Header)
	}
	ended(t, c)
	release()
	for _, c := range waiting {
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Errorf("a call under way: %q, %v", line, err)
		}
	}
	if got := gauge(t, n, "stout_http_connections_spared_total"); got != 1 {
		t.Errorf("%v refusals are counted", got)
	}
	for _, c := range append(waiting, c) {
		_ = c.Close()
	}
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
}

// More callers than refused connections are served at a time: none keeps a file
// open or prevents the next call.
func TestManyAreTurnedAway(t *testing.T) {
	n := few(t, 2)
	entered, release := hold(n)
	for range 2 {
		transmit(t, n, "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
	}
	var turned []net.Conn
	for range 200 {
		turned = append(turned, dial(t, n))
	}
	for _, c := range turned {
		ended(t, c)
	}
	release()
	eventually(t, "a call is served", func() bool {
		resp, err := http.Get(n.url + "/livez")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// turns records calls and holds them during their turn.
type turns struct{ *standIn }

func (f turns) Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	own := *by
	own.Turns = turn{by.Turns, func() error { return f.begin(ctx, spell(c)) }}
	return f.Master.Do(ctx, &own, stale, c)
}

type turn struct {
	master.Turns
	then func() error
}

func (t turn) AwaitTurn(ctx context.Context) error {
	if err := t.Turns.AwaitTurn(ctx); err != nil {
		return err
	}
	return t.then()
}

// Only some lists are built at a time, and other calls do not wait for them. A
// caller that leaves gives up its turn.
func TestListsTakeTurns(t *testing.T) {
	for _, target := range []string{"/v1/locks", "/v1/sessions", "/v1/locks/a?waiters=101", "/v1/locks/crowded", "/v1/sessions/crowded"} {
		t.Run(target, func(t *testing.T) { listsInTurn(t, target) })
	}
}

func listsInTurn(t *testing.T, target string) {
	n := startMaster(t, func(o *server.Options) { o.Master = turns{o.Master.(*standIn)} })
	n.addSession(lockapi.Session{ID: "crowded"})
	for i := range 200 {
		n.must(&lockapi.AcquireLock{Path: "/crowded", LockRequest: lockapi.LockRequest{Session: "crowded", Handle: strconv.Itoa(i), Mode: lockapi.Shared}})
	}
	entered, release := hold(n)
	defer release()
	most := max(1, runtime.GOMAXPROCS(0)/2)
	var lists []net.Conn
	for range most + 5 {
		lists = append(lists, transmit(t, n, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	}
	for range most {
		<-entered
	}
	eventually(t, "all lists are asked for", func() bool { return gauge(t, n, "stout_http_requests_in_flight") == float64(most+5) })
	if got := len(n.made()); got != most {
		t.Errorf("%d lists are made at once, want %d", got, most)
	}
	other := transmit(t, n, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if line, err := bufio.NewReader(other).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
		t.Errorf("another call: %q, %v", line, err)
	}
	_ = lists[most+4].Close()
	release()
	for _, c := range lists[:most+4] {
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Errorf("a list: %q, %v", line, err)
		}
	}
}

// full starts a master with a call under way on every connection.
func full(t *testing.T) *node {
	t.Helper()
	n := startMaster(t, func(o *server.Options) { o.MaxConnections, o.HeaderTimeout, o.BodyTimeout = 3, time.Hour, time.Hour })
	entered, release := hold(n)
	t.Cleanup(release)
	for range 3 {
		transmit(t, n, "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
	}
	return n
}

// Health probes, metrics and the page's files are answered even if every
// connection has a call under way; other calls are not.
func TestProbesHaveRoomOfTheirOwn(t *testing.T) {
	n := full(t)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/ui/", "", 200},
		{"GET", "/ui/page.css", "", 200},
		{"GET", "/ui/none", "", 404},
		{"HEAD", "/livez", "", 200},
		{"GET", "/livez?x=1", "", 400},
		{"GET", "/livez", "{}", 200},
		{"POST", "/livez", "", 405},
		{"GET", "/livez/", "", 429},
		{"GET", "//livez", "", 429},
		{"GET", "/v1/cell", "", 429},
		{"GET", "/v1/locks/livez", "", 429},
		{"GET", "/nowhere", "", 429},
		{"POST", "/v1/sessions", `{"ttl_ms":12000}`, 429},
		{"POST", "/v1/sessions", `{"name":"` + strings.Repeat("x", 60_000) + `"}`, 429},
	} {
		got := raw(t, n, c.method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s%s", c.method, c.target, len(c.body), c.body,
			"GET /v1/locks/b HTTP/1.1\r\nHost: x\r\n\r\n"))
		if got.status != c.status || got.header.Get("Connection") != "" && got.header.Get("Connection") != "close" {
			t.Errorf("%s %s: %d %v %.200s", c.method, c.target, got.status, got.header, got.body)
		}
		if c.status == 429 {
			if e := got.wantCode(t, lockapi.CodeTooMany); !strings.Contains(e.Detail, "max-connections") || got.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %+v", c.method, c.target, e)
			}
		}
	}
	if got := n.made(); len(got) != 3 {
		t.Errorf("the master was asked for %q", got)
	}
}

// A spare connection is for one request.
func TestSpareConnectionsAnswerOnce(t *testing.T) {
	n := full(t)
	c := transmit(t, n, strings.Repeat("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 2))
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || !resp.Close {
		t.Fatalf("%+v, %v", resp, err)
	}
	readReply(t, resp).wantStatus(t, http.StatusOK)
	if more, err := in.ReadByte(); err == nil {
		t.Errorf("the connection goes on with %q", more)
	}
}

// Filling the spare connections with silence or half a request keeps no probe
// out, and such connections end soon, without their own time limits.
func TestSpareConnectionsCannotBeFilled(t *testing.T) {
	n := full(t)
	var sent []net.Conn
	for range 100 {
		for _, text := range []string{"", "GET /livez HTTP/1.1\r\nHost: x\r\nA: ", "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"} {
			c := dial(t, n)
			_, _ = c.Write([]byte(text)) // it may already be closed
			sent = append(sent, c)
		}
		call(t, "GET", n.url+"/livez", "").wantStatus(t, http.StatusOK)
	}
	for _, c := range sent {
		ended(t, c)
	}
	call(t, "GET", n.url+"/metrics", "").wantStatus(t, http.StatusOK)
}

// One client, one session, no socket left open: after any input the calls of the client end, and its places are free.
func TestCallersThatLeaveKeepNoPlace(t *testing.T) {
	n := few(t, 20)
	entered, release := hold(n)
	defer release()
	for _, more := range []string{"", "G", "POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{", strings.Repeat("x", 10_000)} {
		for range 50 {
			c := transmit(t, n, longKeepalive+more)
			<-entered
			_ = c.Close()
		}
	}
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
}

// A waiting call keeps little more of its body and headers than their content.
func TestCallsThatWaitKeepLittle(t *testing.T) {
	const calls = 100
	var names strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&names, "%x:\r\n", i)
	}
	for name, headers := range map[string]string{
		"a long header": "A: " + strings.Repeat("a", 30_000) + "\r\n",
		"a credential":  "A: " + strings.Repeat("a", 30_000) + "\r\nAuthorization: Bearer stout_" + strings.Repeat("a", 40) + "\r\n",
		"many headers":  names.String(),
	} {
		t.Run(name, func(t *testing.T) {
			n := startMaster(t, nil)
			entered, release := hold(n)
			defer release()
			body := `{"wait_ms":600000` + strings.Repeat(" ", 60_000) + `}`
			request := fmt.Sprintf("POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
			transmit(t, n, request)
			<-entered
			before := heap()
			for range calls {
				transmit(t, n, request)
				<-entered
			}
			if took := int64(heap()-before) / calls; took > 25_000 {
				t.Errorf("a call takes %d bytes", took)
			}
		})
	}
}

// Incomplete requests are bounded in total; the oldest is refused with an
// explanation.
func TestHalfSentIsRefused(t *testing.T) {
	n := startMaster(t, nil)
	const each = 60_000
	text := "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 65000\r\n\r\n" + strings.Repeat(" ", each)
	var sent []net.Conn
	for range (64<<20)/each + 50 {
		sent = append(sent, transmit(t, n, text))
	}
	resp, err := http.ReadResponse(bufio.NewReader(sent[0]), nil)
	must(t, err)
	got := readReply(t, resp)
	if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "half-sent-bytes" || !strings.Contains(e.Detail, "64 MiB") || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v %v", e, got.header)
	}
	ended(t, sent[0])
	n.wantNoCalls(t)
}

// waitFully uses every connection of a node for waiting calls: acquisitions or
// keepalives of a session.
func waitFully(t *testing.T, n *node, most int, session string, keepalives bool) (waiting []net.Conn, release func()) {
	t.Helper()
	entered, ctx := make(chan struct{}, 100), t.Context()
	ctx, release = context.WithCancel(ctx)
	n.setHook(func(caller context.Context, call string) error {
		if !strings.HasPrefix(call, "AcquireLock") && !(keepalives && len(entered) < most && strings.HasPrefix(call, "KeepAlive")) {
			return nil
		}
		entered <- struct{}{}
		select {
		case <-ctx.Done():
		case <-caller.Done():
		}
		return nil
	})
	path, body := "PUT /v1/locks/a", fmt.Sprintf(`{"session":%q,"wait_ms":600000}`, session)
	if keepalives {
		path, body = "POST /v1/sessions/"+session+"/keepalive", `{"wait_ms":600000}`
	}
	for i := range most {
		waiting = append(waiting, transmit(t, n, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)))
		eventually(t, "it waits", func() bool { return len(entered) == i+1 })
	}
	return waiting, release
}

// statusOf makes a call on its own connection and returns the status.
func statusOf(t *testing.T, n *node, method, path, body string) int {
	t.Helper()
	c := transmit(t, n, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestKeepalivesFindAPlace: if every connection has a waiting call, even of the
// same address, a keepalive is still answered. It displaces one of the waits;
// if those are keepalives too, it is answered at once.
func TestKeepalivesFindAPlace(t *testing.T) {
	t.Parallel()
	for name, keepalives := range map[string]bool{"among acquisitions": false, "among keepalives": true} {
		t.Run(name, func(t *testing.T) {
			n := few(t, 3)
			n.addSession(lockapi.Session{ID: "s", TTLMS: 12_000})
			waiting, release := waitFully(t, n, 3, "s", keepalives)
			defer release()
			for range 5 {
				if got := statusOf(t, n, "POST", "/v1/sessions/s/keepalive", `{"wait_ms":1000}`); got != http.StatusOK {
					t.Fatalf("a keepalive gets %d", got)
				}
			}
			if got := gauge(t, n, "stout_http_connections_yielded_total"); (got > 0) == keepalives {
				t.Errorf("%v calls have made way", got)
			}
			if !keepalives {
				ended(t, waiting[0])
			}
		})
	}
}

// TestStrangerDisplacesNobody: while every connection has a waiting call, a call
// with a token that the cell does not know ends none of them, even a keepalive.
func TestStrangerDisplacesNobody(t *testing.T) {
	s := &secured{tokens: map[string]string{"root": secretOf("root")}}
	n := &node{registry: prometheus.NewRegistry()}
	url, log, _ := startOneLog(t, func(o *server.Options) { o.MaxConnections, o.Registry = 3, n.registry })
	s.url = url
	s.secure(t)
	holder := s.session(t, "locker")
	s.call(t, "locker", "PUT", "/v1/locks/p/l", `{"session":"`+holder+`"}`).wantStatus(t, 200)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer stop()
	send := func(ctx context.Context, method, path, body, token string) int {
		q, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
		must(t, err)
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(q)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for i := range 3 {
		body := fmt.Sprintf(`{"session":%q,"handle":"h%d","wait_ms":600000}`, holder, i)
		waiting.Go(func() { send(ctx, "PUT", "/v1/locks/p/l", body, s.tokens["locker"]) })
		eventually(t, "it waits", func() bool { return len(slices.Collect(log.Nodes()[0].State().Waits())) == i+1 })
	}
	junk := "stout_" + strings.Repeat("a", 40)
	for range 3 {
		if got := send(t.Context(), "POST", "/v1/sessions/x/keepalive", "", junk); got != http.StatusUnauthorized && got != http.StatusTooManyRequests {
			t.Errorf("a stranger's keepalive gets %d", got)
		}
	}
	for _, path := range openToAll[2:] {
		if got := send(t.Context(), "GET", path, "", ""); got != http.StatusTooManyRequests && path != lockapi.RoutePage {
			t.Errorf("%s without a credential gets %d", path, got)
		}
	}
	if got := gauge(t, n, "stout_http_connections_yielded_total"); got != 0 {
		t.Errorf("%v calls have made way for a stranger", got)
	}
	if got := send(t.Context(), "POST", "/v1/sessions/"+holder+"/keepalive", "", s.tokens["locker"]); got != http.StatusOK {
		t.Errorf("the holder's keepalive gets %d", got)
	}
	if got := gauge(t, n, "stout_http_connections_yielded_total"); got == 0 {
		t.Error("no call has made way for the holder")
	}
}

// TestDelayedRefusalsMakeWay: while every connection waits for the answer to a
// bad credential, a call with a good one gets a place.
func TestDelayedRefusalsMakeWay(t *testing.T) {
	n := &node{registry: prometheus.NewRegistry()}
	s := startSecured(t, func(o *server.Options) { o.MaxConnections, o.Registry, o.AttemptEvery = 3, n.registry, time.Hour })
	n.addr = strings.TrimPrefix(s.url, "http://")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ask := func(token string) net.Conn {
		return transmit(t, n, "GET /v1/locks/p/l HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	}
	junk := "stout_" + strings.Repeat("a", 40)
	for range 10 {
		ended(t, ask(junk))
	}
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
	var delayed []net.Conn
	for i := range 3 {
		delayed = append(delayed, ask(junk))
		eventually(t, "it is delayed", func() bool { return gauge(t, n, "stout_bad_credentials_total") == float64(10+i+1) })
	}
	resp, err := http.ReadResponse(bufio.NewReader(ask(s.tokens["reader"])), nil)
	must(t, err)
	readReply(t, resp).wantStatus(t, http.StatusOK)
	ended(t, delayed[0])
}

// TestDelayedRefusalsKeepLittle: a call that waits for the answer to a bad
// credential keeps little of its body and headers.
func TestDelayedRefusalsKeepLittle(t *testing.T) {
	const calls = 100
	n := startMaster(t, func(o *server.Options) { o.AttemptEvery = time.Hour })
	body := strings.Repeat(" ", 60_000)
	request := fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Basic x\r\nA: %s\r\nContent-Length: %d\r\n\r\n%s", strings.Repeat("a", 30_000), len(body), body)
	ask := func(i int) {
		transmit(t, n, request)
		eventually(t, "it is refused", func() bool { return gauge(t, n, "stout_bad_credentials_total") == float64(i) })
	}
	for i := range 20 {
		ask(i + 1)
	}
	before := heap()
	for i := range calls {
		ask(20 + i + 1)
	}
	if took := int64(heap()-before) / calls; took > 25_000 {
		t.Errorf("a call takes %d bytes", took)
	}
}

// TestCrowdOfOneCallerKeepsItsPlaces: another call of the same address
// displaces no call, and is refused.
func TestCrowdOfOneCallerKeepsItsPlaces(t *testing.T) {
	n := few(t, 3)
	n.addSession(lockapi.Session{ID: "s", TTLMS: 12_000})
	_, release := waitFully(t, n, 3, "s", false)
	defer release()
	if got := statusOf(t, n, "GET", "/v1/locks/b", ""); got != http.StatusTooManyRequests {
		t.Errorf("one more call gets %d", got)
	}
	if got := gauge(t, n, "stout_http_connections_yielded_total"); got != 0 {
		t.Errorf("%v calls have made way", got)
	}
}

// TestKeepaliveLeavesThoughTraced: a keepalive that no trace records waits without a
// goroutine.
func TestKeepaliveLeavesThoughTraced(t *testing.T) {
	never := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	n := startMaster(t, func(o *server.Options) { o.Tracer = never.Tracer("test") })
	n.addSession(lockapi.Session{ID: "s", TTLMS: 600_000})
	transmit(t, n, longKeepalive)
	eventually(t, "the keepalive waits", func() bool { return gauge(t, n, "stout_http_requests_in_flight") == 1 })
	eventually(t, "its goroutine has ended", func() bool {
		stacks := make([]byte, 1<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*Master).KeepAlive("))
	})
}

// TestKeepaliveThatLeft: a waiting keepalive without a goroutine counts as one
// call under way, makes way like another, and ends with its session.
func TestKeepaliveThatLeft(t *testing.T) {
	n := few(t, 3)
	n.addSession(lockapi.Session{ID: "s", TTLMS: 600_000})
	first, second := transmit(t, n, longKeepalive), transmit(t, n, longKeepalive)
	under := func() float64 { return gauge(t, n, "stout_http_requests_in_flight") }
	eventually(t, "two calls wait", func() bool { return under() == 2 })
	_ = first.Close()
	eventually(t, "one call waits", func() bool { return under() == 1 })
	call(t, http.MethodDelete, n.url+"/v1/sessions/s", "").wantStatus(t, http.StatusNoContent)
	resp, err := http.ReadResponse(bufio.NewReader(second), nil)
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Fatalf("the end of the session: %v, %v", resp, err)
	}
	eventually(t, "no call is under way", func() bool { return under() == 0 })
}
