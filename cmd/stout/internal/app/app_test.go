package app

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// asApp returns an app that asks the given servers.
func asApp(t *testing.T, h fakecell.Hosts, servers ...string) *App {
	c := fakecell.Client(t.Cleanup, h, servers...)
	return &App{UI: &ui.UI{}, Via: h, Client: c, Admin: admin.New(c), Options: Options{Servers: servers, Timeout: DefaultTimeout}}
}

// The Tab key waits for at most a second, even for a hanging replica.
func TestReplicaIDsKeepToTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "", false)}, "r2": {Hangs: true}, "r3": {Hangs: true}}
		a := asApp(t, h, "http://r1", "http://r2", "http://r3")
		began := time.Now()
		found := 0
		for range a.replicas(t.Context()) {
			found++
		}
		if took := time.Since(began); took > completeTimeout || found != 3 {
			t.Errorf("%d after %v", found, took)
		}
	})
}

// A command that has given up takes at most one more second to find the reason.
func TestDiagnose(t *testing.T) {
	const within = 2 * time.Second
	founding := lockapi.Errorf(lockapi.CodeNoMaster, "it waits for r3")
	founding.Directory = "00c0ffee00c0ffee"
	for name, tt := range map[string]struct {
		hosts fakecell.Hosts
		code  int
		says  string
	}{
		"no quorum":   {fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "", false)}, "r2": {Hangs: true}, "r3": {Hangs: true}}, exit.NoMaster, "the cell has no master: locks and members cannot be changed now"},
		"hung master": {fakecell.Hosts{"r1": {Hangs: true}, "r2": {Cell: fakecell.NewView(3, "", false), Mute: lockapi.RouteCell}}, exit.NoMaster, "no master has answered within 2s"},
		"a founding":  {fakecell.Hosts{"r2": {Ready: founding, API: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r2"}}}}, exit.Unreachable, "no replica of a cell can be reached"},
		"silence":     {fakecell.Hosts{"r1": {Hangs: true}, "r2": {Hangs: true}, "r3": {Hangs: true}}, exit.Unreachable, "no replica can be reached"},
		"busy":        {fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", true), After: 100 * time.Millisecond}}, exit.Unreachable, "the cell did not answer within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := asApp(t, tt.hosts, "http://r1", "http://r2", "http://r3")
				a.Options.Timeout = within
				began := time.Now()
				f := a.Explain(client.ErrNoMaster)
				if took := time.Since(began); took > survey.LastWords || f.Code != tt.code || f.Message != tt.says {
					t.Errorf("after %v: %d, %q", took, f.Code, f.Message)
				}
				if want := "1 of 3 replicas answer; a master needs 2 that reach each other"; name == "no quorum" && f.Hints[0] != want {
					t.Errorf("the hint is %q, want %q", f.Hints[0], want)
				}
			})
		})
	}
}

// A lock granted at the moment of a signal is not forgotten: it is released.
func TestAwaitReturnsWhatCameWithTheSignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	value, err := CancelOnSignal(t.Context(), signals, nil, func(ctx context.Context) (int, error) {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return 42, nil
	})
	if f, ok := errors.AsType[*exit.Failure](err); value != 42 || !ok || f.Code != exit.Signal+int(syscall.SIGTERM) {
		t.Errorf("await returns %d, %v", value, err)
	}
}

// fails takes so many writes, and no more.
type fails struct {
	bytes.Buffer
	accepts int
	err     error
}

func (f *fails) Write(p []byte) (int, error) {
	if f.accepts--; f.accepts < 0 {
		return 0, f.err
	}
	return f.Buffer.Write(p)
}

// The first answer that is not written ends the run, and no other is: there is
// no gap. Notices before an answer are written before it.
func TestAnswersEndTheRun(t *testing.T) {
	for why, want := range map[error]exit.Failure{
		syscall.ENOSPC: {Code: exit.NotWritten, Message: "the answer is incomplete: no space left on device"},
		&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}: {Code: 141, Unread: true},
	} {
		to := &fails{accepts: 3, err: why}
		ctx, end := context.WithCancelCause(t.Context())
		said := ui.NewNotices(to)
		a := &App{Streams: ui.Streams{Notices: said, Answers: ui.NewAnswers(to, said, end)}}
		a.UI = &ui.UI{Out: ui.NewStream(a.Answers, termenv.Ascii), Err: ui.NewStream(a.Notices, termenv.Ascii)}
		a.UI.Printf("one\n")
		a.UI.Note("two")
		a.UI.Printf("three\n")
		if ctx.Err() != nil || a.Answers.Lost() != nil {
			t.Fatal("it ends too early")
		}
		a.UI.Printf("four\n")
		to.accepts = 1
		if err := a.UI.Object(5); !errors.Is(err, why) {
			t.Errorf("written after a gap: %v", err)
		}
		if to.String() != "one\nstout: two\nthree\n" || !errors.Is(context.Cause(ctx), why) {
			t.Errorf("written was %q; it ends for %v", to.String(), context.Cause(ctx))
		}
		for _, err := range []error{nil, ctx.Err(), &exit.Failure{Code: exit.Failed}} {
			if f := a.ending(nil, err); f.Code != want.Code || f.Message != want.Message || f.Unread != want.Unread {
				t.Errorf("ends as %+v", f)
			}
		}
	}
}

// A word that a shell does not take literally is not offered.
func TestOffer(t *testing.T) {
	if got := offer(offer(nil, "/a b", ""), "/ab", "a;b"); len(got) != 1 || got[0] != "/ab\ta?b" {
		t.Errorf("offered %q", got)
	}
}

// A long list may take longer than --timeout, but no page may.
func TestEachPageHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &App{}
		a.Options.Timeout = 5 * time.Second
		list := func(each time.Duration) ([]int, error) {
			return CollectPages(t.Context(), a, func(ctx context.Context) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := range 3 {
						if ask.Sleep(ctx, each) != nil {
							yield(0, context.Cause(ctx))
							return
						}
						if !yield(i, nil) {
							return
						}
					}
				}
			})
		}
		if all, err := list(3 * time.Second); err != nil || len(all) != 3 {
			t.Errorf("%v, %v", all, err)
		}
		if all, err := list(6 * time.Second); !errors.Is(err, context.DeadlineExceeded) || all != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}
