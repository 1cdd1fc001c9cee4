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

// ErrClosed is what Serve ends with after Shutdown or Close.
var ErrClosed = errors.New("the server is closed")

// Server serves HTTP/1.1. Its fields are set before Serve and not changed
// after.
type Server struct {
	// Handler answers the requests. Each arrives with its whole body; one whose
	// body did not arrive has a Body that says why when it is read. The context of
	// a request is done when its connection has ended, also by half, or its
	// handler returned. Who sends more than MaxHeaderBytes behind a request is
	// read no further, and cut off where the call is still under way 5 s later.
	// The ResponseWriter and the request's Header may not be used when the handler
	// has returned.
	//
	// A reply is sent when the handler has returned, with its length, unless the
	// handler flushes it (http.Flusher): then it is sent in pieces from there on.
	Handler http.Handler
	// TLS, where it is set, is spoken on all connections, with http/1.1 as the
	// only protocol of ALPN. The handshake has HeaderTimeout.
	TLS *tls.Config

	HeaderTimeout time.Duration // for a request's line and headers
	BodyTimeout   time.Duration // for its body, from the end of the headers
	WriteTimeout  time.Duration // for each 64 KiB of a reply, and each of its pieces, to be taken
	IdleTimeout   time.Duration // for the next request of a connection; the longest of the times to read

	MaxHeaderBytes int // of a request's line and headers
	// MaxBody is asked for the longest body that is read of a request, whose head
	// is there; one that is longer is not read, see http.MaxBytesError. It is not
	// asked where there is no body.
	MaxBody func(*http.Request) int64
	// MaxUnreadBytes bounds what replies may take together that their callers are
	// slow to read; beyond it the oldest of them is cut off. 0 is no bound.
	MaxUnreadBytes int
	// MaxHalfBytes bounds what requests may take together that have not arrived
	// whole, and what is sent behind calls that are under way; beyond it the
	// oldest of them is refused with 429, or its connection closed. 0 is no bound.
	MaxHalfBytes int

	// Refuse makes the whole reply, head and body, to what is not a request: it is
	// the last one of its connection. reason is empty where there is nothing more
	// to say than the status does.
	Refuse func(status int, reason string) []byte
	// Waits is told that a connection begins to wait for a request, and Calls that
	// a request of it has arrived whole: false has the connection closed without a
	// call. They must not block.
	Waits func(net.Conn)
	Calls func(net.Conn) bool
	// Panicked is told of a handler's panic other than http.ErrAbortHandler. The
	// connection is closed then, as for that one.
	Panicked func(value any)

	unread unread
	half   half

	tlsOnce sync.Once
	tlsOwn  *tls.Config

	closing atomic.Bool
	mu      sync.Mutex
	open    map[*conn]struct{}
	listens map[net.Listener]struct{}
	empty   chan struct{} // made by Shutdown, closed when nothing is open any more
}

// Serve takes connections from l and answers their requests until Shutdown or
// Close, whose error is ErrClosed, or until l fails. It closes l.
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
			s.Take(c)
			continue
		}
		if s.closing.Load() {
			return ErrClosed
		}
		// Such as too many open files: it passes.
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
	if s.listens == nil {
		s.listens = map[net.Listener]struct{}{}
	}
	s.listens[l] = struct{}{}
	return true
}

// Take answers the requests of one connection, as Serve does of all that its
// listener accepts. It does not block.
func (s *Server) Take(nc net.Conn) {
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

// ended notes that c is closed.
func (s *Server) ended(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.noteEmpty()
}

// noteEmpty tells Shutdown when nothing is open. s.mu is held.
func (s *Server) noteEmpty() {
	if s.empty != nil && len(s.open) == 0 {
		close(s.empty)
		s.empty = nil
	}
}

// Shutdown closes the listeners and every connection that has not sent a whole
// request, lets the calls under way end, each with the last reply of its
// connection, and waits for that. When ctx ends first its error is returned.
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

// Close closes the listeners and all connections. The contexts of calls under
// way are done then; it does not wait for their handlers.
func (s *Server) Close() error {
	s.stop((*conn).abort)
	return nil
}

// stop lets nothing more begin, and does as told with every connection.
func (s *Server) stop(each func(*conn)) {
	s.closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listens {
		_ = l.Close()
	}
	for c := range s.open {
		each(c)
	}
}
