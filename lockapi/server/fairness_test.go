package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

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

// TestKeepaliveThatLeft: a waiting keepalive without a goroutine counts as one
// call under way, makes way like another, and ends with its session.
func TestKeepaliveThatLeft(t *testing.T) {
	n := few(t, 3)
	n.addSession(lockapi.Session{ID: "s", TTLMS: 600_000})
	body := `{"wait_ms":300000}`
	text := fmt.Sprintf("POST /v1/sessions/s/keepalive HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	first, second := transmit(t, n, text), transmit(t, n, text)
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
