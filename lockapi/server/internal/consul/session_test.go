package consul

import (
	"encoding/json"
	"testing"
	"time"
)

// TestUnsetFieldsOfASession: null and an empty behavior leave the defaults, as
// in Consul.
func TestUnsetFieldsOfASession(t *testing.T) {
	in := newSession{LockDelay: span{15 * time.Second}}
	if err := json.Unmarshal([]byte(`{"LockDelay":null}`), &in); err != nil || in.LockDelay.Duration != 15*time.Second {
		t.Errorf("%v, %v", in.LockDelay, err)
	}
	if err := parseCreate(&Request{Body: []byte(`{"LockDelay":null,"Behavior":""}`)}, nil, &Call{}); err != nil {
		t.Error(err)
	}
}
