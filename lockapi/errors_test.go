package lockapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func TestCodesHaveTheStatusOfTheContract(t *testing.T) {
	want := map[lockapi.Code]int{
		"invalid_argument": 400, "cross_origin": 403, "unauthenticated": 401, "permission_denied": 403, "session_not_found": 404, "not_found": 404, "method_not_allowed": 405, "conflict": 409, "unsafe": 409, "busy": 409, "compacted": 410,
		"precondition_failed": 412, "not_held": 412, "too_large": 413,
		"not_master": 421, "lock_held": 423, "lock_delayed": 423, "too_many": 429, "no_master": 503, "outcome_unknown": 503, "internal": 500,
	}
	for _, c := range lockapi.Codes() {
		if c.Status() != want[c] {
			t.Errorf("%s has status %d, want %d", c, c.Status(), want[c])
		}
		if !c.Valid() {
			t.Errorf("%s is not valid", c)
		}
		if c.Title() == "" || c.Title() == string(c) {
			t.Errorf("%s has the title %q", c, c.Title())
		}
		delete(want, c)
	}
	if len(want) > 0 {
		t.Errorf("no codes %v", want)
	}
	if c := lockapi.Code("of_tomorrow"); c.Valid() || c.Status() != http.StatusInternalServerError || c.Title() != "of_tomorrow" {
		t.Errorf("an unknown code has status %d and title %q", c.Status(), c.Title())
	}
}

func TestErrorsSurviveTheWire(t *testing.T) {
	granted := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	for _, e := range []*lockapi.Error{
		lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %q", "x"),
		lockapi.Invalid("ttl_ms", "ttl_ms is %d", 5),
		{Code: lockapi.CodePrecondition, Operation: new(int), Current: &lockapi.File{FileStat: lockapi.FileStat{Path: "/a", Revision: 57, CreatedAt: granted, ModifiedAt: granted}}},
		{Code: lockapi.CodePrecondition, Current: &lockapi.File{FileStat: lockapi.FileStat{Path: "/a", CreatedAt: granted, ModifiedAt: granted}, Content: new(string)}},
		{Code: lockapi.CodePrecondition, Current: &lockapi.File{FileStat: lockapi.FileStat{Path: "/a", CreatedAt: granted, ModifiedAt: granted}, ContentBase64: []byte{0, 255}}},
		{Code: lockapi.CodePrecondition},
		{Code: lockapi.CodeNotHeld, Sequencer: "exclusive:42:/db/primary"},
		{Code: lockapi.CodeCompacted, Compacted: lockapi.Compacted{Oldest: 7, Revision: 60}},
		{Code: lockapi.CodeLockHeld, Detail: "held <&>", DelayRemainingMS: 7, Holders: []lockapi.Holder{
			{Session: "s", SessionName: "n", Handle: "h", Mode: lockapi.Shared, Token: lockapi.MaxToken, GrantedAt: granted}}},
		{Code: lockapi.CodeLockDelayed, DelayRemainingMS: 60000},
		{Code: lockapi.CodeNotMaster, Master: "http://m"},
		{Code: lockapi.CodeNoMaster, Detail: "not a member", Directory: "0123456789abcdef", Command: "stout member replace r1"},
		{Code: lockapi.CodePermissionDenied, Principal: "user:a", Permission: "read", Path: "/a"},
		{Code: lockapi.CodeTooMany, Detail: "x", Quota: "max-files", Limit: 3, Used: 2},
		{Code: lockapi.CodeTooMany, Detail: "x", Quota: "files", Principal: "user:a"},
		{Code: "of_tomorrow", Detail: "x"},
	} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var got lockapi.Error
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, e) {
			t.Errorf("%+v arrives as %+v by %s", e, got, b)
		}
		if err := fmt.Errorf("wrapped: %w", &got); !errors.Is(err, e.Code) || errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("errors.Is does not see %s in %v", e.Code, err)
		}
	}
}

func TestProblemDocument(t *testing.T) {
	b, err := json.Marshal(lockapi.Invalid("ttl_ms", "too short"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"about:blank","title":"Invalid argument","status":400,"code":"invalid_argument","detail":"too short","field":"ttl_ms"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	kept := lockapi.Error{RetryAfter: 3}
	if err := json.Unmarshal(b, &kept); err != nil || kept.RetryAfter != 3 {
		t.Errorf("RetryAfter, which is a header's, becomes %d, %v", kept.RetryAfter, err)
	}
	if err := json.Unmarshal([]byte(`{"code":7}`), &kept); err == nil {
		t.Error("a code that is a number is taken")
	}
}

func TestErrorText(t *testing.T) {
	if got := lockapi.Errorf(lockapi.CodeConflict, "held as %s", lockapi.Shared).Error(); got != "conflict: held as shared" {
		t.Error(got)
	}
	if got := (&lockapi.Error{Code: lockapi.CodeNoMaster}).Error(); got != "no_master" {
		t.Error(got)
	}
}
