package server

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
)

// serveCalls answers the calls of other members until Shutdown.
func (s *Server) serveCalls(l net.Listener) {
	if err := s.calls.Serve(l); err != http.ErrServerClosed {
		s.log.Error().Err(err).Msg("calls that other replicas forward are not served any more")
	}
}

// newCalls is the server of other members' calls.
func (s *Server) newCalls() *http.Server {
	return &http.Server{
		Handler:   s.PeerHandler(),
		Protocols: callProtocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: mostStreams,
			SendPingTimeout:      quietFor, PingTimeout: pingTimeout, WriteByteTimeout: pingTimeout,
		},
		ReadHeaderTimeout: s.opts.HeaderTimeout, // for the connection's first bytes
		ReadTimeout:       s.opts.BodyTimeout,   // for each request's body
		IdleTimeout:       s.opts.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(logWriter{s.log}, "", 0),
	}
}

// logWriter takes the lines that package http writes of connections that break.
type logWriter struct{ log zerolog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// PeerHandler is the API for calls that other members have sent here: who they
// are was made sure of, and none is sent on.
func (s *Server) PeerHandler() http.Handler {
	engine := s.newEngine(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.served.enter() {
			s.tooManyServed(w)
			return
		}
		defer s.served.leave()
		serve(engine, w, r)
	})
}

func (s *Server) tooManyServed(w http.ResponseWriter) {
	e := lockapi.Errorf(lockapi.CodeTooMany, "this replica serves %d calls of other replicas, which is all that it may; make fewer calls that wait at once", s.served.most)
	s.stamp(w.Header())
	w.Header()["Content-Type"] = typeProblem
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	if b, err := encodeProblem(e.Problem()); err == nil {
		defer b.release()
		_, _ = w.Write(b.Bytes())
	}
}

// room counts what is under way, up to a bound.
type room struct {
	most int

	mu    sync.Mutex
	used  int
	empty chan struct{} // closed when nothing is under way; nil where nobody waits for that
}

func (r *room) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used >= r.most {
		return false
	}
	r.used++
	return true
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used--; r.used == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// count is how much is under way.
func (r *room) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// emptied waits until nothing is under way.
func (r *room) emptied(ctx context.Context) error {
	r.mu.Lock()
	if r.used == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	empty := r.empty
	r.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
