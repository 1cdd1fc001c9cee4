package rehearse

import (
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestSlowRelease: a call of its own that meets the change of master as it gives its
// lock back is as slow as one that meets it before.
func TestSlowRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cell := &testCell{masters: []string{"r1"}, release: 700 * time.Millisecond}
		c := cell.client(t)
		defer c.Close()
		o := &own{c: c, path: "/r"}
		var err error
		if o.waiter, err = c.NewSession(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.waiter.Close(t.Context())
		o.call(t.Context())
		if o.calls != 1 || o.failed != 0 || o.slowest < cell.release {
			t.Errorf("%d calls, %d failed, the slowest took %v", o.calls, o.failed, o.slowest)
		}
	})
}
