package server_test

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

func cellOf(t *testing.T, n *node, headers ...string) lockapi.Cell {
	t.Helper()
	got := call(t, "GET", n.url+"/v1/cell", "", headers...)
	got.wantStatus(t, http.StatusOK)
	var cell lockapi.Cell
	must(t, json.Unmarshal([]byte(got.body), &cell))
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

// closedAddr returns an address without a listener.
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
