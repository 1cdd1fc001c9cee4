package lockapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

func TestDefaultsAreValid(t *testing.T) {
	session, lock, alive := lockapi.NewSessionRequest(), lockapi.NewLockRequest("s"), lockapi.KeepaliveRequest{}
	for _, r := range []interface{ Validate() error }{&session, &lock, &alive} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if session.TTLMS != 12000 || lock.Mode != lockapi.Exclusive {
		t.Errorf("defaults %+v %+v", session, lock)
	}
}

func TestSessionRequestBounds(t *testing.T) {
	pairs := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint(i)] = "v"
		}
		return m
	}
	for _, c := range []struct {
		change func(*lockapi.SessionRequest)
		field  string // "" if it is within bounds
	}{
		{func(r *lockapi.SessionRequest) { r.TTLMS = 1000 }, ""},
		{func(r *lockapi.SessionRequest) { r.TTLMS = 86_400_000 }, ""},
		{func(r *lockapi.SessionRequest) { r.TTLMS = 999 }, "ttl_ms"},
		{func(r *lockapi.SessionRequest) { r.TTLMS = 0 }, "ttl_ms"},
		{func(r *lockapi.SessionRequest) { r.TTLMS = 86_400_001 }, "ttl_ms"},
		{func(r *lockapi.SessionRequest) { r.Name = strings.Repeat("é", 64) }, ""},
		{func(r *lockapi.SessionRequest) { r.Name = strings.Repeat("é", 64) + "x" }, "name"},
		{func(r *lockapi.SessionRequest) { r.Meta = pairs(16) }, ""},
		{func(r *lockapi.SessionRequest) { r.Meta = pairs(17) }, "meta"},
	} {
		r := lockapi.NewSessionRequest()
		c.change(&r)
		wantVerdict(t, fmt.Sprintf("%+v", r), r.Validate(), c.field)
	}
}

func TestLockRequestBounds(t *testing.T) {
	for _, c := range []struct {
		change func(*lockapi.LockRequest)
		field  string
	}{
		{func(r *lockapi.LockRequest) { r.Session = "" }, "session"},
		{func(r *lockapi.LockRequest) { r.Handle = strings.Repeat("h", 64) }, ""},
		{func(r *lockapi.LockRequest) { r.Handle = strings.Repeat("h", 65) }, "handle"},
		{func(r *lockapi.LockRequest) { r.Handle = "\xff" }, "handle"},
		{func(r *lockapi.LockRequest) { r.Mode = lockapi.Shared }, ""},
		{func(r *lockapi.LockRequest) { r.Mode = "" }, "mode"},
		{func(r *lockapi.LockRequest) { r.Mode = "Shared" }, "mode"},
		{func(r *lockapi.LockRequest) { r.Mode, r.Limit = lockapi.Shared, 1_000_000 }, ""},
		{func(r *lockapi.LockRequest) { r.Mode, r.Limit = lockapi.Shared, 1_000_001 }, "limit"},
		{func(r *lockapi.LockRequest) { r.Mode, r.Limit = lockapi.Shared, -1 }, "limit"},
		{func(r *lockapi.LockRequest) { r.Limit = 1 }, "limit"},
		{func(r *lockapi.LockRequest) { r.WaitMS = 600_000 }, ""},
		{func(r *lockapi.LockRequest) { r.WaitMS = 600_001 }, "wait_ms"},
		{func(r *lockapi.LockRequest) { r.WaitMS = -1 }, "wait_ms"},
		{func(r *lockapi.LockRequest) { r.LockDelayMS = 60_000 }, ""},
		{func(r *lockapi.LockRequest) { r.LockDelayMS = 60_001 }, "lock_delay_ms"},
		{func(r *lockapi.LockRequest) { r.LockDelayMS = -1 }, "lock_delay_ms"},
	} {
		r := lockapi.NewLockRequest("s")
		c.change(&r)
		wantVerdict(t, fmt.Sprintf("%+v", r), r.Validate(), c.field)
	}
}

func TestKeepaliveRequestBounds(t *testing.T) {
	for _, c := range []struct {
		request lockapi.KeepaliveRequest
		field   string
	}{
		{lockapi.KeepaliveRequest{WaitMS: 600_000, Ack: lockapi.MaxToken}, ""},
		{lockapi.KeepaliveRequest{WaitMS: 600_001}, "wait_ms"},
		{lockapi.KeepaliveRequest{WaitMS: -1}, "wait_ms"},
		{lockapi.KeepaliveRequest{Ack: lockapi.MaxToken + 1}, "ack"},
	} {
		wantVerdict(t, fmt.Sprintf("%+v", c.request), c.request.Validate(), c.field)
	}
}

func TestValidateKey(t *testing.T) {
	const field = "Idempotency-Key"
	wantVerdict(t, "128 bytes", lockapi.ValidateKey(strings.Repeat("k", 128)), "")
	wantVerdict(t, "129 bytes", lockapi.ValidateKey(strings.Repeat("k", 129)), field)
	wantVerdict(t, "not UTF-8", lockapi.ValidateKey("\xff"), field)
	wantVerdict(t, "NUL", lockapi.ValidateKey("a\x00"), field)
}

func wantVerdict(t *testing.T, what string, err error, field string) {
	t.Helper()
	if field != "" {
		wantInvalid(t, what, err, field)
	} else if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
