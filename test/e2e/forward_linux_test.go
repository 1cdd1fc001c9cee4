package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// files returns how many files the replica's process has open.
func files(t *testing.T, r *cell.Replica) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.PID()))
	must(t, err)
	return len(open)
}

// TestForwardedCallsTakeFewFiles: forwarded calls that wait at the master share
// one connection per forwarding replica, and end with their callers.
func TestForwardedCallsTakeFewFiles(t *testing.T) {
	t.Parallel()
	const each = 400
	c := cell.New(t, cell.Options{Args: still})
	master := c.Ready(t)
	s := open(t, master, aWhile)
	acquire(t, master, "/busy", ask(s.ID, "holder", 0))
	before := files(t, master)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for n, r := range c.Others(master) {
		waiter := open(t, r, aWhile)
		for i := range each {
			go func() {
				_, _ = r.Call(ctx, http.MethodPut, lockRoute("/busy"), ask(waiter.ID, fmt.Sprintf("%d-%d", n, i), 9*time.Minute), nil)
			}()
		}
	}
	wantWaiters(t, master, "/busy", 2*each)
	if more := files(t, master) - before; more > 20 {
		t.Errorf("%d forwarded calls that wait take %d files at the master", 2*each, more)
	}
	leave()
	wantWaiters(t, master, "/busy", 0)
}
