package replica

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/async"
)

// lookAtProgress is how often Answers looks whether a snapshot gets on.
const lookAtProgress = time.Second

// Answers returns nil when the library's main loop has taken a question and
// answered it: the loop that writes the log, votes and follows. Where it hangs,
// as on a disk that does, Answers waits until ctx ends. A snapshot, which keeps
// the loop for as long as it is received and restored, is none of that while
// bytes of it arrive.
func (r *Replica) Answers(ctx context.Context) error {
	before := r.progress.Load()
	answered := async.Err(func() error { return r.raft.VerifyLeader().Error() })
	tick := time.NewTicker(lookAtProgress)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			if errors.Is(err, raft.ErrRaftShutdown) {
				return err
			}
			return nil // "not the leader" is an answer, too
		case <-tick.C:
			if r.progress.Load() != before {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// progressing counts what is written to snapshots and read from them.
type progressing struct {
	raft.SnapshotStore
	count *atomic.Uint64
}

func (p progressing) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := p.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	return countedSink{sink, p.count}, nil
}

func (p progressing) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, body, err := p.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, countedBody{body, p.count}, nil
}

type countedSink struct {
	raft.SnapshotSink
	count *atomic.Uint64
}

func (s countedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.count.Add(uint64(n))
	return n, err
}

type countedBody struct {
	io.ReadCloser
	count *atomic.Uint64
}

func (s countedBody) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.count.Add(uint64(n))
	return n, err
}
