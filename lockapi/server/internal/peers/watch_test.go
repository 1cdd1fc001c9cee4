package peers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// A call ends when its replica has not been the known master for a second, and
// not before. The goroutine ends with the last call.
func TestForwardedCallsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Value
		master.Store("r1")
		stopping := make(chan struct{})
		l := NewWatch(func() string { return master.Load().(string) }, stopping)
		send := func(to string) (context.Context, *Forwarded) {
			ctx, cancel := context.WithCancelCause(t.Context())
			a := l.Forward(to, cancel)
			time.Sleep(watchEvery)
			synctest.Wait()
			return ctx, a
		}
		first, _ := send("r1")
		second, a := send("r1")
		time.Sleep(time.Hour + time.Millisecond)
		for range 2 {
			master.Store("")
			time.Sleep(watchEvery * (watchMost - 1))
			master.Store("r1")
			time.Sleep(watchEvery)
		}
		if first.Err() != nil || second.Err() != nil {
			t.Fatal("calls at the master were ended")
		}
		a.Done()
		master.Store("r2")
		third, b := send("r2")
		time.Sleep(watchEvery * watchMost)
		if !errors.Is(context.Cause(first), errMasterGone) || second.Err() != nil || third.Err() != nil {
			t.Errorf("after a second: %v, %v, %v", context.Cause(first), second.Err(), third.Err())
		}
		b.Done()
		synctest.Wait()
		if l.add(b); len(l.present()) > 0 {
			t.Error("a call that is back is watched")
		}
		time.Sleep(time.Second)
		if l.present() != nil {
			t.Error("it looks after nobody")
		}
		fourth, _ := send("r2")
		close(stopping)
		synctest.Wait()
		if !errors.Is(context.Cause(fourth), errStopping) {
			t.Errorf("at the stop: %v", context.Cause(fourth))
		}
	}) // fails if a goroutine is left
}

func (l *Watch) present() map[uint64]*Forwarded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}
