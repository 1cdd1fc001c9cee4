package replica

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/throttle"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/state"
)

// fsm passes Raft's committed entries to the pure state machine and publishes
// each new state.
type fsm struct {
	current   atomic.Pointer[state.State]
	publisher publisher // of what was applied here
	promises  *lease.Promises
	clock     func() time.Duration
	fail      func(error)
	leave     func() // ends the goroutine that restores an unreadable snapshot; nil in tests
	// waitCommitted waits until an entry that the library considers committed
	// really is.
	waitCommitted func(index, term uint64) error
	step          *progress.Step // the step of applying an entry; nil in tests
	sums          *checksums
	took          *metric.Histogram
	// landed returns when an entry that this replica proposed was submitted to
	// its disk, and when it was written (0 before that). followers and applied
	// are stages of such an entry. All are nil in tests.
	landed             func(index, term uint64) (left, arrived time.Duration, own bool)
	followers, applied *metric.Histogram
	restored           atomic.Bool // a snapshot was restored and its configuration not read yet
	// configured receives each committed configuration; may be nil.
	configured func(index uint64, c raft.Configuration)
	broken     bool // an entry or a snapshot could not be read; only the library's FSM goroutine uses it
}

var errFailed = errors.New("the replica has failed")

// Apply applies one entry and returns its *state.Outcome, or an error when the
// entry cannot be read. After such an error the replica fails and applies no
// more entries, because its state would differ from its peers'.
func (f *fsm) Apply(l *raft.Log) any {
	if f.broken {
		return fmt.Errorf("log entry %d: %w", l.Index, errFailed)
	}
	batch, err := state.DecodeBatch(l.Data)
	if err == nil {
		err = f.waitCommitted(l.Index, l.Term)
	}
	if err != nil {
		f.broken = true
		err = fmt.Errorf("log entry %d: %w", l.Index, err)
		f.fail(err)
		return err
	}
	f.step.Begin()
	defer f.step.End()
	faultpoint.Hit(faultpoint.Apply)
	began := f.clock()
	next, out := f.current.Load().Apply(l.Index, l.Term, batch)
	f.current.Store(next)
	f.publisher.append(l.Index, out.Changes, next)
	f.timed(l, &out, began, f.clock())
	f.sums.note(next, &out)
	return &out
}

// timed records how long an entry took to apply. If this replica proposed the
// entry and it was accepted, the entry also proves how fresh the state is.
func (f *fsm) timed(l *raft.Log, out *state.Outcome, began, ended time.Duration) {
	f.took.Observe(ended - began)
	if f.landed == nil {
		return
	}
	if left, arrived, own := f.landed(l.Index, l.Term); own {
		f.followers.Observe(max(0, began-cmp.Or(arrived, began)))
		f.applied.Observe(ended - began)
		if out.Accepted {
			f.publisher.proposed(left)
		}
	}
}

// StoreConfiguration receives each committed configuration, in the log's order.
// It also makes a snapshot possible right after a change of membership
// (hashicorp/raft #617).
func (f *fsm) StoreConfiguration(index uint64, c raft.Configuration) {
	if f.configured != nil {
		f.configured(index, c)
	}
	if !f.broken {
		f.publisher.append(index, nil, f.current.Load())
	}
}

// Snapshot returns the current state without a copy, because states are
// immutable. On a failed replica it returns an error: the library would store
// the snapshot under an index that the state has not reached.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.broken {
		return nil, errFailed
	}
	return snapshot{f.current.Load()}, nil
}

// Restore replaces the state. The snapshot may stand for batches of any term,
// so the promise is recorded before Raft continues.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	if f.broken {
		return errFailed
	}
	s, err := state.Restore(r)
	if err != nil {
		// Otherwise the library would continue without it and retry for ever.
		// At the start it would use the snapshot before it, to which the log
		// may not reach back.
		f.broken = true
		err = fmt.Errorf("restore a snapshot: %w", err)
		f.fail(err)
		if f.leave != nil { // the library would panic on the error
			f.leave()
		}
		return err
	}
	f.restored.Store(true) // before the state is visible, see Replica.Info
	f.current.Store(s)
	f.publisher.restored(s)
	f.promises.Restored(f.clock())
	return nil
}

type snapshot struct{ state *state.State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.state.Snapshot(throttle.NewWriter(sink)); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

func (snapshot) Release() {}
