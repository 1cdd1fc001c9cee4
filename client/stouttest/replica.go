package stouttest

import (
	"context"
	"net"
	"sync"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// replica is one process of the cell, while it runs.
type replica struct {
	c    *Cell
	node *memlog.Node

	mu     sync.Mutex // guards what follows
	master *master.Master
	server *server.Server
	calls  *listener     // of the other replicas
	served chan struct{} // closed when the server has stopped
}

func (r *replica) begin() {
	id, log := r.node.ID(), r.c.logger(r.node.ID())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.master = master.New(r.node, r.node, master.Options{
		Cell: "test", ID: id, Version: "stouttest", LeaseTerm: r.c.opts.LeaseTerm, Drift: drift, Clock: r.node.Clock, Logger: log,
	})
	api := r.c.net.listen(id)
	r.calls = r.c.net.listen(peerPort(id))
	r.server = server.New(server.Options{Master: r.master, Links: links{r, r.calls}, Logger: log, Clock: r.node.Clock, Drift: drift, ContactEvery: contactEvery})
	served, s := make(chan struct{}), r.server
	r.served = served
	go func() {
		defer close(served)
		_ = s.Serve(api)
	}()
}

// end ends the process at once, without a handover.
func (r *replica) end() {
	r.mu.Lock()
	m, s, served := r.master, r.server, r.served
	r.master, r.server = nil, nil
	r.mu.Unlock()
	if m == nil {
		return
	}
	r.c.net.unplug(r.node.ID())
	r.c.net.unplug(peerPort(r.node.ID()))
	r.c.log.Cut(r.node, true)
	r.c.log.Depose(r.node)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(over)
	_ = m.Close(over)
	<-served
}

// running returns the process's master, or nil if the process does not run.
func (r *replica) running() *master.Master {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.master
}

// links are a replica's connections to the others.
type links struct {
	r     *replica
	calls *listener
}

func peerPort(id string) string { return id + ":peers" }

func (l links) Calls() net.Listener { return l.calls }
func (l links) Proven() bool        { return true }

// Each replica is a member while the cell runs.
func (links) Caller(net.Conn) string { return "" }
func (links) Member(string) error    { return nil }

func (l links) DialCall(ctx context.Context, id string) (net.Conn, error) {
	return l.r.c.net.dial(ctx, peerPort(l.r.node.ID()), peerPort(id))
}
