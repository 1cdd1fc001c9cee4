package progress

import (
	"testing"
	"time"
)

func TestHangs(t *testing.T) {
	now := time.Duration(0)
	w := New(func() time.Duration { return now })
	answer, lock := w.Step("answer"), w.Step("lock")
	disk := time.Duration(0)
	w.Add("disk", func() time.Duration { return disk })
	want := func(step string, taken time.Duration) {
		t.Helper()
		h := w.Hangs(time.Second)
		if h == nil && step != "" || h != nil && (h.Step != step || h.For != taken) {
			t.Errorf("at %v %v hangs, want %q", now, h, step)
		}
	}
	answer.Begin() // at the clock's 0
	now = time.Second
	want("", 0)
	lock.Begin()
	lock.Continue()
	now = 3 * time.Second
	lock.Continue() // already begun
	want("answer", 3*time.Second)
	disk = 4 * time.Second
	want("disk", disk)
	disk = 0
	answer.End()
	want("lock", 2*time.Second)
	w.Remove(lock)
	want("", 0)
	var none *Watch
	none.Step("x").Begin()
	if none.Hangs(0) != nil {
		t.Error("a nil Watch knows a step")
	}
}

// TestHangsReadTheClockOnce: every reply and message asks.
func TestHangsReadTheClockOnce(t *testing.T) {
	reads := 0
	w := New(func() time.Duration { reads++; return time.Second })
	a, b := w.Step("a"), w.Step("b")
	for want, begin := range []*Step{nil, a, b} {
		begin.Begin()
		reads = 0
		w.Hangs(time.Second)
		if reads != min(want, 1) {
			t.Errorf("with %d steps in progress the clock was read %d times", want, reads)
		}
	}
}
