package rafttransport

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/membership"
)

// TestLargestMessagesArrive: the largest message to a follower arrives over a slow
// link, by itself and in a pipeline. The library would break it off, and send it
// again and again. A follower that does not answer is still noticed.
func TestLargestMessagesArrive(t *testing.T) {
	q := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: 1, PrevLogEntry: 1}
	for i := range MaxAppendEntries {
		q.Entries = append(q.Entries, &raft.Log{Index: uint64(2 + i), Data: make([]byte, membership.MaxEntryBytes)})
	}
	for answers, messages := range map[bool]int{true: 3, false: 1} { // a second one would wait for the answer to the first
		synctest.Test(t, func(t *testing.T) {
			in, from := slowLink{conns: make(chan net.Conn), closed: make(chan struct{})}, slowLink{closed: make(chan struct{})}
			to := Network{Listener: in, Advertised: "r2:1", Logger: zerolog.Nop()}.Wire()
			leader := Network{
				Listener: from, Advertised: "r1:1", Logger: zerolog.Nop(), At: func(string) (string, bool) { return "", false },
				Dial: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					in.conns <- there
					return slowConn{here}, nil
				},
			}.Wire()
			quit := make(chan struct{})
			go func() {
				for {
					select {
					case m := <-to.Consumer():
						if answers {
							m.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
						}
					case <-quit:
						return
					}
				}
			}()
			began := time.Now()
			if err := leader.AppendEntries("r2/a", "r2/a@r2:1", q, &raft.AppendEntriesResponse{}); (err == nil) != answers {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			p, err := leader.AppendEntriesPipeline("r2/a", "r2/a@r2:1")
			must(t, err)
			go func() {
				for range messages {
					if _, err := p.AppendEntries(q, &raft.AppendEntriesResponse{}); err != nil {
						t.Error(err)
					}
				}
			}()
			for range messages {
				if f := <-p.Consumer(); (f.Error() == nil) != answers {
					t.Errorf("in a pipeline: %v", f.Error())
				}
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("it took %v", took)
			}
			close(quit)
			must(t, p.Close())
			must(t, leader.Close())
			must(t, to.Close())
			synctest.Wait()
		})
	}
}

// slowLink is a listener of connections in memory.
type slowLink struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l slowLink) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l slowLink) Close() error   { close(l.closed); return nil }
func (l slowLink) Addr() net.Addr { return address("r2:1") }

// slowConn takes 3 Mbit/s.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		time.Sleep(10 * time.Millisecond)
		var m int
		m, err = c.Conn.Write(p[n:min(len(p), n+3750)])
		n += m
	}
	return n, err
}
