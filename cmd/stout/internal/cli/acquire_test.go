package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
)

// If the cell loses its quorum at any point, an acquisition ends at most a
// second after its time, and reports that the cell could not grant the lock.
func TestAcquireKeepsToItsTime(t *testing.T) {
	const none = "lock not acquired: the cell has no master: locks and members cannot be changed now"
	for name, tt := range map[string]struct {
		flags   lockFlags
		timeout time.Duration
		mute    string // prefix of paths that are no longer answered
		within  time.Duration
	}{
		"--wait, opening":    {lockFlags{waits: true, wait: 2 * time.Second}, time.Minute, "/v1/sessions", 3 * time.Second},
		"--wait, waiting":    {lockFlags{waits: true, wait: 4 * time.Second}, time.Minute, "/v1/locks", 5 * time.Second},
		"a short --wait":     {lockFlags{waits: true, wait: 100 * time.Millisecond}, time.Minute, "/v1/locks", 1100 * time.Millisecond},
		"--try, opening":     {lockFlags{try: true}, 5 * time.Second, "/v1/sessions", 6 * time.Second},
		"--try, trying":      {lockFlags{try: true}, 5 * time.Second, "/v1/locks", 6 * time.Second},
		"--try --timeout 1s": {lockFlags{try: true}, time.Second, "/v1/locks", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r1 := &host{cell: view(3, "", false), mute: tt.mute, api: map[string]any{
					"/v1/sessions": lockapi.Session{ID: "s1", TTLMS: 12_000, Epoch: 1},
				}}
				took, f := acquire(t, hosts{"r1": r1, "r2": {hung: true}, "r3": {hung: true}}, tt.flags, tt.timeout)
				if took > tt.within || f.code != 9 || f.message != none {
					t.Errorf("after %v: %d, %q", took, f.code, f.message)
				}
			})
		})
	}
}

// acquire is a failing acquisition; 9 is the code for a cell that could not, 8
// for a lock that somebody has.
func acquire(t *testing.T, h hosts, f lockFlags, timeout time.Duration) (took time.Duration, out *failure) {
	t.Helper()
	a := asApp(t, h, "http://r1", "http://r2", "http://r3")
	a.opts.timeout = timeout
	a.ui = &ui{out: paint(io.Discard, termenv.Ascii), err: paint(io.Discard, termenv.Ascii)}
	f.path, f.ttl, f.unavailableCode, f.conflictCode = "/a", 12*time.Second, 9, 8
	began := time.Now()
	_, err := a.acquire(t.Context(), f)
	took = time.Since(began)
	time.Sleep(time.Minute) // the client continues for a while
	out, ok := errors.AsType[*failure](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return took, out
}

// A hold with an uncertain lease does not outlast --wait either.
func TestAcquireInJeopardyKeepsToItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r1 := &host{cell: view(3, "r1", true), after: 600 * time.Millisecond, api: map[string]any{
			"/v1/sessions": lockapi.Session{ID: "s1", TTLMS: 1000, Epoch: 1},
			"/v1/locks/a":  lockapi.Grant{Path: "/a", State: lockapi.StateHeld, Session: "s1", Mode: lockapi.Exclusive, Token: 7, Sequencer: "exclusive:7:/a", GrantedAt: &now},
		}}
		took, f := acquire(t, hosts{"r1": r1}, lockFlags{waits: true, wait: 3 * time.Second}, time.Minute)
		if took > 4*time.Second || f.code != 9 {
			t.Errorf("after %v: %d, %q", took, f.code, f.message)
		}
	})
}

// A held or delayed lock has one exit code, and a cell that could not grant it
// another, for every error of the client.
func TestNotGot(t *testing.T) {
	const held, couldNotCode, refused = 8, 9, exitFailed
	holders := []lockapi.Holder{{Session: "s", SessionName: "n", Token: 7, GrantedAt: time.Now()}}
	wrapped := func(code lockapi.Code) error { return fmt.Errorf("stout: PUT /v1/locks/a: %w (last attempt: x)", code) }
	for name, tt := range map[string]struct {
		err  error
		code int
		says string
	}{
		"held":            {&lockapi.Error{Code: lockapi.CodeLockHeld, Holders: holders}, held, "/a is held by n, token 7"},
		"delayed":         {&lockapi.Error{Code: lockapi.CodeLockDelayed, DelayRemainingMS: 1000}, held, "in its lock-delay for 1s more"},
		"delayed, waited": {&lockapi.Error{Code: lockapi.CodeLockHeld, DelayRemainingMS: 1000}, held, "in its lock-delay for 1s more"},
		"held until now":  {&lockapi.Error{Code: lockapi.CodeLockHeld}, held, "/a is taken"},
		"nobody asked":    {lockapi.Errorf(lockapi.CodeNoMaster, "not granted within 4s, and whether it is held is not known"), couldNotCode, "diagnosed"},
		"in jeopardy":     {fmt.Errorf("stout: granted, and given back: %w: %w", lockapi.CodeNoMaster, client.ErrJeopardy), couldNotCode, "diagnosed"},
		"no master":       {wrapped(lockapi.CodeNoMaster), couldNotCode, "diagnosed"},
		"outcome unknown": {wrapped(lockapi.CodeOutcomeUnknown), couldNotCode, "diagnosed"},
		"time over":       {errWaitOver, couldNotCode, "diagnosed"},
		"deadline":        {context.DeadlineExceeded, couldNotCode, "diagnosed"},
		"silence":         {errSilence, couldNotCode, "no replica can be reached"},
		"session gone":    {client.ErrSessionExpired, couldNotCode, "the session ended"},
		"quota":           {lockapi.Errorf(lockapi.CodeTooMany, "quota"), couldNotCode, "quota"},
		"broken":          {lockapi.Errorf(lockapi.CodeInternal, "broken"), couldNotCode, "broken"},
		"another limit":   {lockapi.Errorf(lockapi.CodeConflict, "limit 3"), refused, "limit 3"},
	} {
		a := asApp(t, nil, "http://r1")
		f := lockFlags{path: "/a", waits: true, conflictCode: held, unavailableCode: couldNotCode}
		why := func() *failure { return &failure{code: exitNoMaster, message: "diagnosed"} }
		out, _ := errors.AsType[*failure](a.notAcquired(f, a.newWaitWatch(f), tt.err, why))
		if out.code != tt.code || !strings.HasPrefix(out.message, "lock not acquired: ") || !strings.Contains(out.message, tt.says) {
			t.Errorf("%s: %d, %q", name, out.code, out.message)
		}
	}
}
