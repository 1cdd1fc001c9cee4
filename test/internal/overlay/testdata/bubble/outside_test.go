package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay/seed"
)

// TestOutside checks that the runtime still works outside the bubble.
func TestOutside(t *testing.T) {
	runtime.GOMAXPROCS(1)
	seed.Set(1)
	before := collections()
	garbage()
	if n := collections(); n != before {
		t.Errorf("the collector ran %d times by itself under a seed", n-before)
	}
	runtime.GC()
	if n := collections(); n != before+1 {
		t.Errorf("runtime.GC under a seed: %d collections, want 1", n-before)
	}
	select {
	case <-time.After(time.Millisecond):
	case <-time.After(time.Minute):
	}
	synctest.Test(t, func(*testing.T) { time.Sleep(time.Hour) })
	seed.Set(0)
	before = collections()
	garbage()
	if collections() == before {
		t.Error("the collector does not run without a seed")
	}
}

func garbage() {
	for range 10_000 {
		sink = make([]byte, 64<<10)
	}
}

var sink []byte

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// TestProcessors checks that a seed is refused with more than one processor.
func TestProcessors(t *testing.T) {
	runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(1)
	defer func() {
		if recover() == nil {
			t.Error("a seed was set with two processors")
		}
	}()
	seed.Set(1)
}

// TestHang never ends by itself.
func TestHang(t *testing.T) {
	runtime.GOMAXPROCS(1)
	seed.Set(1)
	synctest.Test(t, func(*testing.T) {
		for {
		}
	})
}
