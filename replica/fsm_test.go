package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

func newTestFSM(now *time.Duration, failed *error) *fsm {
	f := &fsm{waitCommitted: func(_, _ uint64) error { return nil }, promises: lease.NewPromises(0), clock: func() time.Duration { return *now }, fail: func(err error) { *failed = err }}
	f.current.Store(state.New())
	f.publisher = publisher{leads: func(uint64) bool { return true }, events: events.New(100, 1<<20, 0)}
	f.sums = newChecksums(f.clock, func(own, told Checksum) { *failed = fmt.Errorf("own %v, told %v", own, told) })
	return f
}

func logEntry(t *testing.T, index uint64, b state.Batch) *raft.Log {
	t.Helper()
	data, err := b.Encode()
	must(t, err)
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

// twoEntries open an office and two sessions.
func twoEntries(t *testing.T) []*raft.Log {
	return []*raft.Log{
		logEntry(t, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}}}),
		logEntry(t, 2, state.Batch{Epoch: 1, LeaseMS: 1000, Commands: []state.Command{open("a"), open("b")}}),
	}
}

// TestUnknownVersionStopsTheReplica: no entry behind it is applied.
func TestUnknownVersionStopsTheReplica(t *testing.T) {
	t.Parallel()
	var failed error
	f := newTestFSM(new(time.Duration), &failed)
	logs := twoEntries(t)
	if out, ok := f.Apply(logs[0]).(*state.Outcome); !ok || !out.Accepted || failed != nil {
		t.Fatal(out, failed)
	}
	strange := &raft.Log{Index: 2, Term: 1, Type: raft.LogCommand, Data: append([]byte{99}, logs[1].Data[1:]...)}
	if err, ok := f.Apply(strange).(error); !ok || !errors.Is(err, state.ErrVersion) {
		t.Errorf("answer %v, want %v", err, state.ErrVersion)
	}
	if !errors.Is(failed, state.ErrVersion) {
		t.Errorf("the replica fails with %v", failed)
	}
	if _, ok := f.Apply(logs[1]).(error); !ok || f.current.Load().Index != 1 {
		t.Errorf("an entry behind it was applied: index %d", f.current.Load().Index)
	}
}

// memSink is a snapshot in memory.
type memSink struct {
	bytes.Buffer
	cancelled bool
}

func (*memSink) ID() string      { return "test" }
func (*memSink) Close() error    { return nil }
func (s *memSink) Cancel() error { s.cancelled = true; return nil }

func TestSnapshotRestore(t *testing.T) {
	t.Parallel()
	now, failed := time.Minute, error(nil)
	f := newTestFSM(&now, &failed)
	for _, l := range twoEntries(t) {
		f.Apply(l)
	}
	snap, err := f.Snapshot()
	must(t, err)
	f.Apply(logEntry(t, 3, state.Batch{Epoch: 1, LeaseMS: 1000, Commands: []state.Command{open("c")}})) // during Persist
	var file memSink
	must(t, snap.Persist(&file))
	snap.Release()
	other := newTestFSM(&now, &failed)
	raw := bytes.Clone(file.Bytes())
	must(t, other.Restore(io.NopCloser(&file.Buffer)))
	if s := other.current.Load(); s.SessionCount() != 2 || s.Index != 2 || s.Office.Master != "r1" {
		t.Errorf("restored %d sessions at index %d", s.SessionCount(), s.Index)
	}
	if r := other.promises.Before(9); r != now {
		t.Errorf("a restore at %v promises from %v", now, r)
	}
	again, _ := other.Snapshot()
	var second memSink
	if err := again.Persist(&second); err != nil || !bytes.Equal(second.Bytes(), raw) {
		t.Errorf("restored and saved again: other bytes (%v)", err)
	}
}

// TestDamagedSnapshotChangesNothing: the replica also uses no other snapshot
// instead, because the log need not reach back to it.
func TestDamagedSnapshotChangesNothing(t *testing.T) {
	t.Parallel()
	now, failed := time.Minute, error(nil)
	f := newTestFSM(&now, &failed)
	f.Apply(twoEntries(t)[0])
	before := f.current.Load()
	var earlier bytes.Buffer
	must(t, before.Snapshot(&earlier))
	if err := f.Restore(io.NopCloser(bytes.NewReader([]byte("stout-state\x63...")))); err == nil || failed == nil {
		t.Error("restored from a snapshot of an unknown version")
	}
	if err := f.Restore(io.NopCloser(&earlier)); err == nil {
		t.Error("restored from the snapshot before it")
	}
	if f.current.Load() != before {
		t.Error("the state was replaced")
	}
}

// TestEventsAreWhatWasApplied: the ring has the changes of each entry. It
// starts anew behind a restored state: earlier events are compacted, not lost.
func TestEventsAreWhatWasApplied(t *testing.T) {
	t.Parallel()
	var now time.Duration
	var failed error
	f := newTestFSM(&now, &failed)
	for _, l := range twoEntries(t) {
		f.Apply(l)
	}
	if got, upTo, err := f.publisher.events.Read(0, events.Filter{}, 10); err != nil || len(got) != 1 || got[0].Type != events.MasterChanged || upTo != 1 {
		t.Fatalf("%v up to %d, %v", got, upTo, err)
	}
	var snapshot bytes.Buffer
	must(t, f.current.Load().Snapshot(&snapshot))
	must(t, f.Restore(io.NopCloser(&snapshot)))
	var gone *events.Compacted
	if _, _, err := f.publisher.events.Read(0, events.Filter{}, 10); !errors.As(err, &gone) || gone.Oldest != 1 {
		t.Errorf("before the restore: %v", err)
	}
}
