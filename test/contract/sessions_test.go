package contract_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// mostKeepalives is how many of a session's may wait at once.
const mostKeepalives = 8

// keepalives: one more than may wait ends the oldest, and only that.
func keepalives(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	for _, r := range []*cell.Replica{master, c.Others(master)[0]} {
		session := open(t, r, `{"ttl_ms":86400000}`)
		answers := make(chan reply, mostKeepalives+1)
		for range mostKeepalives + 1 {
			conn := dial(t, r)
			send(t, conn, request("POST", "/v1/sessions/"+session+"/keepalive", `{"wait_ms":600000}`, strings.TrimPrefix(r.URL, "http://")))
			go func() {
				got, err := receive(conn)
				if err != nil {
					got.body = err.Error()
				}
				answers <- got
			}()
		}
		// The first answer is there when all have arrived; the session's end is
		// what ends the others.
		if got := <-answers; got.status != http.StatusOK {
			t.Errorf("one too many, at %s: %d %s", r.ID, got.status, got.body)
		}
		call(t, r, http.StatusNoContent, "DELETE", "/v1/sessions/"+session, "")
		for range mostKeepalives {
			if got := <-answers; got.status != http.StatusNotFound || got.problem.Code != lockapi.CodeSessionNotFound {
				t.Errorf("one that may wait, at %s: %d %s", r.ID, got.status, got.body)
			}
		}
	}
}

// openAgain: opening a session again under its key extends it.
func openAgain(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	const ttl = 600_000
	remaining := func(id string) float64 {
		s, _ := call(t, master, http.StatusOK, "GET", "/v1/sessions/"+id, "")
		ms, _ := s["lease_remaining_ms"].(float64)
		return ms
	}
	body := fmt.Sprintf(`{"ttl_ms":%d}`, ttl)
	first, _ := call(t, master, http.StatusCreated, "POST", "/v1/sessions", body, "Idempotency-Key: again")
	id := first["id"].(string)
	var before float64
	must(t, cell.Wait(cell.Bounded(t), "a second of the lease has passed", func(context.Context) error {
		if before = remaining(id); before > ttl-1000 {
			return fmt.Errorf("%v ms remain", before)
		}
		return nil
	}))
	again, _ := call(t, c.Others(master)[0], http.StatusCreated, "POST", "/v1/sessions", body, "Idempotency-Key: again")
	if again["id"] != id {
		t.Errorf("under its key another session was opened: %v, %v", first, again)
	}
	if after := remaining(id); after <= before {
		t.Errorf("opened again, the session had %v ms left, and has %v", before, after)
	}
	call(t, master, http.StatusConflict, "POST", "/v1/sessions", `{"ttl_ms":5000}`, "Idempotency-Key: again")
	call(t, master, http.StatusNoContent, "DELETE", "/v1/sessions/"+id, "")
}

// grace is how long a queue position that was not kept outlives the master
// under which it was taken, and its grant may be asked for.
const grace = 5 * time.Second

// unclaimed: a grant that nobody was told of, from a queue position that was
// not kept, is shown as one that may be asked for, and is the pair's own when
// it was.
func unclaimed(t *testing.T, c *cell.Cell) {
	const tries = 5 // the master may be too busy to be asked within the time that there is
	for range tries {
		if unclaimedOnce(t, c) {
			return
		}
	}
	t.Errorf("in %d changes of master a waiting call's place was given up before the lock was released", tries)
}

func unclaimedOnce(t *testing.T, c *cell.Cell) bool {
	const route = "/v1/locks/unclaimed"
	master := c.Ready(t)
	next := c.Others(master)[0]
	holder, waiter := open(t, next, `{"ttl_ms":600000}`), open(t, next, `{"ttl_ms":600000}`)
	pair := fmt.Sprintf(`{"session":%q,"handle":"h"`, waiter)
	call(t, master, http.StatusOK, "PUT", route, fmt.Sprintf(`{"session":%q}`, holder))
	waits := dial(t, master)
	send(t, waits, request("PUT", route, pair+`,"wait_ms":600000}`, strings.TrimPrefix(master.URL, "http://")))
	must(t, cell.Wait(cell.Bounded(t), "the call waits", func(ctx context.Context) error {
		var l lockapi.Lock
		if _, err := master.Call(ctx, http.MethodGet, route, nil, &l); err != nil || l.Waiters != 1 {
			return fmt.Errorf("%+v %v", l, err)
		}
		return nil
	}))
	began := time.Now()
	call(t, master, http.StatusOK, "POST", "/v1/cell/transfer", fmt.Sprintf(`{"to":%q}`, next.ID))
	if got, err := receive(waits); err != nil || got.problem.Code != lockapi.CodeOutcomeUnknown {
		t.Fatalf("the call that waited: %d %s %v", got.status, got.body, err)
	}
	defer call(t, next, http.StatusNoContent, "DELETE", "/v1/sessions/"+waiter, "")
	call(t, next, http.StatusOK, "DELETE", route+"?session="+holder, "")
	holds := func() []object {
		s, _ := call(t, next, http.StatusOK, "GET", "/v1/sessions/"+waiter, "")
		return list(t, s, "holds")
	}
	shown := holds()
	grant, _ := call(t, next, http.StatusOK, "PUT", route, pair+"}")
	if time.Since(began) > grace {
		return false
	}
	if len(shown) != 1 {
		t.Fatalf("released within %v, the lock went to nobody who waited: %v", grace, shown)
	}
	left, _ := shown[0]["unclaimed_ms"].(float64)
	if left < 1 || left > float64(grace.Milliseconds()) {
		t.Errorf("unclaimed_ms is %v, want 1..%d: %v", left, grace.Milliseconds(), shown)
	}
	if grant["token"] != shown[0]["token"] {
		t.Errorf("asked for, the grant is %v; shown was %v", grant, shown)
	}
	if mine := holds(); len(mine) != 1 || mine[0]["unclaimed_ms"] != nil || mine[0]["token"] != grant["token"] {
		t.Errorf("after it was asked for: %v", mine)
	}
	return true
}
