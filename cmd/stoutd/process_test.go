package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/bubbles"
)

// TestStopThatHangsEnds the process, and one in good order does not.
func TestStopThatHangsEnds(t *testing.T) {
	for _, orderly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, signal := context.WithCancel(t.Context())
			ended := false
			stopped := endAnyway(ctx, 10*time.Second, func() { ended = true })
			time.Sleep(time.Hour)
			signal()
			time.Sleep(10*time.Second - 1)
			synctest.Wait()
			if ended {
				t.Error("ended early")
			}
			if orderly {
				stopped()
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ended == orderly {
				t.Errorf("in good order: %v; ended: %v", orderly, ended)
			}
			stopped()
		})
	}
}
