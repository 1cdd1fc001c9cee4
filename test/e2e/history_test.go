package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// history is what clients did to a few locks and what came of it.
type history struct {
	cell  *cell.Cell
	began time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	paused     *cell.Replica // gets no calls
}

// TestHistoryIsLinearizable: clients take, release and read a few locks through
// all replicas while masters are killed and paused. What they saw is what one
// lock on one machine could have done.
//
// A call that was not answered for good is sent again until it is. No late
// duplicate of it can take effect after that: only masters fail here, and what
// one left in the log comes before all that its successor does. A master that is
// stopped is not called by clients, only by the replicas that forward to it: for
// a client's own call it would look for the new master once it goes on.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	const clients = 5
	c := cell.New(t, cell.Options{})
	master := ready(t, c)
	h := &history{cell: c, began: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range clients {
		session := open(t, master, aWhile).ID
		running.Go(func() {
			if err := h.client(ctx, i, session); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 4 {
		h.progress(t, 150)
		old := master
		if i%2 == 0 {
			must(t, old.Kill())
		} else {
			h.setPaused(old)
			must(t, old.Pause())
		}
		newMaster(t, c, old)
		h.progress(t, 50)
		if i%2 == 0 {
			must(t, old.Start())
		} else {
			must(t, old.Continue())
			h.setPaused(nil)
		}
		master = ready(t, c)
	}
	stop()
	running.Wait()
	h.check(t)
}

// progress waits until n more operations have ended.
func (h *history) progress(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.operations)
	}
	want := count() + n
	must(t, cell.Wait(bounded(t), "the clients go on", func(context.Context) error {
		if now := count(); now < want {
			return fmt.Errorf("%d of %d operations", now, want)
		}
		return nil
	}))
}

// client tries, reads and releases until ctx ends.
func (h *history) client(ctx context.Context, id int, session string) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		path, handle := fmt.Sprintf("/history/%d", n%2), fmt.Sprintf("c%d-%d", id, n)
		granted, err := h.do(id, n, input{tryLock, path, handle}, session)
		if err != nil {
			return err
		}
		if _, err := h.do(id, n+1, input{readLock, path, ""}, session); err != nil {
			return err
		}
		if granted.done {
			if _, err := h.do(id, n+2, input{unlock, path, handle}, session); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// do makes one call, beginning at a replica that n chooses, and notes it.
func (h *history) do(client, n int, in input, session string) (out output, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	replicas := h.callable(client + n)
	called := time.Since(h.began)
	var attempts int
	switch in.op {
	case tryLock:
		var g lockapi.Grant
		attempts, err = insist(ctx, replicas, http.MethodPut, lockRoute(in.path), ask(session, in.handle, 0), &g)
		out = output{done: err == nil, token: g.Token}
		if errors.Is(err, lockapi.CodeLockHeld) {
			err = nil
		}
	case unlock:
		var r lockapi.Released
		attempts, err = insist(ctx, replicas, http.MethodDelete, releaseRoute(in.path, session, in.handle, 0), nil, &r)
		out = output{done: r.Released}
	case readLock:
		var l lockapi.Lock
		attempts, err = insist(ctx, replicas, http.MethodGet, lockRoute(in.path), nil, &l)
		if len(l.Holders) > 1 {
			return out, fmt.Errorf("%s has the holders %+v", in.path, l.Holders)
		}
		for _, holder := range l.Holders {
			out.holder, out.token = holder.Handle, holder.Token
		}
	}
	if err != nil {
		return out, fmt.Errorf("client %d: %s: %w", client, describe(in, out), err)
	}
	out.retried = attempts > 1
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: int64(called), Return: int64(time.Since(h.began)),
	})
	return out, nil
}

func (h *history) setPaused(r *cell.Replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = r
}

// callable lists the replicas that get calls now, in an order that n chooses.
func (h *history) callable(n int) []*cell.Replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.cell.Replicas()
	if h.paused != nil {
		all = h.cell.Others(h.paused)
	}
	at := n % len(all)
	return slices.Concat(all[at:], all[:at])
}

// check fails the test if the history is not linearizable, and keeps a picture
// of it then.
func (h *history) check(t *testing.T) {
	t.Helper()
	retried := 0
	for _, o := range h.operations {
		if o.Output.(output).retried {
			retried++
		}
	}
	t.Logf("%d operations, %d of them sent more than once", len(h.operations), retried)
	result, info := porcupine.CheckOperationsVerbose(lockModel, h.operations, step)
	if result == porcupine.Ok {
		return
	}
	dir, err := os.MkdirTemp("", "stout-history-")
	must(t, err)
	picture := filepath.Join(dir, "history.html")
	must(t, porcupine.VisualizePath(lockModel, info, picture))
	t.Errorf("the history is not linearizable (%s); see %s", result, picture)
}
