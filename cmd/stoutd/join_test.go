package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestWaitingServes: before the cell is founded a replica serves, reports for which
// replicas it waits (in the log once), and stops in good order.
func TestWaitingServes(t *testing.T) {
	api, raft := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	absent := "127.0.0.1:" + freePort(t)
	log, stop := serving(t, "--cell", "local", "--id", "r1", "--data-dir", t.TempDir(), "--api-listen", api, "--raft-listen", raft,
		"--replica", "r1="+raft+",http://"+api, "--replica", "r2="+absent+",http://"+absent)
	reply := &lockapi.Error{}
	ask := func() bool {
		resp, err := http.Get("http://" + api + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(reply)
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(reply.Detail, "waiting for r2")
	}
	for deadline := time.Now().Add(time.Minute); !ask(); {
		if time.Now().After(deadline) {
			t.Fatalf("the reply is %+v; the log:\n%s", reply, log)
		}
		<-time.After(5 * time.Millisecond)
	}
	if reply.Directory == "" || reply.Command != "" {
		t.Errorf("the reply is %+v", reply)
	}
	if got := stop(); got != exitOK {
		t.Errorf("exit code %d", got)
	}
	if n := strings.Count(log.String(), "waiting for r2"); n != 1 {
		t.Errorf("the log has %d lines about the wait for r2, want 1:\n%s", n, log)
	}
	if !strings.Contains(log.String(), `"message":"stopped"`) {
		t.Errorf("no orderly stop:\n%s", log)
	}
}
