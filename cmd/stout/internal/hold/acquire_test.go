package hold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
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
				r1 := &fakecell.Host{Cell: fakecell.NewView(3, "", false), Mute: tt.mute, API: map[string]any{
					"/v1/sessions": lockapi.Session{ID: "s1", TTLMS: 12_000, Epoch: 1},
				}}
				took, f := acquire(t, fakecell.Hosts{"r1": r1, "r2": {Hangs: true}, "r3": {Hangs: true}}, tt.flags, tt.timeout)
				if took > tt.within || f.Code != 9 || f.Message != none {
					t.Errorf("after %v: %d, %q", took, f.Code, f.Message)
				}
			})
		})
	}
}

// acquire is a failing acquisition; 9 is the code for a cell that could not, 8
// for a lock that somebody has.
func acquire(t *testing.T, h fakecell.Hosts, f lockFlags, timeout time.Duration) (took time.Duration, out *exit.Failure) {
	t.Helper()
	a := asApp(t, h, "http://r1", "http://r2", "http://r3")
	a.Options.Timeout = timeout
	f.path, f.paths, f.ttl, f.unavailableCode, f.conflictCode = "/a", []string{"/a"}, 12*time.Second, 9, 8
	began := time.Now()
	_, err := (&holder{a}).acquire(t.Context(), f)
	took = time.Since(began)
	time.Sleep(time.Minute) // the client continues for a while
	out, ok := errors.AsType[*exit.Failure](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return took, out
}

// A lock that is lost while its value is being published has the exit code of a
// lost lock, as soon as its lease is over.
func TestLostWhilePreparing(t *testing.T) {
	for name, tt := range map[string]struct {
		harm   func(*stouttest.Cell, *client.Client)
		within time.Duration
	}{
		"the cell hangs":           {func(cell *stouttest.Cell, c *client.Client) { cell.Lose(c) }, 2 * time.Second},
		"it was released by force": {func(cell *stouttest.Cell, _ *client.Client) { cell.ReleaseByForce("/a") }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cell := stouttest.New(t, stouttest.Options{})
				c := cell.Client()
				a := asApp(t, nil, cell.URLs()...)
				a.Client, a.Admin = c, admin.New(c)
				prepared := time.Duration(0)
				f := lockFlags{path: "/a", paths: []string{"/a"}, ttl: time.Second, waits: true, wait: 30 * time.Second, lostCode: 76}
				f.prepare = func(ctx context.Context, h *heldLock) error {
					began := time.Now()
					tt.harm(cell, c)
					_, err := h.session.Put(ctx, "/a", nil, client.While(h.Held))
					prepared = time.Since(began)
					return err
				}
				err := (&holder{a}).lock(t.Context(), f, nil)
				lost, ok := errors.AsType[*exit.Failure](err)
				if !ok || lost.Code != 76 || prepared > tt.within {
					t.Errorf("after %v: %v", prepared, err)
				}
				cell.Mend(c)
				time.Sleep(time.Minute) // the release continues for a while
				_ = c.Close()
			})
		})
	}
}

// A refusal to publish has the exit code of a lock that was not acquired.
func TestNotPublished(t *testing.T) {
	for code, want := range map[lockapi.Code]int{lockapi.CodeTooMany: 9, lockapi.CodePermissionDenied: exit.Refused} {
		synctest.Test(t, func(t *testing.T) {
			cell := stouttest.New(t, stouttest.Options{})
			a := asApp(t, nil, cell.URLs()...)
			a.Client = cell.Client()
			f := lockFlags{path: "/a", paths: []string{"/a"}, ttl: time.Second, try: true, unavailableCode: 9}
			f.prepare = func(context.Context, *heldLock) error { return lockapi.Errorf(code, "no") }
			out, ok := errors.AsType[*exit.Failure]((&holder{a}).lock(t.Context(), f, nil))
			if !ok || out.Code != want {
				t.Errorf("%s: %v", code, out)
			}
		})
	}
}

// A lock that is lost just after its value was published starts no command.
func TestLostBeforeTheCommand(t *testing.T) {
	cell, ran := stouttest.New(t, stouttest.Options{}), filepath.Join(t.TempDir(), "ran")
	a := asApp(t, nil, cell.URLs()...)
	a.Client = cell.Client()
	f := lockFlags{path: "/a", paths: []string{"/a"}, ttl: time.Second, margins: child.DefaultMargins(time.Second), try: true, lostCode: 76, command: []string{"touch", ran}}
	f.prepare = func(ctx context.Context, h *heldLock) error {
		cell.ReleaseByForce("/a")
		<-h.Held.Done()
		return nil
	}
	lost, ok := errors.AsType[*exit.Failure]((&holder{a}).lock(t.Context(), f, nil))
	if !ok || lost.Code != 76 {
		t.Errorf("it ended with %v", lost)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran")
	}
}

