package replica

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// snapshotting counts a replica's snapshots and logs failed ones; the library
// logs both only at debug level, and retries. The replica that causes a failure
// counts it. So a follower that refuses a snapshot counts that itself. A
// follower that does not answer at all is not a failure of the snapshot.
type snapshotting struct {
	clock func() time.Duration
	leads func() bool    // whether the replica leads
	bytes *atomic.Uint64 // bytes of snapshots written and read, see Answers

	set      metric.Set
	took     *metric.Histogram // time to write a snapshot, this replica's or the leader's
	failures atomic.Uint64
	last     atomic.Int64 // when one was last finished, in Unix nanoseconds
	// unsent counts the failed attempts, in a row, to read or send a snapshot
	// that a follower needs.
	unsent atomic.Uint64

	unwritten, unread, lost, broken zerolog.Logger // at most one line a minute each
}

func newSnapshotting(l zerolog.Logger, clock func() time.Duration, leads func() bool, bytes *atomic.Uint64) *snapshotting {
	const ms, s = time.Millisecond, time.Second
	few := func() zerolog.Logger { return l.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}) }
	n := &snapshotting{
		clock: clock, leads: leads, bytes: bytes,
		unwritten: few(), unread: few(), lost: few(), broken: few(),
	}
	n.took = n.set.Histogram("stout_snapshot_duration_seconds", "Time to write a snapshot, this replica's own or one that the master sent.",
		10*ms, 50*ms, 100*ms, 500*ms, s, 5*s, 10*s, 30*s, time.Minute, 5*time.Minute, 15*time.Minute)
	n.set.Counter("stout_snapshot_failures_total", "Failed attempts to write, read, send or completely receive a snapshot since this replica was started.", n.failures.Load)
	n.set.Gauge("stout_snapshot_last_success_timestamp_seconds", "When this replica last finished a snapshot since it was started, by Unix time; 0 before.",
		func() float64 { return float64(n.last.Load()/1e6) / 1000 })
	return n
}

// written records a finished snapshot, which can now be sent.
func (s *snapshotting) written(took time.Duration) {
	s.took.Observe(took)
	s.last.Store(time.Now().UnixNano())
	s.unsent.Store(0)
}

func (s *snapshotting) notWritten(err error) {
	if errors.Is(err, raftstore.ErrOvertaken) {
		return
	}
	s.failures.Add(1)
	s.unwritten.Warn().Err(err).Msg("could not write a snapshot: until one succeeds, the log grows, and a replica that lacks its beginning cannot catch up. Check owner and free space of the data directory's snapshots")
}

func (s *snapshotting) notReceived() {
	s.failures.Add(1)
	s.broken.Warn().Msg("a snapshot arrived incomplete: the master retries. Check the network between the replicas")
}

// read records an error that keeps a follower from getting a snapshot. A
// snapshot that the start skips is logged where it is found.
func (s *snapshotting) read(err error) {
	if err == nil || !s.leads() {
		return
	}
	s.failures.Add(1)
	s.unsent.Add(1)
	s.unread.Warn().Err(err).Msg("could not read a snapshot that another replica needs: that replica cannot catch up while this one is the master. Check the data directory's snapshots; stout transfer makes another replica the master, which has its own")
}

// sent records the outcome of sending a snapshot to a follower that answers.
func (s *snapshotting) sent(to raft.ServerID, err error) {
	switch {
	case err == nil:
		s.unsent.Store(0)
	case rafttransport.IsBroken(err):
		s.failures.Add(1)
		s.unsent.Add(1)
		s.lost.Warn().Err(err).Str("peer", string(to)).Msg("could not send a snapshot to a replica that needs it: that replica cannot catch up. Check the network between the two, and that replica's log; stout transfer makes another replica the master")
	}
}

// snapshotStore is the store that the library uses.
type snapshotStore struct {
	raft.SnapshotStore
	of *snapshotting
}

func (s snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	began := s.of.clock()
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		s.of.notWritten(err)
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, of: s.of, began: began}, nil
}

// List returns the snapshots. The library calls it before it sends one, and
// when it starts.
func (s snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	metas, err := s.SnapshotStore.List()
	if len(metas) == 0 && err == nil && s.of.leads() {
		err = errors.New("no snapshot exists")
	}
	s.of.read(err)
	return metas, err
}

func (s snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, body, err := s.SnapshotStore.Open(id)
	s.of.read(err)
	if err != nil {
		return nil, nil, err
	}
	return meta, snapshotBody{body, s.of}, nil
}

type snapshotSink struct {
	raft.SnapshotSink
	of    *snapshotting
	began time.Duration
	err   error // of a failed write
	ended bool  // the library may end a snapshot twice
}

func (s *snapshotSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.of.bytes.Add(uint64(n))
	s.err = errors.Join(s.err, err)
	return n, err
}

func (s *snapshotSink) Close() error {
	err := s.SnapshotSink.Close()
	if s.ended {
		return err
	}
	s.ended = true
	if err != nil {
		s.of.notWritten(err)
	} else {
		s.of.written(s.of.clock() - s.began)
	}
	return err
}

func (s *snapshotSink) Cancel() error {
	if !s.ended {
		s.ended = true
		if s.err != nil {
			s.of.notWritten(s.err)
		} else {
			s.of.notReceived()
		}
	}
	return s.SnapshotSink.Cancel()
}

type snapshotBody struct {
	io.ReadCloser
	of *snapshotting
}

func (s snapshotBody) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.of.bytes.Add(uint64(n))
	if err != nil && err != io.EOF {
		s.of.read(err)
		err = errors.New("read the snapshot: " + err.Error()) // an error of the disk must not look like one of the network
	}
	return n, err
}
