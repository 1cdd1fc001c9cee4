package contract_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestConnectionsThatDoNotBehave: slow and half-closed ones end within a bound
// and do nothing.
func TestConnectionsThatDoNotBehave(t *testing.T) {
	t.Parallel()
	_, master, follower := start(t)
	before := everything(t, master)
	// The slow ones take the server's whole patience, so they run beside the
	// rest.
	var slow sync.WaitGroup
	for _, r := range []*cell.Replica{master, follower} {
		for _, text := range []string{
			"",
			"POST /v1/sessions HT",
			"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		} {
			c := dial(t, r)
			send(t, c, text)
			slow.Go(func() { wantClosed(t, c, text) })
		}
		for _, text := range []string{
			"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"ttl_ms\"",
			"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		} {
			c := dial(t, r)
			send(t, c, text)
			slow.Go(func() { wantRefusedBody(t, c) })
		}
	}
	for _, r := range []*cell.Replica{master, follower} {
		cutShort(t, r)
	}
	slow.Wait()
	if after := everything(t, master); after != before {
		t.Errorf("the state changed from\n%s\nto\n%s", before, after)
	}
	for _, r := range []*cell.Replica{master, follower} {
		for name, brk := range map[string]func(*net.TCPConn) error{
			"half-closed": (*net.TCPConn).CloseWrite,
			"closed":      (*net.TCPConn).Close,
			"reset": func(c *net.TCPConn) error {
				_ = c.SetLinger(0)
				return c.Close()
			},
		} {
			t.Run(name+" while it waits at "+r.ID, func(t *testing.T) { brokenWait(t, r, master, brk) })
		}
	}
}

func wantClosed(t *testing.T, c net.Conn, sent string) {
	if _, err := io.Copy(io.Discard, c); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("after %q the connection is open still", sent)
		}
	}
}

func wantRefusedBody(t *testing.T, c net.Conn) {
	got, err := receive(c)
	if err != nil || got.status != http.StatusBadRequest || got.problem.Field != "body" {
		t.Errorf("a slow body: %d %s %v", got.status, got.body, err)
	}
	wantClosed(t, c, "a slow body")
}

// cutShort ends the sending side in the middle of a body.
func cutShort(t *testing.T, r *cell.Replica) {
	t.Helper()
	c := dial(t, r)
	send(t, c, "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{}")
	must(t, c.CloseWrite())
	got, err := receive(c)
	if err != nil || got.status != http.StatusBadRequest || got.problem.Field != "body" {
		t.Errorf("half a body: %d %s %v", got.status, got.body, err)
	}
}

// brokenWait breaks a connection whose call waits in a queue: the call leaves
// the queue, and nobody gets the lock by it.
func brokenWait(t *testing.T, r, master *cell.Replica, brk func(*net.TCPConn) error) {
	var holder, waiter lockapi.Session
	for _, s := range []*lockapi.Session{&holder, &waiter} {
		_, err := master.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 600_000}, s)
		must(t, err)
		defer master.Call(context.WithoutCancel(t.Context()), http.MethodDelete, lockapi.RouteSessions+"/"+s.ID, nil, nil)
	}
	const route = lockapi.RouteLocks + "/broken"
	_, err := master.Call(cell.Bounded(t), http.MethodPut, route, lockapi.NewLockRequest(holder.ID), nil)
	must(t, err)
	waiters := func(want int) {
		t.Helper()
		must(t, cell.Wait(cell.Bounded(t), fmt.Sprintf("%d wait", want), func(ctx context.Context) error {
			var l lockapi.Lock
			_, err := master.Call(ctx, http.MethodGet, route, nil, &l)
			if err == nil && l.Waiters != want {
				err = fmt.Errorf("there are %d waiters", l.Waiters)
			}
			return err
		}))
	}
	c := dial(t, r)
	body := fmt.Sprintf(`{"session":%q,"wait_ms":600000}`, waiter.ID)
	send(t, c, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", route, len(body), body))
	waiters(1)
	must(t, brk(c))
	waiters(0)
	_, err = master.Call(cell.Bounded(t), http.MethodDelete, route+"?session="+holder.ID, nil, nil)
	must(t, err)
	var l lockapi.Lock
	_, err = master.Call(cell.Bounded(t), http.MethodGet, route, nil, &l)
	must(t, err)
	if l.State != lockapi.StateFree {
		t.Errorf("after the release: %+v", l)
	}
}
