package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// underFileLimit returns a stoutd with a limit on its open files and
// connections.
func underFileLimit(t *testing.T, files int) (binary string) {
	t.Helper()
	real := cell.NewPrepared(t, cell.Options{Size: 1}).Replicas()[0].Command()[0]
	binary = filepath.Join(t.TempDir(), "stoutd")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d || exit 1\nexec '%s' \"$@\"\n", files, real)
	must(t, os.WriteFile(binary, []byte(script), 0o755))
	return binary
}

// calmly runs a load on a cell. It requires that the same master is in office
// in the same epoch afterwards, and that another client was served all the
// time.
func calmly(t *testing.T, c *cell.Cell, load func(master *cell.Replica)) {
	t.Helper()
	master := c.Ready(t)
	before, err := ownView(cell.Bounded(t), master)
	must(t, err)
	other := open(t, c.Replicas()[0], aWhile).ID // with one path for each hold, so that a late call cannot block another
	over := make(chan struct{})
	var all sync.WaitGroup
	var cycles int
	all.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(t.Context(), cell.Step)
			var g lockapi.Grant
			path := fmt.Sprint("/other/", i)
			_, err := cell.Insist(ctx, c.Replicas(), http.MethodPut, lockRoute(path), ask(other, "", 0), &g)
			if err == nil {
				_, err = cell.Insist(ctx, c.Replicas(), http.MethodDelete, releaseRoute(path, other, g.Handle, g.Token), nil, nil)
			}
			cancel()
			if err != nil && t.Context().Err() == nil {
				t.Errorf("another client: %v", err)
				return
			}
			cycles++
		}
	})
	load(master)
	close(over)
	all.Wait()
	after, err := ownView(cell.Bounded(t), master)
	must(t, err)
	if after.Epoch != before.Epoch || after.Master == nil || after.Master.ID != master.ID {
		t.Errorf("mastership changed: epoch %d, master %+v; before, epoch %d", after.Epoch, after.Master, before.Epoch)
	}
	if cycles < 2 {
		t.Errorf("another client was served %d times", cycles)
	}
}

// TestFloodOfConnections: more connections than the limit on open files, at
// every replica, that send nothing or half a request and are reopened when they
// are closed. Other clients are served, snapshots are written, and no replica
// runs out of files.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	const files, flood = 200, 250
	c := cell.New(t, cell.Options{Binary: underFileLimit(t, files), Args: append([]string{
		"--snapshot-threshold=20", "--snapshot-interval=100ms", "--trailing-logs=20", "--log-level=debug"}, still...)})
	calmly(t, c, func(*cell.Replica) {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 3 * flood {
			all.Go(func() {
				for ctx.Err() == nil {
					halfACall(ctx, c.Replicas()[i%3], i%2 == 0)
				}
			})
		}
		for range 2 {
			before := snapshots(c)
			must(t, cell.Wait(cell.Bounded(t), "each replica takes a snapshot during the flood", func(context.Context) error {
				for id, now := range snapshots(c) {
					if now <= before[id] {
						return fmt.Errorf("the latest of %s is of entry %d still", id, now)
					}
				}
				return nil
			}))
		}
		stop()
		all.Wait()
	})
	for _, r := range c.Replicas() {
		log, err := os.ReadFile(r.LogFile)
		must(t, err)
		if !r.Running() || bytes.Contains(log, []byte("too many open files")) {
			t.Errorf("%s found no file left:\n%s", r.ID, r.LogTail(5))
		}
	}
}

// halfACall opens a connection, sends half a request or nothing, and keeps it
// until the replica closes it.
func halfACall(ctx context.Context, r *cell.Replica, half bool) {
	again := time.NewTimer(100 * time.Millisecond)
	defer again.Stop()
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "tcp", r.Addr()); err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		if half {
			_, _ = io.WriteString(conn, "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{") // it may be closed already
		}
		_, _ = io.Copy(io.Discard, conn) // until it is closed
	}
	select {
	case <-again.C:
	case <-ctx.Done():
	}
}

// snapshots returns the log index of each replica's latest snapshot, or 0.
func snapshots(c *cell.Cell) map[string]uint64 {
	latest := map[string]uint64{}
	for _, r := range c.Replicas() {
		latest[r.ID], _ = newestSnapshot(r)
	}
	return latest
}

// TestManyWaiters: hundreds of waiting calls get one lock, in the order of
// their arrival.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	const waiters = 300
	c := cell.New(t, cell.Options{Args: still})
	calmly(t, c, func(master *cell.Replica) {
		holder, id := open(t, master, aWhile).ID, open(t, master, aWhile).ID
		held := acquire(t, master, "/many", ask(holder, "", 0))
		granted := make(chan lockapi.Grant, waiters)
		for i := range waiters {
			got := begin[lockapi.Grant](t, c.Replicas()[i%3], http.MethodPut, lockRoute("/many"), ask(id, fmt.Sprint(i), aWhile))
			go func() {
				a := <-got
				if a.err != nil {
					t.Error(a.err)
				}
				granted <- a.out
			}()
		}
		wantWaiters(t, master, "/many", waiters)
		for range waiters {
			release(t, master, held)
			next := <-granted
			if next.Token <= held.Token {
				t.Fatalf("token %d was granted behind %d", next.Token, held.Token)
			}
			held = next
		}
		wantWaiters(t, master, "/many", 0)
	})
}

// TestManySessionsExpireAtOnce: their locks go to the waiters.
func TestManySessionsExpireAtOnce(t *testing.T) {
	t.Parallel()
	const sessions = 300
	c := cell.New(t, cell.Options{Args: still})
	calmly(t, c, func(master *cell.Replica) {
		waiter := open(t, master, aWhile).ID
		for i := range sessions {
			path := fmt.Sprintf("/left/%d", i)
			id := open(t, master, 3*time.Second).ID
			req := ask(id, "", 0)
			if _, err := cell.Insist(cell.Bounded(t), []*cell.Replica{master}, http.MethodPut, lockRoute(path), req, nil); err != nil && !errors.Is(err, lockapi.CodeSessionNotFound) {
				t.Fatal(err)
			}
			queue := ask(waiter, fmt.Sprint(i), 0)
			queue.Queue = true
			acquire(t, master, path, queue)
		}
		must(t, cell.Wait(cell.Bounded(t), "the waiter has every lock", func(ctx context.Context) error {
			var s lockapi.SessionState
			_, err := master.Call(ctx, http.MethodGet, sessionRoute(waiter), nil, &s)
			if err == nil && len(s.Holds) != sessions {
				err = fmt.Errorf("it has %d", len(s.Holds))
			}
			return err
		}))
	})
}
