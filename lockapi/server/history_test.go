package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestHistoryIsTheReplicasOwn: each replica answers from its own record, with
// and without a master, and includes the revision.
func TestHistoryIsTheReplicasOwn(t *testing.T) {
	master, replica := startPair(t, nil)
	for range 3 {
		replica.happened("/a")
	}
	for _, known := range []bool{true, false} {
		if !known {
			replica.setMaster(0, "", "")
		}
		got := call(t, "GET", replica.url+"/v1/history?path=%2Fa&limit=2", "", "Stout-Forward", "never")
		got.wantStatus(t, 200)
		var h lockapi.History
		if err := json.Unmarshal([]byte(got.body), &h); err != nil || len(h.Events) != 2 || h.Events[0].Revision != 4 || h.Revision != 4 {
			t.Errorf("%v: %s", err, got.body)
		}
		if r := got.header.Get(lockapi.HeaderRevision); r != "4" {
			t.Errorf("revision %q", r)
		}
	}
	if got := call(t, "GET", master.url+"/v1/history?path=/a", ""); got.status != 200 || got.header.Get(lockapi.HeaderRevision) != "1" {
		t.Errorf("the master says %d %s", got.status, got.body)
	}
}

func TestHistoryRefuses(t *testing.T) {
	n := startMaster(t, nil)
	for query, field := range map[string]string{"": "path", "path=": "path", "path=a": "path", "path=/a&limit=0": "limit", "path=/a&limit=1001": "limit",
		"path=/a&path=/b": "path", "path=/a&consistency=stale": "consistency"} {
		if e := call(t, "GET", n.url+"/v1/history?"+query, "").wantCode(t, lockapi.CodeInvalidArgument); e.Field != field {
			t.Errorf("%s: field %q", query, e.Field)
		}
	}
}
