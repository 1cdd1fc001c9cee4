package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/history"
)

// TestHistoryIsLinearizable: clients acquire, release and read a few locks
// through all replicas while masters are killed and paused. The answers to all
// requests could have come from one lock on one machine.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	const clients = 5
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	recorder := history.NewRecorder()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range clients {
		w := historyClient{id: i, session: open(t, master, aWhile).ID, urls: c.URLs(),
			http: &http.Client{Transport: recorder.Transport(fmt.Sprintf("c%d", i), nil)}}
		running.Go(func() { w.work(ctx) })
	}
	progress := func(n int) {
		t.Helper()
		want := len(recorder.Attempts()) + n
		must(t, cell.Wait(cell.Bounded(t), "the clients continue", func(context.Context) error {
			if now := len(recorder.Attempts()); now < want {
				return fmt.Errorf("%d of %d requests", now, want)
			}
			return nil
		}))
	}
	for i := range 4 {
		progress(150)
		old := master
		if i%2 == 0 {
			must(t, old.Kill())
		} else {
			must(t, old.Pause())
		}
		newMaster(t, c, old)
		progress(50)
		if i%2 == 0 {
			must(t, old.Start())
		} else {
			must(t, old.Continue())
		}
		master = c.Ready(t)
	}
	stop()
	running.Wait()
	checkHistory(t, recorder.Attempts())
}

// checkHistory fails the test if the record is wrong, and then keeps pictures
// of it.
func checkHistory(t *testing.T, record []history.Attempt) {
	t.Helper()
	v := history.Check(record, cell.Step)
	t.Logf("%d requests, %d steps of the model on %d locks", len(record), v.Steps, v.Paths)
	if len(v.Problems) == 0 {
		return
	}
	dir, err := os.MkdirTemp("", "stout-history-")
	must(t, err)
	pictures, err := v.WritePictures(func(path string) string {
		return filepath.Join(dir, strings.ReplaceAll(path[1:], "/", "-")+".html")
	})
	must(t, err)
	t.Errorf("%s\npictures: %v", strings.Join(v.Problems, "\n"), pictures)
}

// historyClient acquires, reads and releases, with a fresh handle for each
// hold.
type historyClient struct {
	id      int
	session string
	urls    []string
	http    *http.Client
}

func (w *historyClient) work(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		route := lockRoute(fmt.Sprintf("/history/%d/%d", n/100, n%2))
		req := ask(w.session, fmt.Sprintf("c%d-%d", w.id, n), 0)
		refused := w.insist(n, http.MethodPut, route, req)
		_ = w.call(n+1, http.MethodGet, route, nil) // the answer is recorded
		if !refused {
			w.insist(n+2, http.MethodDelete, route+"?session="+w.session+"&handle="+req.Handle, nil)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// insist makes a call at one replica after the other until its outcome is known
// or ten attempts have failed, and reports whether it was refused.
func (w *historyClient) insist(n int, method, target string, in any) (refused bool) {
	for attempt := range 10 {
		err := w.call(n+attempt, method, target, in)
		var problem *lockapi.Error
		switch {
		case err == nil:
			return false
		case errors.As(err, &problem) && problem.Code != lockapi.CodeNoMaster && problem.Code != lockapi.CodeOutcomeUnknown:
			return true
		}
	}
	return false
}

// call makes one call at the n-th replica. It gives up after a time-out, for
// example at a stopped replica; the call may then take effect later.
func (w *historyClient) call(n int, method, target string, in any) error {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := cell.CallVia(ctx, w.http, method, w.urls[(w.id+n)%len(w.urls)], target, in, nil)
	return err
}
