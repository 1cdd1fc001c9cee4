package rafttransport

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestPipelineEndsWithItsFirstFailure: a message sent after the library has
// stopped reading answers does not wait for ever (hashicorp/raft issue 612).
// The pipeline is the library's own, over a connection in memory.
func TestPipelineEndsWithItsFirstFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		ends func(raft.RPC) // the answer that ends it
	}{
		{"refused", func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 3, Success: false}, nil) }},
		{"refused with an error", func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{}, errors.New("no")) }},
		{"a later term", func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 4, Success: true}, nil) }},
		{"no answer in time", func(raft.RPC) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipelineTo(t, c.ends)
				first := <-send(p)
				<-send(p) // it is on its way when the first one fails
				if got := <-p.Consumer(); got != first {
					t.Errorf("got the answer to %v, want to %v", got.Request(), first.Request())
				}
				// The library reads no more. It may still send once or twice.
				began := time.Now()
				<-send(p)
				<-send(p)
				if took := time.Since(began); took > 2*Timeout {
					t.Errorf("two messages wait %v for what nobody reads", took)
				}
			})
		})
	}
}

// TestPipelineHandsAnswersOn: in order, and no faster than they are read.
func TestPipelineHandsAnswersOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipelineTo(t, func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 3, Success: true}, nil) })
		var sent []raft.AppendFuture
		for range 2 {
			sent = append(sent, <-send(p))
		}
		late := send(p)
		synctest.Wait()
		select {
		case <-late:
			t.Error("a third message does not wait, and nobody has read an answer")
		default:
		}
		for _, f := range sent {
			if got := <-p.Consumer(); got != f {
				t.Errorf("got the answer to %v, want to %v", got.Request(), f.Request())
			}
		}
		if got, f := <-p.Consumer(), <-late; got != f {
			t.Errorf("got the answer to %v, want to %v", got.Request(), f.Request())
		}
	})
}

// send sends a message. It delivers the result once the message is under way,
// nil if it was not sent.
func send(p raft.AppendPipeline) <-chan raft.AppendFuture {
	out := make(chan raft.AppendFuture, 1)
	go func() {
		f, _ := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3}, &raft.AppendEntriesResponse{})
		out <- f
	}()
	return out
}

// pipelineTo returns a pipeline to a replica with the given answers.
func pipelineTo(t *testing.T, answers func(raft.RPC)) raft.AppendPipeline {
	t.Helper()
	line := &lineInMemory{dialled: make(chan net.Conn), done: make(chan struct{})}
	ends := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: line, Logger: hclog.NewNullLogger(), MaxPool: pool, Timeout: Timeout,
	})
	go func() {
		for {
			select {
			case rpc := <-ends.Consumer():
				answers(rpc)
			case <-line.done:
				return
			}
		}
	}()
	all := sending()
	all.Wire = ends
	p, err := all.AppendEntriesPipeline("r2", "r2")
	must(t, err)
	t.Cleanup(func() {
		must(t, p.Close())
		must(t, ends.Close())
	})
	return p
}

// lineInMemory is a stream from a replica to itself.
type lineInMemory struct {
	dialled chan net.Conn
	done    chan struct{}
}

func (s *lineInMemory) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	near, far := net.Pipe()
	s.dialled <- far
	return near, nil
}

func (s *lineInMemory) Accept() (net.Conn, error) {
	select {
	case c := <-s.dialled:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *lineInMemory) Close() error   { close(s.done); return nil }
func (s *lineInMemory) Addr() net.Addr { return address("memory") }
