package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// wantStatuses waits until a new connection for each route gets the wanted
// status.
func wantStatuses(t *testing.T, r *cell.Replica, want map[string]int) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), fmt.Sprint("the answers are ", want), func(ctx context.Context) error {
		for route, status := range want {
			if err := answers(ctx, r, route, status); err != nil {
				return err
			}
		}
		return nil
	}))
}

// answers reports whether a call over a new connection gets a status.
func answers(ctx context.Context, r *cell.Replica, route string, status int) error {
	resp, _, err := cell.Exchange(ctx, nil, http.MethodGet, r.URL+route, nil, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != status {
		return fmt.Errorf("%s is answered %s", route, resp.Status)
	}
	return nil
}

// keepalive sends a keepalive that waits for ten minutes, and more bytes behind
// it.
func keepalive(t *testing.T, r *cell.Replica, session, more string) net.Conn {
	t.Helper()
	const body = `{"wait_ms":600000}`
	addr := r.Addr()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s/%s/keepalive HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s%s", lockapi.RouteSessions, session, addr, len(body), body, more)
	must(t, err)
	return conn
}

// TestOneClientKeepsNobodyOut: callers that send more than their request and
// leave do not hold connections. Callers that stay keep their connections, and
// health checks and metrics are still answered.
func TestOneClientKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: []string{"--max-connections=16"}})
	r := c.Ready(t)
	var sessions []string
	for range 3 {
		sessions = append(sessions, open(t, r, aWhile).ID)
	}
	for i := range 200 {
		must(t, keepalive(t, r, sessions[i%3], "G").Close())
	}
	wantStatuses(t, r, map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/cell": 200})

	// A connection with a request that has not been read yet may lose its place
	// to the next one, so calls are added until every place has a waiting call.
	var waiting []net.Conn
	must(t, cell.Wait(cell.Bounded(t), "every connection has a call", func(ctx context.Context) error {
		waiting = append(waiting, keepalive(t, r, sessions[len(waiting)%3], ""))
		return answers(ctx, r, "/v1/cell", http.StatusTooManyRequests)
	}))
	wantStatuses(t, r, map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/cell": 429})
	for _, conn := range waiting {
		_, _ = io.WriteString(conn, "GET /livez HT")
		must(t, conn.Close())
	}
	wantStatuses(t, r, map[string]int{"/livez": 200, "/v1/cell": 200})
}
