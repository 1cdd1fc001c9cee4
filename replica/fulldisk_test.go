package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// fullVotes stores a limited number of terms.
type fullVotes struct {
	raft.StableStore
	accepts int
}

func (v *fullVotes) SetUint64(key []byte, n uint64) error {
	if string(key) == raftstore.KeyTerm {
		if v.accepts--; v.accepts < 0 {
			return errDisk
		}
	}
	return v.StableStore.SetUint64(key, n)
}

// TestTermThatCannotBeWritten: the library panics when it cannot write the term
// at its start or at an election. The replica fails instead.
func TestTermThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for i, founded := range []bool{false, true, true} {
		o := options(t, 1)[0]
		o.HeartbeatTimeout, o.ElectionTimeout = 100*time.Millisecond, 100*time.Millisecond
		if founded {
			r := start(t, o)
			lead(t, r)
			stop(t, r)
		}
		c, err := Prepare(o)
		must(t, err)
		must(t, c.Wait(t.Context()))
		s, p, err := c.open()
		must(t, err)
		s.Votes = &fullVotes{s.Votes, i / 2}
		r, err := Start(c.opts, s, p)
		if i == 2 { // one of the start, and none of the election
			must(t, err)
			err = <-r.Failed()
			must(t, r.Close())
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("case %d fails with %v", i, err)
		}
	}
}
