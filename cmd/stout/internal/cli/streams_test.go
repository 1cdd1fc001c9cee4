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

	_ "github.com/stoutlock/stout/internal/bubbles"
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

// What is said while standard error takes nothing costs no time, is bounded, and
// is counted where it is lost.
func TestNoticesNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, began := newHangs(), time.Now()
		n := &notices{to: to}
		const over = 7
		for i := range 1 + mostNotices + over {
			fmt.Fprintf(n, "%d\n", i)
			if i == 0 {
				synctest.Wait() // it is under way, and in the queue no more
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("to say it took %v", took)
		}
		n.settle()
		n.settle() // which knows by now
		n.flush(lastNotices)
		if took := time.Since(began); took != lastNotices {
			t.Errorf("to wait for it took %v", took)
		}
		close(to.opened)
		synctest.Wait()
		lines := strings.Split(to.String(), "\n")
		if len(lines) != 1+mostNotices+2 || lines[mostNotices] != fmt.Sprint(mostNotices) ||
			lines[mostNotices+1] != "stout: 7 notices dropped: standard error was blocked" {
			t.Errorf("written were %q", lines)
		}
		fmt.Fprint(n, "more")
		n.settle()
		if !strings.HasSuffix(to.String(), "more") {
			t.Error("it does not go on")
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
		syscall.ENOSPC: {code: exitUnwritten, message: "the answer is not whole: no space left on device"},
		&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}: {code: 141, unread: true},
	} {
		to := &fails{takes: 3, err: why}
		ctx, end := context.WithCancelCause(t.Context())
		said := &notices{to: to}
		a := &app{notices: said, answers: &answers{to: to, before: said.settle, end: end}}
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

// A wait ends when it should though nobody reads what is said of it.
func TestWaitWatchOfABlockedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asApp(t, hosts{}, "http://r1", "http://r2")
		to := newHangs()
		a.opts.timeout = time.Minute
		a.ui = &ui{err: paint(&notices{to: to}, termenv.Ascii), live: true, errWidth: 40}
		ctx, giveUp := context.WithCancelCause(t.Context())
		began := time.Now()
		end := a.newWaitWatch(lockFlags{path: "/a"}).keep(ctx, giveUp)
		<-ctx.Done()
		end()
		if took := time.Since(began); took != time.Minute || !errors.Is(context.Cause(ctx), errSilence) {
			t.Errorf("given up after %v, because %v", took, context.Cause(ctx))
		}
		close(to.opened)
	})
}
