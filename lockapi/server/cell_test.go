package server_test

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

func cellOf(t *testing.T, n *node, headers ...string) lockapi.Cell {
	t.Helper()
	got := call(t, "GET", n.url+"/v1/cell", "", headers...).wantStatus(t, http.StatusOK)
	cell := decoded[lockapi.Cell](t, got)
	return cell
}

func TestCellIsTheMastersView(t *testing.T) {
	master, replica := startPair(t, func(o *server.Options) { o.CellTimeout = time.Minute })
	master.set(func() { master.view.Cell.Cell = "as the master has it" })
	if c := cellOf(t, replica); c.Cell != "as the master has it" || !c.Lease.Held {
		t.Errorf("cell %+v", c)
	}
	if c := cellOf(t, replica, "Stout-Forward", "never"); c.Cell != "test" || c.Lease.Held {
		t.Errorf("own view %+v", c)
	}
	replica.setMaster(3, "", "")
	if c := cellOf(t, replica); c.Cell != "test" || c.Master != nil || c.Sessions != nil {
		t.Errorf("view without a master %+v", c)
	}
}

func TestCellOfAMasterThatDoesNotAnswer(t *testing.T) {
	stuck := startOther(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	replica := startNode(t, "r2", func(o *server.Options) { o.CellTimeout = 50 * time.Millisecond })
	for _, url := range []string{stuck.URL, "http://" + closedAddr(t), "http://no host"} {
		replica.setMaster(3, "r1", url)
		if c := cellOf(t, replica); c.Cell != "test" || c.Master != nil || c.Lease.Held {
			t.Errorf("cell %+v", c)
		}
	}
}

func closedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestCellMergesWhatReplicasReport(t *testing.T) {
	master := startMaster(t, func(o *server.Options) { o.ProbeTimeout = time.Minute })
	second, third := startNode(t, "r2", nil), startNode(t, "r3", nil)
	second.setApplied(90)
	third.setApplied(80)
	entry := func(id, url string) lockapi.Replica {
		return lockapi.Replica{ID: id, URL: url, RaftAddr: "raft of " + id, Role: lockapi.RoleNonvoter, AppliedIndex: 1, Promise: &lockapi.Promise{To: "x"}}
	}
	own := entry("r1", "http://is.not.asked")
	own.Healthy = true
	master.setReplicas(entry("r3", third.url), own, entry("r2", second.url+"/"), entry("down", "http://"+closedAddr(t)), entry("impostor", second.url))

	cell := cellOf(t, master)
	order := []string{"r3", "r1", "r2", "down", "impostor"}
	for i, r := range cell.Replicas {
		if r.ID != order[i] || r.RaftAddr != "raft of "+r.ID || r.Version != "" || r.UptimeMS != nil {
			t.Errorf("entry %d is %+v", i, r)
		}
	}
	for i, applied := range map[int]uint64{0: 80, 2: 90} {
		r := cell.Replicas[i]
		if !r.Healthy || r.AppliedIndex != applied || r.LastContactMS != 12 || r.Role != lockapi.RoleReplica || r.Promise == nil || r.Promise.To != "r1" {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}
	if r := cell.Replicas[1]; !r.Healthy || r.Promise == nil || r.Promise.To != "x" {
		t.Errorf("own entry %+v", r)
	}
	for _, r := range cell.Replicas[3:] {
		if r.Healthy || r.AppliedIndex != 0 || r.Promise != nil || r.Role != lockapi.RoleNonvoter {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}

	// The last report of a replica is kept when it no longer answers.
	must(t, third.server.Shutdown(t.Context()))
	r := cellOf(t, master).Replicas[0]
	if r.Healthy || r.AppliedIndex != 80 || r.Promise != nil || r.LastContactMS < 0 || r.LastContactMS > time.Minute.Milliseconds() {
		t.Errorf("after it went down: %+v", r)
	}
}

// A replica that does not answer in time delays no call.
func TestCellDoesNotWaitForAStuckReplica(t *testing.T) {
	stuck := startOther(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	master := startMaster(t, func(o *server.Options) { o.ProbeTimeout = 50 * time.Millisecond })
	master.setReplicas(lockapi.Replica{ID: "r2", URL: stuck.URL, Role: lockapi.RoleReplica, Healthy: true}, lockapi.Replica{ID: "r1"})
	if r := cellOf(t, master).Replicas[0]; r.Healthy || r.LastContactMS < 50 {
		t.Errorf("entry %+v", r)
	}
}

// hand drives the clocks of several replicas. Reading a clock does not change
// it, so additional readings do not affect the test.
type hand struct{ at atomic.Int64 }

// clock returns a clock that runs this many times as fast as the hand.
func (h *hand) clock(times float64) func() time.Duration {
	return func() time.Duration { return time.Duration(times * float64(h.at.Load())) }
}

func (h *hand) move(d time.Duration) { h.at.Add(int64(d)) }

// value returns the value of one series on the page.
func value(t *testing.T, page, series string) float64 {
	t.Helper()
	for line := range strings.SplitSeq(page, "\n") {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			must(t, err)
			return v
		}
	}
	t.Fatalf("no %s in %s", series, page)
	return 0
}

// A replica measures the rates of the others' clocks, and reports the possible
// error.
func TestClockRates(t *testing.T) {
	var present hand
	other := startMaster(t, func(o *server.Options) { o.Clock = present.clock(1.5) })
	n := startReplica(t, other.url, func(o *server.Options) { o.Clock, o.Drift = present.clock(1), 0.01 })
	n.setReplicas(lockapi.Replica{ID: "r1", URL: other.url}, lockapi.Replica{ID: "r2", URL: n.url})
	const difference, err = `stout_member_clock_rate_difference_ratio{replica="r1"}`, `stout_member_clock_rate_error_ratio{replica="r1"}`
	if strings.Contains(call(t, "GET", n.url+"/metrics", "").body, difference) {
		t.Error("something is known before the first look")
	}
	// Most calls share earlier answers and read no clock.
	page := ""
	for calls := 0; !strings.Contains(page, difference) || value(t, page, err) > 0.05; calls++ {
		if calls == 10_000 {
			t.Fatal("it does not find out")
		}
		present.move(5 * time.Second)
		call(t, "GET", n.url+"/v1/cell", "", "Stout-Forward", "never").wantStatus(t, http.StatusOK)
		page = call(t, "GET", n.url+"/metrics", "").body
	}
	if d, e := value(t, page, difference), value(t, page, err); d-e > 0.5 || d+e < 0.5 {
		t.Errorf("a difference of %v within %v, want 0.5", d, e)
	}
	if got := value(t, page, "stout_clock_rate_difference_max_ratio"); got != 0.02/0.99 {
		t.Errorf("%v is allowed", got)
	}
	wantSeries(t, n, `stout_member_clock_rate_difference_ratio{replica="r2"} 0`, `stout_member_clock_rate_error_ratio{replica="r2"} 0`)
}

// Only members see the readings of a clock.
func TestClocksAreShownToMembers(t *testing.T) {
	var present hand
	present.move(time.Second)
	n := startMaster(t, func(o *server.Options) { o.Clock = present.clock(1) })
	if h := call(t, "GET", n.url+"/v1/replica", "").header; h.Get("Stout-Clock") != "" {
		t.Errorf("everybody is told: %v", h)
	}
	if got := behind(n.server, "GET", "/v1/replica").header.Get("Stout-Clock"); !strings.HasSuffix(got, " 1000000000") {
		t.Errorf("a member is told %q", got)
	}
}

const admit = "stout member replace r1 --directory 0123456789abcdef"

// startStandby serves a replica that is not a member yet.
func startStandby(t *testing.T, now func() server.Standby) *node {
	t.Helper()
	return startNode(t, "r1", func(o *server.Options) { *o = server.Options{Standby: now, Registry: o.Registry, Logger: o.Logger} })
}

func stranger() server.Standby {
	uptime := int64(5)
	return server.Standby{Why: "directory 0123456789abcdef is not the member's", Command: admit, Replica: lockapi.Replica{
		ID: "r1", URL: "http://r1", RaftAddr: "r1:1", Role: lockapi.RoleNone, Directory: "0123456789abcdef", Version: "v1", UptimeMS: &uptime,
	}}
}

// A replica that is not a member reports what happened and the command to run,
// and refuses all other calls.
func TestStandby(t *testing.T) {
	n := startStandby(t, stranger)
	call(t, "GET", n.url+"/livez", "").wantStatus(t, 200)
	own := decoded[lockapi.Replica](t, call(t, "GET", n.url+"/v1/replica", ""))
	if own.ID != "r1" || own.Role != lockapi.RoleNone || own.Healthy || own.Directory != "0123456789abcdef" {
		t.Errorf("own entry %+v", own)
	}
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/readyz", ""}, {"GET", "/v1/cell", ""}, {"GET", "/v1/members?consistency=stale", ""}, {"GET", "/v1/locks?consistency=stale", ""},
		{"GET", "/v1/locks/a", ""}, {"PUT", "/v1/locks/a", `{"session":"s"}`}, {"PUT", "/v1/locks/a", `{`}, {"POST", "/v1/sessions", ""},
		{"POST", "/v1/members/r1/replace", `{"directory":"0123456789abcdef"}`}, {"GET", "/v1/openapi.yaml", ""}, {"GET", "/metrics", ""}, {"PATCH", "/v1/cell", ""}, {"GET", "/nowhere", ""},
	} {
		got := call(t, c.method, n.url+c.target, c.body)
		e := got.wantCode(t, lockapi.CodeNoMaster)
		if e.Directory != "0123456789abcdef" || e.Command != admit || !strings.Contains(e.Detail, "is not the member's") || !strings.Contains(e.Detail, admit) {
			t.Errorf("%s %s: %s", c.method, c.target, got.body)
		}
		h := got.header
		if h.Get("Retry-After") == "" || h.Get("Stout-Epoch") != "0" || h.Get("Stout-Cell") != "" || h.Get("Stout-Master") != "" {
			t.Errorf("%s %s: %v", c.method, c.target, h)
		}
	}
	call(t, "GET", n.url+"/readyz?x=1", "").wantField(t, "x")
}

// The reason to wait may change, and may need no command.
func TestStandbyOfAFounding(t *testing.T) {
	var mu sync.Mutex
	now := server.Standby{Replica: lockapi.Replica{ID: "r1", Directory: "0123456789abcdef"}}
	n := startStandby(t, func() server.Standby {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	for _, why := range []string{"", "waiting for r2 and r3", "waiting for r3"} {
		mu.Lock()
		now.Why = why
		mu.Unlock()
		e := call(t, "GET", n.url+"/readyz", "").wantCode(t, lockapi.CodeNoMaster)
		if e.Command != "" || strings.Contains(e.Detail, "stout member") || !strings.HasPrefix(e.Detail, why) || e.Directory == "" {
			t.Errorf("%+v", e)
		}
	}
}

// A replica becomes a member under load, under the race detector.
func TestAttach(t *testing.T) {
	n := startStandby(t, stranger)
	n.setMaster(3, "r1", n.url)
	n.setReplicas() // no replica to probe
	done := make(chan struct{})
	var callers sync.WaitGroup
	for _, target := range []string{"/readyz", "/v1/replica", "/v1/locks/a", "/v1/cell", "/metrics", "/nowhere"} {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					got := call(t, "GET", n.url+target, "")
					if member := got.header.Get("Stout-Cell") != ""; member != (got.header.Get("Stout-Epoch") == "3") {
						t.Errorf("%s: half a member: %v", target, got.header)
					}
				}
			}
		})
	}
	call(t, "POST", n.url+"/v1/sessions", "").wantCode(t, lockapi.CodeNoMaster)
	n.server.Attach(n.standIn, newLinks(t, n.standIn))
	call(t, "POST", n.url+"/v1/sessions", "").wantStatus(t, http.StatusCreated)
	close(done)
	callers.Wait()
	if got := call(t, "GET", n.url+"/readyz", ""); got.status != 200 || got.header.Get("Stout-Cell") != "c1" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	if got := call(t, "GET", n.url+"/metrics", ""); !strings.Contains(got.body, "stout_quota_max") {
		t.Errorf("no quotas in %s", got.body)
	}
}

// A server that never had a member stops.
func TestStandbyShutdown(t *testing.T) {
	n := startStandby(t, stranger)
	call(t, "GET", n.url+"/livez", "").wantStatus(t, 200)
	must(t, n.server.Shutdown(t.Context()))
	must(t, <-n.served)
}
