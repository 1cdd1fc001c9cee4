package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of Serve after Shutdown or Close.
var ErrClosed = errors.New("the server is closed")

// Server serves HTTP/1.1. Its fields are set before Serve and not changed after
// that.
type Server struct {
	// Handler answers the requests. Each arrives with its whole body. If the
	// body did not arrive, reading it returns the reason. The context of a
	// request ends when its connection has ended, even in one direction, or its
	// handler has returned. If a caller sends more than MaxHeaderBytes after a
	// request, the server stops reading, and closes the connection if the call
	// is still under way 5 s later. The ResponseWriter and the request's Header
	// must not be used after the handler has returned.
	//
	// A reply is sent with its length after the handler has returned. If the
	// handler flushes it (http.Flusher), the reply is sent in pieces from then
	// on.
	Handler http.Handler
	// TLS, if set, is used on all connections. If it has ALPN protocols, they are
	// http/1.1 alone. HeaderTimeout bounds the handshake.
	TLS *tls.Config

	HeaderTimeout time.Duration // for a request's line and headers
	BodyTimeout   time.Duration // for its body, after the headers
	WriteTimeout  time.Duration // for sending each 64 KiB of a reply, and each of its pieces
	IdleTimeout   time.Duration // for the next request; the longest of the read timeouts

	MaxHeaderBytes int // bound of a request's line and headers
	// MaxBody returns the maximum length of a request's body, given its head. A
	// longer body is not read, see http.MaxBytesError. It is not called for
	// requests without a body.
	MaxBody func(*http.Request) int64
	// MaxUnreadBytes bounds the total memory of replies that callers are slow
	// to read. Beyond it the oldest reply is cut off. 0 means no bound.
	MaxUnreadBytes int
	// MaxHalfBytes bounds the total memory of incomplete requests and of bytes
	// sent during calls under way. Beyond it the oldest request is refused with
	// 429, or its connection closed. 0 means no bound.
	MaxHalfBytes int

	// Refuse returns the complete reply, head and body, to an invalid request.
	// It is the connection's last reply. reason may be empty if the status is enough.
	Refuse func(status int, reason string) []byte
	// Waits is called when a connection begins to wait for a request, Calls
	// when a request has arrived completely. If Calls returns false, the
	// connection is closed without a call. They must not block.
	Waits func(net.Conn)
	Calls func(net.Conn) bool
	// Silent, if not nil, is called when each 64 KiB of a reply begin to wait for
	// the caller, after the handler has returned, and with a zero time when the
	// wait is over. It must not block.
	Silent func(net.Conn, time.Time)
	// Panicked is called after a handler's panic other than
	// http.ErrAbortHandler. The connection is closed after either.
	Panicked func(value any)

	unread, half ledger

	closing atomic.Bool
	mu      sync.Mutex
	open    map[*conn]struct{}
	listens []net.Listener
	empty   chan struct{} // created by Shutdown, closed when all connections have ended
}

// Serve accepts connections from l and answers their requests until Shutdown or
// Close, when it returns ErrClosed, or until l fails. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.add(l) {
		return ErrClosed
	}
	var pause time.Duration
	for {
		c, err := l.Accept()
		if err == nil {
			pause = 0
			s.ServeConn(c)
			continue
		}
		if s.closing.Load() {
			return ErrClosed
		}
		// A temporary error, such as too many open files, passes.
		if t, ok := err.(interface{ Temporary() bool }); !ok || !t.Temporary() {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		time.Sleep(pause)
	}
}

func (s *Server) add(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listens = append(s.listens, l)
	return true
}

// ServeConn answers the requests of one connection, as Serve does for accepted ones. It does not block.
func (s *Server) ServeConn(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	if s.open == nil {
		s.open = map[*conn]struct{}{}
	}
	s.open[c] = struct{}{}
	s.mu.Unlock()
	go c.run()
}

func (s *Server) ended(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.noteEmpty()
}

// noteEmpty wakes Shutdown when all connections have ended. s.mu is held.
func (s *Server) noteEmpty() {
	if s.empty != nil && len(s.open) == 0 {
		close(s.empty)
		s.empty = nil
	}
}

// Shutdown closes the listeners and every connection without a complete
// request. It waits until the calls under way have ended, each with the last
// reply of its connection. If ctx ends first, it returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop((*conn).closeWaiting)
	s.mu.Lock()
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.noteEmpty()
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the listeners and all connections, which ends the contexts of
// the calls under way. It does not wait for their handlers.
func (s *Server) Close() error {
	s.stop(func(c *conn) { c.abort(nil) })
	return nil
}

// stop prevents new connections and calls, and calls each for every connection.
func (s *Server) stop(each func(*conn)) {
	s.closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listens {
		_ = l.Close()
	}
	for c := range s.open {
		each(c)
	}
}
