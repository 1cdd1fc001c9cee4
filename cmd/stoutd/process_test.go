package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestStopThatHangsEnds: a stop that hangs ends the process; an orderly one does not.
func TestStopThatHangsEnds(t *testing.T) {
	for _, orderly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, signal := context.WithCancel(t.Context())
			var ended atomic.Bool
			stopped := endAnyway(ctx, 10*time.Second, func() { ended.Store(true) })
			time.Sleep(time.Hour)
			signal()
			time.Sleep(10*time.Second - 1)
			synctest.Wait()
			if ended.Load() {
				t.Error("ended early")
			}
			if orderly {
				stopped()
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ended.Load() == orderly {
				t.Errorf("in good order: %v; ended: %v", orderly, ended.Load())
			}
			stopped()
		})
	}
}
