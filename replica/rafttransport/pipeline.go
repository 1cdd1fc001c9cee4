package rafttransport

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline sends entries without waiting for the answers. It ends with the
// first message that fails or that the follower refuses, for this reason
// (hashicorp/raft #612, open in v1.8.0):
//
//  1. The library stops reading answers at the first failure. It may still send
//     one more message, because its select chooses at random (replication.go,
//     pipelineReplicate).
//  2. That message would wait for ever behind an unread answer.
//  3. Then the follower gets no more entries, a leader that was deposed
//     continues its heartbeats, and the replica cannot be closed.
//
// Here answers behind the first failure are read and dropped, and no further
// message is sent. So a message waits no longer than the answer before it may
// take.
type pipeline struct {
	raft.AppendPipeline
	check    func(*raft.AppendEntriesRequest) error // called before a message is sent
	took     func(raft.AppendFuture)                // called with each answer
	answered chan raft.AppendFuture
	failed   chan struct{} // closed with the first failure
	closed   chan struct{}
	close    func()
}

var errPipelineFailed = errors.New("an earlier message of this pipeline has failed")

func newPipeline(p raft.AppendPipeline, check func(*raft.AppendEntriesRequest) error, took func(raft.AppendFuture)) *pipeline {
	out := &pipeline{
		AppendPipeline: p, check: check, took: took,
		answered: make(chan raft.AppendFuture), failed: make(chan struct{}), closed: make(chan struct{}),
	}
	out.close = sync.OnceFunc(func() { close(out.closed) })
	go out.pass()
	return out
}

// AppendEntries sends entries. It waits while two earlier messages are under
// way.
func (p *pipeline) AppendEntries(q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	select {
	case <-p.failed:
		return nil, errPipelineFailed
	default:
	}
	if err := p.check(q); err != nil {
		return nil, err
	}
	return p.AppendPipeline.AppendEntries(q, a)
}

// Consumer returns the answers in the order of the messages, up to the first
// failure.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answered }

// Close ends the connection.
func (p *pipeline) Close() error {
	p.close()
	return p.AppendPipeline.Close()
}

// pass forwards answers, and drops any behind the first failure.
func (p *pipeline) pass() {
	passing := true
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			passing = passing && p.hand(f)
		case <-p.closed:
			return
		}
	}
}

// hand forwards one answer, and reports whether more follow.
func (p *pipeline) hand(f raft.AppendFuture) bool {
	p.took(f)
	last := hasFailed(f)
	if last {
		close(p.failed)
	}
	select {
	case p.answered <- f:
	case <-p.closed:
	}
	return !last
}

// hasFailed reports whether the library stops reading after this answer.
func hasFailed(f raft.AppendFuture) bool {
	a := f.Response()
	return f.Error() != nil || !a.Success || a.Term > f.Request().Term
}
