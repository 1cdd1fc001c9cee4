package rafttransport

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// retrying keeps a leader from giving up on a follower that is down. Each
// message that fails makes the library wait twice as long before the next, up
// to 10 s; heartbeats continue. A replica that has come back would get
// heartbeats at once, but no entries for up to 10 s.
//
// Here a failed message is reported as failed once the follower has answered a
// heartbeat, or after longestWait. Then a retry is worthwhile, and the failures
// stay few.
type retrying struct {
	Wire
	leading func() bool // see Options

	mu      sync.Mutex                      // guards waiting
	waiting map[raft.ServerID]chan struct{} // closed at the next answer to a heartbeat
}

// Bounds of the wait for an answer. Leadership may end during it.
const (
	longestWait = 10 * time.Second
	waitPace    = 100 * time.Millisecond
)

// AppendEntries sends entries or a heartbeat.
func (p *retrying) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := p.Wire.AppendEntries(id, target, args, resp)
	heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0
	switch {
	case heartbeat && err == nil:
		p.answered(id)
	case !heartbeat && err != nil:
		p.wait(id)
	}
	return err
}

func (p *retrying) answered(id raft.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.waiting[id]; answer != nil {
		close(answer)
		delete(p.waiting, id)
	}
}

func (p *retrying) wait(id raft.ServerID) {
	p.mu.Lock()
	answer := p.waiting[id]
	if answer == nil {
		if p.waiting == nil {
			p.waiting = map[raft.ServerID]chan struct{}{}
		}
		answer = make(chan struct{})
		p.waiting[id] = answer
	}
	p.mu.Unlock()
	pace := time.NewTicker(waitPace)
	defer pace.Stop()
	for end := time.Now().Add(longestWait); p.leading() && time.Now().Before(end); {
		select {
		case <-answer:
			return
		case <-pace.C:
		}
	}
}