// A lease that ended while stout was stopped has the exit code of a lost lock,
// although the command ended before the lease was looked at.
func TestLostUnwatched(t *testing.T) {
	cell, over := stouttest.New(t, stouttest.Options{}), filepath.Join(t.TempDir(), "over")
	began := time.Now()
	c := cell.Client(func(o *client.Config) {
		o.Clock = func() time.Duration {
			if _, err := os.Stat(over); err == nil {
				return time.Hour
			}
			return time.Since(began)
		}
	})
	a := asApp(t, nil, cell.URLs()...)
	a.Client, a.Admin = c, admin.New(c)
	f := lockFlags{path: "/a", paths: []string{"/a"}, ttl: 12 * time.Second, margins: child.DefaultMargins(12 * time.Second), lostCode: 76, command: []string{"touch", over}}
	lost, ok := errors.AsType[*exit.Failure]((&holder{a}).lock(t.Context(), f, nil))
	if !ok || lost.Code != 76 {
		t.Errorf("it ended with %v", lost)
	}
}

// A hold with an uncertain lease does not outlast --wait either.
func TestAcquireInJeopardyKeepsToItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r1 := &fakecell.Host{Cell: fakecell.NewView(3, "r1", true), After: 600 * time.Millisecond, API: map[string]any{
			"/v1/sessions": lockapi.Session{ID: "s1", TTLMS: 1000, Epoch: 1},
			"/v1/locks/a":  lockapi.Grant{Path: "/a", State: lockapi.StateHeld, Session: "s1", Mode: lockapi.Exclusive, Token: 7, Sequencer: "exclusive:7:/a", GrantedAt: &now},
		}}
		took, f := acquire(t, fakecell.Hosts{"r1": r1}, lockFlags{waits: true, wait: 3 * time.Second}, time.Minute)
		if took > 4*time.Second || f.Code != 9 {
			t.Errorf("after %v: %d, %q", took, f.Code, f.Message)
		}
	})
}

// A held or delayed lock has one exit code, and a cell that could not grant it
// another, for every error of the client.
func TestNotGot(t *testing.T) {
	const held, couldNotCode, refused = 8, 1, exit.Refused
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
		f := lockFlags{path: "/a", paths: []string{"/a"}, waits: true, conflictCode: held, unavailableCode: couldNotCode}
		why := func() *exit.Failure { return exit.Errorf(exit.NoMaster, "diagnosed") }
		out, _ := errors.AsType[*exit.Failure]((&holder{a}).notAcquired(f, (&holder{a}).newWaitWatch(f), tt.err, why))
		if out.Code != tt.code || !strings.HasPrefix(out.Message, "lock not acquired: ") || !strings.Contains(out.Message, tt.says) {
			t.Errorf("%s: %d, %q", name, out.Code, out.Message)
		}
	}
}

// watchWait runs a watch with a patience of a minute until it gives up or d is
// over, and returns its duration, its messages, and why it gave up.
func watchWait(t *testing.T, h fakecell.Hosts, session *client.Session, d time.Duration, live bool) (kept time.Duration, told string, why error) {
	t.Helper()
	return watchWaitFor(t, h, session, time.Minute, d, live)
}

func watchWaitFor(t *testing.T, h fakecell.Hosts, session *client.Session, patience, d time.Duration, live bool) (kept time.Duration, told string, why error) {
	t.Helper()
	var screen bytes.Buffer
	a := asApp(t, h, "http://r1", "http://r2")
	a.Options.Timeout = patience
	a.UI.Err.To, a.UI.Live, a.UI.ErrWidth = &screen, live, 40
	v := (&holder{a}).newWaitWatch(lockFlags{path: "/a", paths: []string{"/a"}})
	if session != nil {
		v.session.Store(session)
	}
	ctx, giveUp := context.WithCancelCause(t.Context())
	began := time.Now()
	end := v.start(ctx, giveUp)
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	kept = time.Since(began)
	end()
	return kept, screen.String(), context.Cause(ctx)
}

// refusals returns a host that refuses every call.
func refusals(code lockapi.Code) *fakecell.Host {
	return &fakecell.Host{Ready: lockapi.Errorf(code, "not now")}
}

func TestWaitWatchEndsInSilence(t *testing.T) {
	for name, h := range map[string]fakecell.Hosts{
		"nobody there":     {},
		"all hang":         {"r1": {Hangs: true}, "r2": {Hangs: true}},
		"one is, one does": {"r2": {Hangs: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept, told, why := watchWait(t, h, nil, time.Hour, false)
				if kept != time.Minute || !errors.Is(why, errSilence) {
					t.Errorf("given up after %v, because %v", kept, why)
				}
				if !strings.HasPrefix(told, "stout: no replica answers; giving up in ") || strings.Count(told, "\n") != 1 {
					t.Errorf("told:\n%s", told)
				}
			})
		})
	}
}

