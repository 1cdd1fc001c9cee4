package server_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

const admit = "stout member replace r1 --directory 0123456789abcdef"

// startStandby serves a replica that is not a member yet.
func startStandby(t *testing.T, now func() server.Standby) *node {
	t.Helper()
	n := &node{standIn: newStandIn(t, "r1"), registry: prometheus.NewRegistry(), log: &logBuffer{}, served: make(chan error, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.addr = l.Addr().String()
	n.url = "http://" + n.addr
	n.server = server.New(server.Options{Standby: now, Registry: n.registry, Logger: zerolog.New(n.log)})
	go func() { n.served <- n.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = n.server.Shutdown(ctx)
	})
	return n
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
	var own lockapi.Replica
	must(t, json.Unmarshal([]byte(call(t, "GET", n.url+"/v1/replica", "").body), &own))
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
	if e := call(t, "GET", n.url+"/readyz?x=1", "").wantCode(t, lockapi.CodeInvalidArgument); e.Field != "x" {
		t.Errorf("field %q", e.Field)
	}
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
	if err := n.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-n.served; err != nil {
		t.Error(err)
	}
}
