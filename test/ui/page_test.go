package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// calls makes calls of programs that use the cell.
type calls struct {
	t   *testing.T
	at  *cell.Replica
	via *http.Client // nil for the harness's own
}

func call[T any](c calls, method, path string, in any) (out T) {
	c.t.Helper()
	via := c.via
	if via == nil {
		via = c.at.Via()
	}
	if _, err := cell.CallVia(cell.Bounded(c.t), via, method, c.at.URL, path, in, &out); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

func (c calls) session(name string, ttl int64, meta map[string]string) lockapi.Session {
	c.t.Helper()
	return call[lockapi.Session](c, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: ttl, Name: name, Meta: meta})
}

// lock takes a lock, or a place in its queue.
func (c calls) lock(s lockapi.Session, path string, tune ...func(*lockapi.LockRequest)) lockapi.Grant {
	c.t.Helper()
	req := lockapi.NewLockRequest(s.ID)
	req.Queue = true
	for _, f := range tune {
		f(&req)
	}
	return call[lockapi.Grant](c, http.MethodPut, lockapi.RouteLocks+path, req)
}

func (c calls) release(s lockapi.Session, path string) {
	c.t.Helper()
	call[lockapi.Released](c, http.MethodDelete, lockapi.RouteLocks+path+"?"+url.Values{"session": {s.ID}, "handle": {""}}.Encode(), nil)
}

const hour = 3_600_000

// TestPicture fills a cell as a day's work does, and looks at all of it.
func TestPicture(t *testing.T) {
	c := cell.New(t, cell.Options{Name: "prod"})
	at := calls{t: t, at: c.Ready(t)}
	fill(at)
	for _, look := range []struct {
		name, where, ready string
		window             size
		scheme             string
	}{
		{"cell-light", "", "All replicas are well", desk, "light"},
		{"cell-dark", "cell", "All replicas are well", desk, "dark"},
		{"cell-phone", "cell", "All replicas are well", phone, "light"},
		{"locks-light", "locks", "billing@host7", desk, "light"},
		{"locks-dark", "locks", "billing@host7", desk, "dark"},
		{"locks-phone", "locks", "billing@host7", phone, "dark"},
		{"lock-light", "lock/db/migrate", "Holder", desk, "light"},
		{"lock-phone", "lock/db/migrate", "Holder", phone, "light"},
		{"sessions-light", "sessions", "billing@host7", desk, "light"},
		{"sessions-phone", "sessions", "billing@host7", phone, "dark"},
		{"files-light", "files/app/", "conf", desk, "light"},
		{"file-dark", "file/app/conf", "SHA-256", desk, "dark"},
		{"events-light", "events", "Events", desk, "light"},
		{"members-light", "members", "Directory", desk, "light"},
	} {
		t.Run(look.name, func(t *testing.T) {
			p := open(t, at.at.URL, look.where, look.window, look.scheme)
			p.shows("main", look.ready)
			p.shows("#link", "live")
			if look.where == "" || look.where == "cell" || look.where == "events" {
				at := calls{t: t, at: at.at}
				busy(at)
				p.shows("main", "/db/vacuum")
			}
			p.shoot(look.name)
		})
	}
}

// fill gives a cell locks, sessions and files.
func fill(at calls) {
	var all []lockapi.Session
	for i, name := range []string{"billing@host7", "billing@host8", "search-indexer@host2", "search-indexer@host3", "deploy@ci-14", "backup@host1", "cron@host1", "cron@host4", "mailer@host5", "reports@host9"} {
		all = append(all, at.session(name, int64(12_000*(1+i%5)+hour), map[string]string{"pid": fmt.Sprint(4000 + 17*i), "release": "2026.11.2"}))
	}
	for i, path := range []string{"/db/migrate", "/db/primary/orders", "/db/primary/users", "/search/index/rebuild", "/deploy/prod", "/deploy/staging", "/cron/nightly", "/cron/hourly/mail", "/cron/hourly/reports", "/leader/billing"} {
		at.lock(all[i%len(all)], path)
	}
	for i := range 3 {
		at.lock(all[i+1], "/db/migrate")
	}
	at.lock(all[5], "/deploy/prod")
	for i := range 4 {
		at.lock(all[i+2], "/pool/gpu", func(r *lockapi.LockRequest) { r.Mode, r.Limit = lockapi.Shared, 4 })
	}
	for _, f := range []struct{ path, content string }{
		{"/app/conf", "listen = \":8080\"\nworkers = 16\n\n[database]\nprimary = \"db-2.internal\"\nreplicas = [\"db-1.internal\", \"db-3.internal\"]\n"},
		{"/app/flags/dark-mode", "on"}, {"/app/flags/new-checkout", "10%"}, {"/app/release", "2026.11.2"}, {"/leader/billing", "host7:8080"},
	} {
		put(at, f.path, f.content)
	}
}

func put(at calls, path, content string) {
	at.t.Helper()
	req, err := http.NewRequestWithContext(cell.Bounded(at.t), http.MethodPut, at.at.URL+lockapi.RouteFiles+path, strings.NewReader(content))
	if err != nil {
		at.t.Fatal(err)
	}
	resp, err := at.at.Via().Do(req)
	if err != nil || resp.StatusCode >= 300 {
		at.t.Fatalf("%v %v", resp, err)
	}
	resp.Body.Close()
}

// busy makes some events.
func busy(at calls) {
	s := at.session("vacuum@host3", hour, nil)
	for _, path := range []string{"/db/vacuum", "/db/analyze"} {
		at.lock(s, path)
		at.release(s, path)
	}
	at.lock(s, "/db/vacuum")
	put(at, "/app/release", "2026.11.3")
	call[any](at, http.MethodDelete, lockapi.RouteSessions+"/"+s.ID, nil)
}
