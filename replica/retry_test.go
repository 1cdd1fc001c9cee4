package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestReturningFollowerHearsAllAtOnce: a follower that was away for long
// receives everything it has missed at once after its return.
func TestReturningFollowerHearsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		leader, epoch := lead(t, cell.all...)
		away := without(cell.all, leader)[0]
		cell.cut(away)
		time.Sleep(time.Minute) // virtual
		write(t, leader, epoch, "a", 20)
		cell.link(cell.all...)
		back := time.Now()
		until(t, "it has everything", func() bool { return away.State().SessionCount() == 20 })
		if late := time.Since(back); late > 2*time.Second {
			t.Errorf("it has everything %v after its return", late)
		}
	})
}
