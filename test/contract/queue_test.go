package contract_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// whoWaits: a read of a lock shows the head of its queue to whoever asks for
// it, through each replica.
func whoWaits(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	follower := c.Others(master)[0]
	const route = "/v1/locks/who/waits"
	holder := open(t, master, `{"ttl_ms":600000,"name":"the holder","meta":{"pid":"1"}}`)
	first := open(t, master, `{"ttl_ms":600000,"name":"the first","meta":{"pid":"2"}}`)
	second := open(t, follower, `{"ttl_ms":600000}`)
	call(t, follower, http.StatusOK, "PUT", route, fmt.Sprintf(`{"session":%q,"handle":"h"}`, holder))
	call(t, master, http.StatusAccepted, "PUT", route, fmt.Sprintf(`{"session":%q,"handle":"w","queue":true,"mode":"shared"}`, first))
	call(t, follower, http.StatusAccepted, "PUT", route, fmt.Sprintf(`{"session":%q,"queue":true}`, second))

	for _, r := range []*cell.Replica{master, follower} {
		lock, _ := call(t, r, http.StatusOK, "GET", route+"?waiters=5", "")
		if err := has(lock, object{"state": "held", "waiters": 2}); err != nil {
			t.Error(err)
		}
		holders, queue := list(t, lock, "holders"), list(t, lock, "queue")
		if len(holders) != 1 || len(queue) != 2 {
			t.Fatalf("at %s: %v", r.ID, lock)
		}
		for i, want := range []object{
			{"session": holder, "session_name": "the holder", "session_meta": object{"pid": "1"}, "handle": "h", "mode": "exclusive", "token": nil, "granted_at": nil},
			{"session": first, "session_name": "the first", "session_meta": object{"pid": "2"}, "handle": "w", "mode": "shared", "position": 1, "since": nil, "waiting_ms": nil},
			{"session": second, "session_name": "", "handle": "", "mode": "exclusive", "position": 2},
		} {
			if err := has(append(holders, queue...)[i], want); err != nil {
				t.Errorf("at %s: %v", r.ID, err)
			}
		}
		lock, _ = call(t, r, http.StatusOK, "GET", route+"?waiters=1", "")
		if queue := list(t, lock, "queue"); len(queue) != 1 || queue[0]["session"] != first || fmt.Sprint(lock["waiters"]) != "2" {
			t.Errorf("one of two, at %s: %v", r.ID, lock)
		}
		if lock, _ = call(t, r, http.StatusOK, "GET", route, ""); lock["queue"] != nil {
			t.Errorf("unasked, at %s: %v", r.ID, lock)
		}
		for _, bad := range []string{"-1", "1001", "all"} {
			if e, _ := call(t, r, http.StatusBadRequest, "GET", route+"?waiters="+bad, ""); e["field"] != "waiters" {
				t.Errorf("waiters=%s: %v", bad, e)
			}
		}
	}
}
