package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// hangs is a stream that takes nothing until it is closed, and then all.
type hangs struct {
	bytes.Buffer
	opened chan struct{}
}

func newHangs() *hangs { return &hangs{opened: make(chan struct{})} }

func (h *hangs) Write(p []byte) (int, error) {
	<-h.opened
	return h.Buffer.Write(p)
}

// Notices to a blocked standard error are limited, and lost ones are counted
// (package nonblock has the rest).
func TestNoticesNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, began := newHangs(), time.Now()
		n := newNotices(to)
		fmt.Fprintln(n, "first")
		synctest.Wait() // it is under way, and in the queue no more
		for range mostNotices + 7 {
			fmt.Fprintln(n, "next")
		}
		settle(n)
		if took := time.Since(began); took != orderTime {
			t.Errorf("an answer waited for %v", took)
		}
		close(to.opened)
		synctest.Wait()
		if text := to.String(); strings.Count(text, "\n") != 1+mostNotices+1 || !strings.HasSuffix(text, "next\nstout: 7 notices dropped: standard error was blocked\n") {
			t.Errorf("written was %q", text)
		}
	})
}

// fails takes so many writes, and no more.
type fails struct {
	bytes.Buffer
	takes int
	err   error
}

func (f *fails) Write(p []byte) (int, error) {
	if f.takes--; f.takes < 0 {
		return 0, f.err
	}
	return f.Buffer.Write(p)
}

// The first answer that is not written ends the run, and no other is: there is
// no gap. Notices before an answer are written before it.
func TestAnswersEndTheRun(t *testing.T) {
	for why, want := range map[error]failure{
		syscall.ENOSPC: {code: exitUnwritten, message: "the answer is incomplete: no space left on device"},
		&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}: {code: 141, unread: true},
	} {
		to := &fails{takes: 3, err: why}
		ctx, end := context.WithCancelCause(t.Context())
		said := newNotices(to)
		a := &app{notices: said, answers: &answers{to: to, before: func() { settle(said) }, end: end}}
		a.ui = &ui{out: paint(a.answers, termenv.Ascii), err: paint(a.notices, termenv.Ascii)}
		a.ui.printf("one\n")
		a.ui.note("two")
		a.ui.printf("three\n")
		if ctx.Err() != nil || a.answers.lost() != nil {
			t.Fatal("it ends too early")
		}
		a.ui.printf("four\n")
		to.takes = 1
		if err := a.ui.object(5); !errors.Is(err, why) {
			t.Errorf("written after a gap: %v", err)
		}
		if to.String() != "one\nstout: two\nthree\n" || !errors.Is(context.Cause(ctx), why) {
			t.Errorf("written was %q; it ends for %v", to.String(), context.Cause(ctx))
		}
		for _, err := range []error{nil, ctx.Err(), &failure{code: exitFailed}} {
			if f := a.ending(nil, err); f.code != want.code || f.message != want.message || f.unread != want.unread {
				t.Errorf("ends as %+v", f)
			}
		}
	}
}

// A wait ends in time although its messages are not read.
func TestWaitWatchOfABlockedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asApp(t, hosts{}, "http://r1", "http://r2")
		to := newHangs()
		a.opts.timeout = time.Minute
		a.ui = &ui{err: paint(newNotices(to), termenv.Ascii), live: true, errWidth: 40}
		ctx, giveUp := context.WithCancelCause(t.Context())
		began := time.Now()
		end := a.newWaitWatch(lockFlags{path: "/a"}).start(ctx, giveUp)
		<-ctx.Done()
		end()
		if took := time.Since(began); took != time.Minute || !errors.Is(context.Cause(ctx), errSilence) {
			t.Errorf("given up after %v, because %v", took, context.Cause(ctx))
		}
		close(to.opened)
	})
}
