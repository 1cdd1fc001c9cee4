package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// changing is a Locator whose master changes.
type changing struct {
	Master
	id atomic.Value
}

func (c *changing) Known() Location { return Location{ID: c.id.Load().(string)} }

// A call is let go of when its master was not known for a second in a row, and
// not before; the goroutine ends with the last call.
func TestForwardedCallsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l forwardWatch
		m := &changing{}
		m.id.Store("r1")
		x := &exchange{Server: &Server{stopping: make(chan struct{})}, master: m}
		send := func(to string) (context.Context, *forwarded) {
			ctx, cancel := context.WithCancelCause(t.Context())
			a := &forwarded{to: to, end: cancel}
			l.add(x, a)
			return ctx, a
		}
		first, _ := send("r1")
		second, a := send("r1")
		time.Sleep(time.Hour + time.Millisecond)
		for range 2 {
			m.id.Store("")
			time.Sleep(watchEvery * (watchMost - 1))
			m.id.Store("r1")
			time.Sleep(watchEvery)
		}
		if first.Err() != nil || second.Err() != nil {
			t.Fatal("calls at the master were ended")
		}
		l.remove(a)
		m.id.Store("r2")
		third, b := send("r2")
		time.Sleep(watchEvery * watchMost)
		if !errors.Is(context.Cause(first), errMasterGone) || second.Err() != nil || third.Err() != nil {
			t.Errorf("after a second: %v, %v, %v", context.Cause(first), second.Err(), third.Err())
		}
		l.remove(b)
		synctest.Wait()
		if l.add(x, b); len(l.present()) > 0 {
			t.Error("a call that is back is watched")
		}
		time.Sleep(time.Second)
		if l.present() != nil {
			t.Error("it looks after nobody")
		}
		fourth, _ := send("r2")
		close(x.stopping)
		synctest.Wait()
		if !errors.Is(context.Cause(fourth), errStopping) {
			t.Errorf("at the stop: %v", context.Cause(fourth))
		}
	}) // which fails where a goroutine is left
}

func (l *forwardWatch) present() map[uint64]*forwarded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}
