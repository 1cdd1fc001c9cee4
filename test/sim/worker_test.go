package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowIsNotHung: however long all seeds take, the alarm is raised only where
// one takes too long.
func TestSlowIsNotHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hung atomic.Bool
		l := lookout{patience: time.Minute, hung: time.AfterFunc(time.Minute, func() { hung.Store(true) })}
		for range 10 {
			time.Sleep(59 * time.Second)
			if _, err := l.Write([]byte("seed 7\n")); err != nil || hung.Load() {
				t.Fatal("the alarm is raised, and seeds go on", err)
			}
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if !hung.Load() {
			t.Error("no alarm")
		}
		if lastSeed(l.Bytes()) != 7 {
			t.Errorf("the last seed is %d", lastSeed(l.Bytes()))
		}
	})
}
