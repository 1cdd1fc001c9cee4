package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limiter
		for range fewSlots {
			if !l.acquire(t.Context()) {
				t.Fatal("no slot was available though there are some")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.acquire(ctx) {
			t.Errorf("more than %d slots were taken at a time", fewSlots)
		}
		came := make(chan int, 2)
		for i := range 2 {
			go func() { l.acquire(t.Context()); came <- i }()
			synctest.Wait()
		}
		l.give()
		synctest.Wait()
		if len(came) != 1 || <-came != 0 {
			t.Error("the returned slot did not go to the longest waiter alone")
		}
		l.count((fewSlots + 1) * sessionsPerSlot)
		synctest.Wait()
		if len(came) != 1 {
			t.Error("more sessions did not add slots")
		}
	})
}
