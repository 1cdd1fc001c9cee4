package contract_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// replies: a session with much data that appears many times does not make a
// reply larger than its limit, through each replica.
func replies(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	follower := c.Others(master)[0]
	const route = "/v1/locks/replies/long"
	const holders, each = 120, 400 // bytes without metadata
	long := open(t, master, fmt.Sprintf(`{"ttl_ms":600000,"meta":{"long":%q}}`, strings.Repeat("m", 60_000)))
	short := open(t, master, `{"ttl_ms":600000,"name":"short","meta":{"pid":"1"}}`)
	hold := func(session, handle string) {
		call(t, master, http.StatusOK, "PUT", route, fmt.Sprintf(`{"session":%q,"handle":%q,"mode":"shared"}`, session, handle))
	}
	hold(short, "")
	for i := range holders {
		hold(long, strconv.Itoa(i))
	}
	call(t, master, http.StatusAccepted, "PUT", route, fmt.Sprintf(`{"session":%q,"handle":"w","queue":true}`, long))

	for _, r := range []*cell.Replica{master, follower} {
		for _, q := range []struct {
			method, route, body string
			status, most        int
		}{
			{"GET", route, "", http.StatusOK, 64<<10 + (holders+2)*each},
			{"GET", route + "?waiters=1000", "", http.StatusOK, 64<<10 + (holders+2)*each},
			{"GET", route + "?consistency=stale", "", http.StatusOK, 64<<10 + (holders+2)*each},
			{"GET", "/v1/locks?prefix=/replies/", "", http.StatusOK, 64<<10 + (holders+2)*each},
			{"PUT", route, fmt.Sprintf(`{"session":%q}`, open(t, r, `{"ttl_ms":600000}`)), http.StatusLocked, 4<<10 + 102*each},
		} {
			got, header := call(t, r, q.status, q.method, q.route, q.body)
			if size, err := strconv.Atoi(header.Get("Content-Length")); err != nil || size > q.most {
				t.Errorf("%s %s at %s: %d bytes, %v", q.method, q.route, r.ID, size, err)
			}
			if strings.Contains(q.route, "prefix") {
				got = list(t, got, "locks")[0]
			}
			shown, more := list(t, got, "holders"), got["more_holders"]
			if q.status == http.StatusLocked {
				if len(shown) != 100 || fmt.Sprint(more) != fmt.Sprint(holders+1-100) {
					t.Errorf("%d holders and %v more at %s", len(shown), more, r.ID)
				}
			} else if len(shown) != holders+1 || more != nil {
				t.Errorf("%s %s at %s: %d holders and %v more", q.method, q.route, r.ID, len(shown), more)
			}
			if err := has(shown[0], object{"session": short, "session_name": "short", "session_meta": object{"pid": "1"}}); err != nil {
				t.Errorf("%s %s at %s: %v", q.method, q.route, r.ID, err)
			}
		}
	}
}
