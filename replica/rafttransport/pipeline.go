package rafttransport

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline is a way to send entries without waiting for the answers. It ends
// with the first message that the follower refuses or that fails: the library
// stops to read answers then, and may send one message more all the same, which
// of two things its select takes being a matter of luck (replication.go,
// pipelineReplicate). That one would wait for ever behind an answer that nobody
// reads. The follower would be sent nothing more, a leader that was deposed
// would go on with its heartbeats, and the replica could not be closed
// (hashicorp/raft #612, open in v1.8.0).
//
// Here what comes behind the first failure is read and dropped, and nothing
// more is sent, so that a message waits no longer than the answer before it may
// take.
type pipeline struct {
	raft.AppendPipeline
	check    func(*raft.AppendEntriesRequest) error // before a message leaves
	took     func(raft.AppendFuture)                // is given each answer
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

// AppendEntries sends entries. It waits while two earlier messages are on their
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

// Consumer has the answers in the order of the messages, up to the first
// failure.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answered }

// Close ends the connection.
func (p *pipeline) Close() error {
	p.close()
	return p.AppendPipeline.Close()
}

// pass hands answers on, and drops what comes behind the first failure.
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

// hand hands one answer on, and reports whether more are to follow.
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

// hasFailed reports whether the library stops to read with this answer.
func hasFailed(f raft.AppendFuture) bool {
	a := f.Response()
	return f.Error() != nil || !a.Success || a.Term > f.Request().Term
}
