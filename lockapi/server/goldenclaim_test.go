package server

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestGoldenClaim: replicas of different releases forward calls to each other.
// The encoding of an assertion must not change unnoticed, and unknown fields
// are ignored.
func TestGoldenClaim(t *testing.T) {
	c := assertion{Principal: "user:a", How: "jwt", Ends: time.Unix(1_700_000_000, 0).UTC(), Token: "5f0a", Remote: "10.0.0.9:5312", Enables: true}
	raw, err := json.Marshal(c)
	const want = `{"principal":"user:a","how":"jwt","ends":"2023-11-14T22:13:20Z","token":"5f0a","remote":"10.0.0.9:5312","enables":true}`
	if err != nil || string(raw) != want {
		t.Errorf("%v: it is\n%s and was\n%s", err, raw, want)
	}
	var again assertion
	if err := json.Unmarshal([]byte(want[:len(want)-1]+`,"later":1}`), &again); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%+v, %v", again, err)
	}
	if headerCaller != "Stout-Caller" {
		t.Errorf("it is in %s", headerCaller)
	}
}