// The wait continues while any replica answers, even with an error, and during
// silences shorter than the patience.
func TestWaitWatchGoesOn(t *testing.T) {
	for name, h := range map[string]fakecell.Hosts{
		"no master":     {"r2": refusals(lockapi.CodeNoMaster)},
		"overloaded":    {"r1": {Hangs: true}, "r2": refusals(lockapi.CodeTooMany)},
		"slow":          {"r1": {Cell: fakecell.NewView(1, "", false), After: 900 * time.Millisecond}},
		"now and again": {"r1": {Cell: fakecell.NewView(1, "", false), Sleeps: 45 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if kept, _, why := watchWait(t, h, nil, time.Hour, false); kept != time.Hour {
					t.Errorf("given up after %v, because %v", kept, why)
				}
			})
		})
	}
}

// Without a quorum, a wait does not report silence while one replica answers:
// neither the read that needs a master nor a hanging replica uses up the time
// of another.
func TestWaitWatchGoesOnWithoutQuorum(t *testing.T) {
	for _, patience := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 1200 * time.Millisecond, 5 * time.Second} {
		t.Run(patience.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				well := fakecell.Hosts{"r9": {Cell: fakecell.NewView(1, "r9", true), API: map[string]any{"/v1/sessions": lockapi.Session{ID: "s1", TTLMS: 86_400_000, Epoch: 1}}}}
				r2 := &fakecell.Host{Cell: fakecell.NewView(1, "r2", true), Mute: "/v1/sessions", After: patience / 10}
				h := fakecell.Hosts{"r1": {Hangs: true}, "r2": r2}
				session, err := asApp(t, well, "http://r9").Client.NewSession(t.Context(), client.TTL(24*time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				kept, told, why := watchWaitFor(t, h, session, patience, time.Minute, false)
				if kept != time.Minute || strings.Contains(told, "no replica answers") {
					t.Errorf("given up after %v, because %v; told %q", kept, why, told)
				}
				r2.Hangs = true
				if kept, _, why := watchWaitFor(t, h, session, patience, time.Minute, false); kept != patience {
					t.Errorf("in silence given up after %v, because %v", kept, why)
				}
				if err := session.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A wait for a cell that is not founded yet reports what that cell waits for.
func TestWaitWatchTellsOfAFounding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := refusals(lockapi.CodeNoMaster)
		waits.Ready.Directory, waits.Ready.Detail = "00c0ffee00c0ffee", "it waits for r3 to found the cell\x1b[2J"
		waits.API = map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r2"}}
		_, told, why := watchWait(t, fakecell.Hosts{"r1": {}, "r2": waits}, nil, time.Hour, false)
		const want = `stout: waiting: the cell has no master; r2 reports: it waits for r3 to found the cell\x1b[2J` + "\n"
		if told != want || why != nil {
			t.Errorf("told %q, because %v", told, why)
		}
	})
}

// A wait prints one line for each kind of news, or on a terminal one line that
// changes and is erased at the end.
func TestWaitWatchTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := lockapi.Session{ID: "s1", TTLMS: 86_400_000, Epoch: 1}
		r1 := &fakecell.Host{Cell: fakecell.NewView(1, "r1", true), API: map[string]any{
			"/v1/sessions": opened,
			"/v1/sessions/s1": lockapi.SessionState{
				Session: opened, Waits: []lockapi.Wait{{Path: "/b", Position: 9}, {Path: "/a", Position: 2}},
			},
			"/v1/locks/a": lockapi.Lock{
				Path: "/a", State: lockapi.StateHeld, Mode: lockapi.Exclusive, Waiters: 2,
				Holders: []lockapi.Holder{{Session: "s2", SessionName: "evil\x1b[2J", Mode: lockapi.Exclusive, Token: 7, GrantedAt: time.Now()}},
			},
		}}
		h := fakecell.Hosts{"r1": r1}
		session, err := asApp(t, h, "http://r1").Client.NewSession(t.Context(), client.TTL(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			delete(r1.API, "/v1/sessions/s1")
			if err := session.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()

		const line = `waiting at position 2: /a is held by evil\x1b[2J, token 7, for `
		if _, told, _ := watchWait(t, h, session, time.Minute, false); told != "stout: "+line+"200ms\n" {
			t.Errorf("told %q", told)
		}
		_, told, _ := watchWait(t, h, session, 3*time.Second, true)
		lines := strings.Split(told, "\r\x1b[K")
		if len(lines) != 5 || lines[4] != "" || lines[3] != "stout: waiting at position 2: /a is …" {
			t.Errorf("a terminal was told %q", told)
		}

		r1.API["/v1/sessions/s1"] = lockapi.Errorf(lockapi.CodeNoMaster, "not now")
		if _, told, _ := watchWait(t, h, session, time.Minute, false); told != "stout: waiting: the cell has no master\n" {
			t.Errorf("without a master it told %q", told)
		}
	})
}
