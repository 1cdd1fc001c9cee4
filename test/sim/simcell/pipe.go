package simcell

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// pipe is a connection on which a leader sends entries without waiting for the
// answers. Like the library's netPipeline it has two messages in flight; one
// more waits until the first is answered. An answer that is late or unreadable
// breaks the connection; an error sent by the other end does not. Below it is a
// stream: messages arrive in order, perhaps very late, even after the sender
// has closed the connection, or the stream ends.
type pipe struct {
	t         *wire
	to        raft.ServerID
	receiver  *process
	sent      chan *flight // the sender's end of the stream
	answers   chan answered
	unread    chan *flight // for read, which netPipeline calls "in progress"
	done      chan raft.AppendFuture
	closed    chan struct{}
	broken    chan struct{} // sending and reading have ended; also when closed
	breakOnce sync.Once
	closeOnce sync.Once
}

// flight is one message on a pipe.
type flight struct {
	q     *raft.AppendEntriesRequest
	a     *raft.AppendEntriesResponse
	began time.Time
	at    time.Duration // time of sending
	got   chan raft.RPCResponse
	err   error
}

func (f *flight) Error() error                          { return f.err }
func (f *flight) Start() time.Time                      { return f.began }
func (f *flight) Request() *raft.AppendEntriesRequest   { return f.q }
func (f *flight) Response() *raft.AppendEntriesResponse { return f.a }

// answered is a message with its answer.
type answered struct {
	f  *flight
	r  raft.RPCResponse
	at time.Duration // time of the answer
}

// socket is the number of messages that a connection takes before the sender
// waits: far more than are ever in flight.
const socket = 16

// readWithin is far more than the time-out of the previous answer, the pauses
// of a process and the stalls of its goroutines together. Even so the library
// can stop reading and send one more message (hashicorp/raft #612). Then it
// sends that follower only heartbeats of that term, for ever.
const readWithin = 30 * time.Second

// AppendEntriesPipeline opens a pipe to a replica.
func (t *wire) AppendEntriesPipeline(id raft.ServerID, _ raft.ServerAddress) (raft.AppendPipeline, error) {
	if !t.p.m.w.profile.pipelines {
		return nil, raft.ErrPipelineReplicationNotSupported
	}
	t.p.point()
	name, _ := admission.Split(string(id))
	receiver, err := t.dial(name)
	if err != nil {
		return nil, err
	}
	if !receiver.opens(t.p, string(id)) {
		return nil, errOther
	}
	p := &pipe{
		t: t, to: id, receiver: receiver, sent: make(chan *flight, socket), answers: make(chan answered, socket),
		unread: make(chan *flight), done: make(chan raft.AppendFuture),
		closed: make(chan struct{}), broken: make(chan struct{}),
	}
	go p.deliver()
	go p.bring()
	go p.read()
	return p, nil
}

// AppendEntries sends a message, and waits until at most one is in flight
// before it.
func (p *pipe) AppendEntries(q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.t.p.point()
	if p.isBroken() || p.t.p.dead() {
		return nil, errReset
	}
	w := p.t.p.m.w
	f := &flight{q: q, a: a, began: time.Now(), at: w.now(), got: make(chan raft.RPCResponse, 1)}
	w.stats.Pipelined++
	p.sent <- f
	repeat(p.t, p.to, *q, nil)
	stuck := time.NewTimer(readWithin)
	defer stuck.Stop()
	select {
	case p.unread <- f:
		return f, nil
	case <-stuck.C:
		w.fail("%s has sent a message to %s, and the previous answer has not been read for %v", p.t.p.m.id, p.receiver.m.id, readWithin)
		return nil, errTimeout
	case <-p.closed:
		return nil, raft.ErrPipelineShutdown
	case <-p.t.p.gone.Done():
		return nil, errReset
	}
}

func (p *pipe) Consumer() <-chan raft.AppendFuture { return p.done }

func (p *pipe) Close() error {
	p.fault()
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

// fault breaks the connection for the sender. Messages on their way still
// arrive.
func (p *pipe) fault() { p.breakOnce.Do(func() { close(p.broken) }) }

func (p *pipe) isBroken() bool {
	select {
	case <-p.broken:
		return true
	default:
		return false
	}
}

// deliver takes messages to the receiver, which handles one after the other.
func (p *pipe) deliver() {
	defer close(p.answers)
	w, from, to := p.t.p.m.w, p.t.p.m.id, p.receiver.m.id
	for f := p.next(); f != nil; f = p.next() {
		w.stats.Messages++
		if !w.net.conveys(from, to, f.at) {
			return
		}
		w.trace.mark(to, f.q.PrevLogEntry)
		w.oracle.look()
		q, got := *f.q, make(chan raft.RPCResponse, 1)
		if !p.receiver.believes(p.t.p) || !p.receiver.wire.receive(raft.RPC{Command: &q, RespChan: got}) {
			p.hangUp()
			return
		}
		select {
		case r := <-got:
			w.oracle.look()
			p.answers <- answered{f, r, w.now()}
		case <-p.receiver.gone.Done():
			p.hangUp()
			return
		}
	}
}

// next returns the next message of the stream. It returns nil if the sender has
// died, or after the last message of a closed connection.
func (p *pipe) next() *flight {
	select {
	case f := <-p.sent:
		return f
	default:
	}
	select {
	case f := <-p.sent:
		return f
	case <-p.broken:
	case <-p.t.p.gone.Done():
	}
	return nil
}

// hangUp is called when the receiver has died. The sender may learn of it at
// once, if the receiver's machine is up, or by waiting.
func (p *pipe) hangUp() {
	w := p.t.p.m.w
	if w.chance(2) && w.net.arrives(p.receiver.m.id, p.t.p.m.id) {
		p.fault()
	}
}

// bring returns the answers.
func (p *pipe) bring() {
	w, from, to := p.t.p.m.w, p.receiver.m.id, p.t.p.m.id
	lost := false
	for a := range p.answers {
		if lost = lost || !w.net.conveys(from, to, a.at); !lost {
			a.f.got <- a.r
		}
	}
}

// read waits for the answers, in the order of the messages.
func (p *pipe) read() {
	for {
		select {
		case f := <-p.unread:
			if f.err = p.answer(f); f.err != nil {
				p.t.p.m.w.trace.note(p.t.p.m.id, "notices a failure of the pipe to %s: %v", p.receiver.m.id, f.err)
			}
			p.t.p.point()
			select {
			case p.done <- f:
			case <-p.closed:
				return
			case <-p.t.p.gone.Done():
				return
			}
		case <-p.closed:
			return
		case <-p.t.p.gone.Done():
			return
		}
	}
}

// answer waits for the answer to a message.
func (p *pipe) answer(f *flight) error {
	timeout := time.NewTimer(wireTimeout)
	defer timeout.Stop()
	select {
	case r := <-f.got:
		if r.Error == nil {
			*f.a = *r.Response.(*raft.AppendEntriesResponse)
		}
		return r.Error
	case <-timeout.C:
		p.fault()
		return errTimeout
	case <-p.broken:
	case <-p.t.p.gone.Done():
	}
	return errReset
}
