package replica

import (
	"testing"
	"time"
)

// TestCrashBetweenTermAndConfiguration: the library founds in two writes. If
// only the first was made nothing was promised, and the cell is founded anyway.
func TestCrashBetweenTermAndConfiguration(t *testing.T) {
	t.Parallel()
	for _, ahead := range []bool{true, false} {
		o := options(t, 1)[0]
		o.WAL, o.HeartbeatTimeout, o.ElectionTimeout = ahead, 20*time.Millisecond, 20*time.Millisecond
		c, err := Prepare(o)
		must(t, err)
		must(t, c.Wait(t.Context()))
		must(t, c.Close())
		s := storesOf(t, o)
		must(t, s.Votes.SetUint64([]byte("CurrentTerm"), 1))
		must(t, s.Close())
		lead(t, start(t, o))
	}
}
