package server

import (
	"net"
	"net/http"
	"sync"
)

// fresh holds the connections on which no request has begun yet. For up to five
// seconds http.Server.Shutdown takes such a connection for one whose request is
// about to come, and every http.Transport dials some that it never uses, so
// without this most shutdowns would take five seconds longer.
type fresh struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// note is the server's ConnState hook.
func (f *fresh) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(f.conns, c)
	case f.closed:
		_ = c.Close()
	default:
		if f.conns == nil {
			f.conns = map[net.Conn]struct{}{}
		}
		f.conns[c] = struct{}{}
	}
}

// close closes them all, and those that are yet to come. A request that was on
// its way has had no effect.
func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.conns {
		_ = c.Close()
	}
}
