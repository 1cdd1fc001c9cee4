package replica

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/replica/raftstore"
)

// faultySnapshots is a store with steps that fail on demand.
type faultySnapshots struct {
	none                              bool
	create, list, open, write, finish error
}

func (s *faultySnapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return faultySink{s}, s.create
}

func (s *faultySnapshots) List() ([]*raft.SnapshotMeta, error) {
	if s.none || s.list != nil {
		return nil, s.list
	}
	return []*raft.SnapshotMeta{{ID: "one"}}, nil
}

func (s *faultySnapshots) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return &raft.SnapshotMeta{}, io.NopCloser(strings.NewReader("state")), s.open
}

type faultySink struct{ of *faultySnapshots }

func (s faultySink) ID() string                  { return "one" }
func (s faultySink) Write(b []byte) (int, error) { return len(b), s.of.write }
func (s faultySink) Close() error                { return s.of.finish }
func (s faultySink) Cancel() error               { return nil }

// TestSnapshotsThatFailAreReported: each failure is logged and counted once for
// an attempt; results that are not failures are not.
func TestSnapshotsThatFailAreReported(t *testing.T) {
	t.Parallel()
	refused := &fs.PathError{Op: "mkdir", Path: "snapshots", Err: syscall.EACCES}
	// write stores an own snapshot as the library does, receive one that
	// arrives.
	write := func(s raft.SnapshotStore, _ *snapshotting) {
		sink, err := s.Create(1, 1, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			return
		}
		if _, err := sink.Write([]byte("state")); err != nil {
			_ = sink.Cancel()
			_ = sink.Cancel()
			return
		}
		_ = sink.Close()
		_ = sink.Close()
	}
	receive := func(s raft.SnapshotStore, _ *snapshotting) {
		if sink, err := s.Create(1, 1, 1, raft.Configuration{}, 1, nil); err == nil {
			_ = sink.Cancel()
		}
	}
	send := func(s raft.SnapshotStore, _ *snapshotting) {
		if _, err := s.List(); err != nil {
			return
		}
		if _, body, err := s.Open("one"); err == nil {
			_, _ = io.ReadAll(body)
		}
	}
	sent := func(err error) func(raft.SnapshotStore, *snapshotting) {
		return func(_ raft.SnapshotStore, s *snapshotting) { s.sent("r2/x", err) }
	}
	for _, c := range []struct {
		name             string
		store            faultySnapshots
		do               func(raft.SnapshotStore, *snapshotting)
		failures, unsent uint64
		line             string
	}{
		{"all is well", faultySnapshots{}, write, 0, 0, ""},
		{"no place for one", faultySnapshots{create: refused}, write, 1, 0, "could not write a snapshot"},
		{"a disk that refuses a write", faultySnapshots{write: refused}, write, 1, 0, "could not write a snapshot"},
		{"a disk that refuses the last write", faultySnapshots{finish: refused}, write, 1, 0, "could not write a snapshot"},
		{"one that was overtaken", faultySnapshots{create: raftstore.ErrOvertaken}, write, 0, 0, ""},
		{"one that is overtaken", faultySnapshots{finish: errors.Join(raftstore.ErrOvertaken)}, write, 0, 0, ""},
		{"one that is broken off", faultySnapshots{}, receive, 1, 0, "arrived incomplete"},
		{"one is sent", faultySnapshots{}, send, 0, 0, ""},
		{"no directory", faultySnapshots{list: refused}, send, 1, 1, "could not read a snapshot"},
		{"an empty one", faultySnapshots{none: true}, send, 1, 1, "could not read a snapshot"},
		{"one that is damaged", faultySnapshots{open: refused}, send, 1, 1, "could not read a snapshot"},
		{"it arrived", faultySnapshots{}, sent(nil), 0, 0, ""},
		{"a network that takes no large packets", faultySnapshots{}, sent(&net.OpError{Err: os.ErrDeadlineExceeded}), 1, 1, "could not send a snapshot"},
		{"a connection that ends", faultySnapshots{}, sent(io.ErrUnexpectedEOF), 1, 1, "could not send a snapshot"},
		{"a follower that refuses it", faultySnapshots{}, sent(errors.New("failed to create snapshot")), 0, 0, ""},
	} {
		var lines bytes.Buffer
		counted := newSnapshotting(zerolog.New(&lines), boottime.Now, func() bool { return true }, new(atomic.Uint64))
		for range 3 {
			c.do(snapshotStore{&c.store, counted}, counted)
		}
		if got, unsent := counted.failures.Load(), counted.unsent.Load(); got != 3*c.failures || unsent != 3*c.unsent {
			t.Errorf("%s: %d failures, %d in a row to send it, want 3 times %d and %d", c.name, got, unsent, c.failures, c.unsent)
		}
		if n := strings.Count(lines.String(), "\n"); n != min(1, len(c.line)) || !strings.Contains(lines.String(), c.line) {
			t.Errorf("%s: want one line with %q, got %q", c.name, c.line, lines.String())
		}
	}
}

// TestSnapshotOfALeaderWithoutADirectory: a follower that was away needs a
// snapshot, and the leader's directory is gone. The leader reports it, and the
// next leader fills the follower.
func TestSnapshotOfALeaderWithoutADirectory(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	all := startAll(t, opts...)
	old, epoch := lead(t, all...)
	late := without(all, old)[0]
	stop(t, late)
	for i := range 3 {
		write(t, old, epoch, string(rune('a'+i)), 50)
	}
	until(t, "a snapshot", func() bool { return old.snapshots.last.Load() != 0 })
	for _, o := range opts {
		if o.ID == old.opts.ID {
			must(t, os.RemoveAll(o.DataDir+"/snapshots"))
		}
	}
	var again *Replica
	for _, o := range opts {
		if o.ID == late.opts.ID {
			again = start(t, o)
		}
	}
	until(t, "failures at the leader", func() bool { return old.snapshots.unsent.Load() > 2 })
	if n := again.snapshots.failures.Load(); n > 0 {
		t.Errorf("the follower counts %d failures of the leader's", n)
	}
	must(t, old.Transfer(t.Context(), ""))
	next, _ := lead(t, without(without(all, old), late)...)
	same(t, next, next, again)
	if v := again.Metrics().Value("stout_snapshot_last_success_timestamp_seconds"); time.Since(time.UnixMilli(int64(v*1000))) > time.Hour || again.snapshots.took.Snapshot().Count == 0 {
		t.Errorf("the follower has a snapshot, and shows %+v", v)
	}
}
