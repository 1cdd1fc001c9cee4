package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

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

// Health probes and metrics are answered even if every connection has a call
// under way; other calls are not.
func TestProbesHaveRoomOfTheirOwn(t *testing.T) {
	n := full(t)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 200},
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
			c := transmit(t, n, "POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"+`{"wait_ms":600000}`+more)
			<-entered
			_ = c.Close()
		}
	}
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
}

// A waiting call keeps little more of its body and headers than their content.
func TestCallsThatWaitKeepLittle(t *testing.T) {
	const calls = 100
	n := startMaster(t, nil)
	entered, release := hold(n)
	defer release()
	body := `{"wait_ms":600000` + strings.Repeat(" ", 60_000) + `}`
	request := fmt.Sprintf("POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\nA: %s\r\nContent-Length: %d\r\n\r\n%s", strings.Repeat("a", 30_000), len(body), body)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // frees the content of pools
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
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
	if calls := n.made(); len(calls) > 0 {
		t.Errorf("calls went on to the master: %q", calls)
	}
}
