package nonblock

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// reader accepts no write until it is opened. Then it refuses a number of
// writes, after the first bytes of each.
type reader struct {
	bytes.Buffer
	opened  chan struct{}
	refuses int
	accepts int // bytes of a refused write
}

func (r *reader) Write(p []byte) (int, error) {
	<-r.opened
	if r.refuses > 0 {
		r.refuses--
		r.Buffer.Write(p[:r.accepts])
		return r.accepts, syscall.EPIPE
	}
	return r.Buffer.Write(p)
}

func report(n uint64) []byte { return fmt.Appendf(nil, "%d dropped\n", n) }

func TestWriteNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, began := &reader{opened: make(chan struct{})}, time.Now()
		w := New(to, 10, report)
		for i := range 18 {
			if n, err := fmt.Fprintf(w, "%d\n", i); n == 0 || err != nil {
				t.Errorf("write %d: %d, %v", i, n, err)
			}
			if i == 0 {
				synctest.Wait() // the first write has left the queue
			}
		}
		if took := time.Since(began); took != 0 || w.Dropped() != 7 {
			t.Errorf("the writes took %v, and %d were dropped", took, w.Dropped())
		}
		w.Flush(time.Second)
		w.Flush(time.Second) // does not wait a second time for the same write
		if took := time.Since(began); took != time.Second || w.Blocked() != time.Second {
			t.Errorf("Flush took %v; blocked for %v", took, w.Blocked())
		}
		close(to.opened)
		synctest.Wait()
		if lines := strings.Split(to.String(), "\n"); len(lines) != 13 || lines[10] != "10" || lines[11] != "7 dropped" {
			t.Errorf("written were %q", lines)
		}
		fmt.Fprint(w, "more")
		w.Flush(time.Second)
		if !strings.HasSuffix(to.String(), "more") || w.Blocked() != 0 {
			t.Error("the writer does not continue")
		}
	})
}

// TestFailedWritesAreCounted: a report comes with the first write that succeeds,
// on a line of its own.
func TestFailedWritesAreCounted(t *testing.T) {
	to := &reader{opened: make(chan struct{}), refuses: 3, accepts: 1}
	close(to.opened)
	w := New(to, 10, report)
	for _, line := range []string{"aa\n", "bb\n", "cc\n", "dd\n"} {
		fmt.Fprint(w, line)
		w.Flush(time.Minute)
	}
	if got := to.String(); got != "a\nc\ndd\n3 dropped\n" || w.Dropped() != 3 {
		t.Errorf("written was %q, and %d were dropped", got, w.Dropped())
	}
}

// TestReportThatFails: a report that fails is repeated, including what was
// dropped in the meantime.
func TestReportThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{opened: make(chan struct{})}
		w := New(to, 1, func(n uint64) []byte {
			to.refuses = 1
			if n > 1 {
				to.refuses = 0
			}
			return report(n)
		})
		for range 3 {
			fmt.Fprintln(w, "line")
			synctest.Wait()
		}
		close(to.opened)
		synctest.Wait()
		if to.String() != "line\nline\n" || w.Dropped() != 1 {
			t.Fatalf("written was %q", to.String())
		}
		to.refuses = 1
		fmt.Fprintln(w, "another")
		synctest.Wait()
		fmt.Fprintln(w, "last")
		synctest.Wait()
		if to.String() != "line\nline\nlast\n2 dropped\n" || w.Dropped() != 2 {
			t.Errorf("written was %q, and %d were dropped", to.String(), w.Dropped())
		}
	})
}
