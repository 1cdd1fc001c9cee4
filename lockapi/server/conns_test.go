package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

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

func (t turn) TakeTurn(ctx context.Context) error {
	if err := t.Turns.TakeTurn(ctx); err != nil {
		return err
	}
	return t.then()
}

// Only some lists are built at a time, and other calls do not wait for them. A
// caller that leaves gives up its turn.
func TestListsTakeTurns(t *testing.T) {
	for _, target := range []string{"/v1/locks", "/v1/sessions", "/v1/locks/a?waiters=101", "/v1/locks/crowded", "/v1/sessions/crowded"} {
		t.Run(target, func(t *testing.T) { takeTurns(t, target) })
	}
}

func takeTurns(t *testing.T, target string) {
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
