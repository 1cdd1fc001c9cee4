package replica

import (
	"testing"
	"time"
)

// A replica that was told to be silent is not one that the cell could go on with,
// from that moment on: a leader is one for a while yet, as the library sees it.
func TestSilentReplicaIsNotWell(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	lead(t, r)
	if !r.Card().Heard {
		t.Error("a leader does not hear a leader")
	}
	r.Silence(time.Hour)
	if r.Card().Heard {
		t.Error("a silent leader is taken for well")
	}
	r.Silence(0)
	until(t, "it is well again", func() bool { return r.Card().Heard })
}
